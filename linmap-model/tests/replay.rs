//! Logs: written, read back, and judged by the command.

use std::io::Write;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use linmap::{
    Attributes, Geometry, Granule, Half, Hardware, Level, OaFormat, Pa, Run, Scope, Tlbi, Tree, Va,
};
use linmap_model::{Core, Event, Expected, Mapping, Model, Register, Setup, replay};

/// A log that a test can look at while a model writes it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A page is unmapped, with its TLBI or without: the log.
fn unmapping(with_tlbi: bool) -> Vec<u8> {
    let g = Geometry::new(Granule::K64, 52, OaFormat::Lpa).unwrap();
    let setup = Setup { tables_at: 0xa_0000_0001_0000, ..Setup::new(g, &[Core::STRONG, Core::WEAK]) };
    let model = Model::new(&setup).unwrap().quietly();
    let setup = model.setup();
    let log = Shared::default();
    model.log_to(log.clone()).unwrap();
    let (cpu, base) = (model.cpu(0), Va(g.base(Half::Upper)));
    let page = Run {
        va: base,
        oa: Pa(0),
        attributes: Attributes::RAM,
        level: Level::PAGE,
        contiguous: false,
        descriptors: 1,
    };
    let tree = Tree::build(&cpu, g, Half::Upper, [page].into_iter()).unwrap();
    let table = tree.root();
    cpu.begins(table, "create", &[Expected::new(base, 1 << 16, Some(Mapping::new(Pa(0), Attributes::RAM)))]);
    cpu.dsb(linmap::Dsb::Ishst);
    cpu.done(true);
    cpu.loads(Register::Ttbr1, tree.into_root().pa());
    cpu.begins(table, "unmap", &[Expected::new(base, 1 << 16, None)]);
    // The last table that was taken is that of the pages.
    let pages = Pa(setup.tables_at + 2 * g.page_size());
    cpu.step(Event::write(0, pages, 0, 0));
    cpu.dsb(linmap::Dsb::Ishst);
    if with_tlbi {
        cpu.tlbi(Tlbi::Page(base, Scope::LastLevel), g);
    }
    cpu.dsb(linmap::Dsb::Ish);
    cpu.isb();
    cpu.done(true);
    std::mem::take(&mut *log.0.lock().unwrap())
}

fn command(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linmap-model")).args(arguments).output().expect("the command runs")
}

fn replayed(text: &[u8]) -> (Option<i32>, String, String) {
    let path = std::env::temp_dir().join(format!("linmap-model-{}-{:x}.log", std::process::id(), text.len()));
    std::fs::write(&path, text).expect("a file");
    let output = command(&["replay", path.to_str().expect("a name")]);
    std::fs::remove_file(&path).expect("the file");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_log_replays_to_the_same_verdict() {
    let right = unmapping(true);
    let lines = right.iter().filter(|b| **b == b'\n').count();
    assert_eq!(replay(&*right).expect("no breach"), lines - 1, "every line but the first is an event");
    let (code, out, _) = replayed(&right);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.ends_with(&format!("{} events, no rule broken\n", lines - 1)), "{out}");

    let (code, out, _) = replayed(&unmapping(false));
    assert_eq!(code, Some(1), "{out}");
    for fact in ["Stale: ", "address  0xfff0000000000000", "no TLBI was issued since event", "done\n"] {
        assert!(out.contains(fact), "{fact} is not in\n{out}");
    }
}

/// Each event comes back from its line as it was.
#[test]
fn events_survive_their_lines() {
    for text in String::from_utf8(unmapping(true)).unwrap().lines().skip(1) {
        let event: Event = serde_json::from_str(text).expect(text);
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }
}

#[test]
fn what_is_no_log_is_refused_with_its_line() {
    let machine = String::from_utf8(unmapping(true)).unwrap().lines().next().unwrap().to_owned();
    let rows = [
        (String::new(), "line 1: no line describes the machine"),
        ("{}\n".into(), "line 1: missing field"),
        (format!("{machine}\nwrite\n"), "line 2: expected value"),
        (format!("{machine}\n\n{{\"event\":\"dbs\",\"cpu\":0}}\n"), "line 3: unknown variant `dbs`"),
        (machine.replace("64k", "8k"), "line 1: \"8k\" is none of 4k, 16k, 64k"),
        (machine.replace("\"va_bits\":52", "\"va_bits\":99"), "line 1: 99 VA bits"),
        (machine.replace("\"tables\":1024", "\"tables\":99999999999"), "line 1: 99999999999 table pages"),
        (machine.replace("\"cpus\":[", "\"cpus\":[],\"was\":["), "line 1: 0 CPUs"),
    ];
    for (text, said) in rows {
        let (code, _, err) = replayed(text.as_bytes());
        assert_eq!(code, Some(2), "{text}");
        assert!(err.contains(said), "{said} is not in {err}");
    }
    let (code, _, err) = replayed(&[0xff, 0xfe, b'\n']);
    assert!(code == Some(2) && err.contains("line 1: "), "{err}");
    let missing = command(&["replay", "no/such/log"]);
    assert_eq!(missing.status.code(), Some(2));
}

/// An event of a CPU that does not exist, a table that is none: a breach, never a panic.
#[test]
fn nonsense_events_are_judged() {
    let machine = String::from_utf8(unmapping(true)).unwrap().lines().next().unwrap().to_owned();
    let events = [
        r#"{"event":"isb","cpu":9}"#,
        r#"{"event":"write","cpu":0,"table":"0xffffffffffffffff","index":0,"value":"0x1"}"#,
        r#"{"event":"write","cpu":0,"table":"0xa000000010000","index":18446744073709551615,"value":"0x1","count":2}"#,
        r#"{"event":"free","cpu":0,"table":"0x1"}"#,
        r#"{"event":"msr","cpu":0,"register":"ttbr1","value":"0xffffffffffffffff"}"#,
        r#"{"event":"begin","cpu":0,"root":"0x0","name":"x","changes":[{"va":"0xffffffffffff0000","bytes":"0x20000","to":null}]}"#,
        r#"{"event":"done","cpu":0,"ok":true}"#,
        r#"{"event":"unpark","cpu":0}"#,
        r#"{"event":"tlbi","cpu":0,"op":"rvaae1is","operand":"0xffffffffffffffff"}"#,
    ];
    for event in events {
        let (code, out, err) = replayed(format!("{machine}\n{event}\n").as_bytes());
        assert_eq!(code, Some(1), "{event}: {out}{err}");
    }
}
