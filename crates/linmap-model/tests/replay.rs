//! Logs: written, read back, and judged by the command.

use std::process::{Command, Output, Stdio};

use linmap::arch::{Level, Scope, Tlbi};
use linmap::layout::Run;
use linmap::{
    Attributes, Change, Geometry, Granule, Half, Hardware, Memory, OaFormat, Pa, Policy, SharedSpace, Tree,
    Va,
};
use linmap_model::{Core, Event, Expected, Mapping, Model, OnCpu, Register, ReplayError, Setup, replay};
use test_support::Log;

/// A page of RAM.
fn page_at(va: Va) -> Run {
    Run { va, oa: Pa(0), attributes: Attributes::RAM, level: Level::PAGE, contiguous: false, descriptors: 1 }
}

/// A page is unmapped, with its TLBI or without: the log.
fn unmapping(with_tlbi: bool) -> Vec<u8> {
    let g = Geometry::new(Granule::K64, 52, OaFormat::Lpa).unwrap();
    let setup = Setup { tables_at: 0xa_0000_0001_0000, ..Setup::new(g, &[Core::STRONG, Core::WEAK]) };
    let model = Model::new(&setup).unwrap().quietly();
    let setup = model.setup();
    let log = Log::default();
    model.log_to(log.clone()).unwrap();
    let (cpu, base) = (model.cpu(0), Va(g.base(Half::Upper)));
    let page = page_at(base);
    let tree = Tree::build(&cpu, g, Half::Upper, [page].into_iter()).unwrap();
    let table = tree.root();
    cpu.begins(table, "create", &[Expected::new(base, 1 << 16, Some(Mapping::new(Pa(0), Attributes::RAM)))]);
    cpu.dsb(linmap::Dsb::Ishst);
    cpu.done(true);
    cpu.loads(Register::Ttbr1, tree.into_root().pa());
    cpu.begins(table, "unmap", &[Expected::new(base, 1 << 16, None)]);
    // The third table that was taken is that of the pages.
    let pages = Pa(setup.tables_at + (2 << 16u32));
    cpu.step(Event::write(0, pages, 0, 0));
    cpu.dsb(linmap::Dsb::Ishst);
    if with_tlbi {
        cpu.tlbi(Tlbi::Page(base, Scope::LastLevel), g);
    }
    cpu.dsb(linmap::Dsb::Ish);
    cpu.isb();
    cpu.done(true);
    log.take()
}

fn command(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linmap-model")).args(arguments).output().expect("the command runs")
}

fn replayed(text: &[u8]) -> (Option<i32>, String, String) {
    judged(&["replay"], text)
}

/// Runs the command on a log.
fn judged(arguments: &[&str], text: &[u8]) -> (Option<i32>, String, String) {
    let path = std::env::temp_dir().join(format!("linmap-model-{}-{:x}.log", std::process::id(), text.len()));
    std::fs::write(&path, text).expect("a file");
    let output = command(&[arguments, &[path.to_str().expect("a name")]].concat());
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

/// Without what it announces a missing TLBI is a suspect, which fails if that is asked for.
#[test]
fn a_log_is_judged_as_if_it_announced_nothing() {
    let (observed, strict) = (&["replay", "--observed"][..], &["replay", "--observed", "--strict"][..]);
    for arguments in [observed, strict] {
        let (code, out, err) = judged(arguments, &unmapping(true));
        assert!(code == Some(0) && out.ends_with("0 breaches, 0 suspects, 0 hints\n"), "{out}{err}");
    }
    for (arguments, expected) in [(observed, 0), (strict, 1)] {
        let (code, out, err) = judged(arguments, &unmapping(false));
        assert_eq!(code, Some(expected), "{out}{err}");
        for fact in ["suspect: Stale: ", "address  0xfff0000000000000", "no invalidation came", "1 suspects"]
        {
            assert!(out.contains(fact), "{fact} is not in\n{out}");
        }
    }
    // A place in the code is a member of any line, and names a finding.
    let with_places = String::from_utf8(unmapping(false))
        .expect("UTF-8")
        .replace("\"cpu\":0", "\"cpu\":0,\"pc\":\"0xabcd\"");
    let (_, out, _) = judged(observed, with_places.as_bytes());
    assert!(out.contains(" of cpu 0 at 0xabcd"), "{out}");
    for (log, said) in [
        ("", "no line describes the machine"),
        ("{}", "line 1"),
        ("nothing", "line 1: expected a JSON object"),
    ] {
        let (code, out, err) = judged(observed, log.as_bytes());
        assert!(code == Some(2) && out.is_empty() && err.contains(said), "{err}");
    }
    let mut twice = unmapping(true);
    twice.extend_from_within(..);
    let (code, _, err) = judged(observed, &twice);
    assert!(code == Some(2) && err.contains("a second machine"), "{err}");
}

/// Pages are mapped, one of them in a table of its own, cut out of a block, joined again, and unmapped.
fn goes_on(space: &SharedSpace, cpu: OnCpu<'_>, g: Geometry) {
    let (block, page, pa) = (g.level_size(Level::new(2)), g.page_size(), Pa(4 << 30));
    let va = Va(g.base(Half::Upper) + 4 * block);
    let range = |to| [Expected::new(va, block + page, to)];
    let read_only = Mapping::new(pa, Attributes::RAM | Attributes::READ_ONLY);
    let pages = block / page;
    space.set_policy(Policy::Park);
    cpu.begins(space.root(), "map", &range(Some(Mapping::new(pa, Attributes::RAM))));
    // SAFETY: the memory is the model's.
    cpu.done(unsafe { space.on(&cpu).map(va, pages + 1, pa, Attributes::RAM) }.is_ok());
    cpu.begins(space.root(), "protect", &[Expected::new(va, page, Some(read_only))]);
    // SAFETY: as above.
    cpu.done(unsafe { space.on(&cpu).protect(va, 1, Change::READ_ONLY) }.is_ok());
    cpu.begins(space.root(), "unmap", &range(None));
    // SAFETY: as above.
    cpu.done(unsafe { space.on(&cpu).unmap(va, pages + 1) }.is_ok());
}

/// A page is unmapped by hand, with its TLBI or without, and the library goes on: the log, and whether there was a breach.
fn going_on(g: Geometry, with_tlbi: bool) -> (String, bool) {
    let model = Model::new(&Setup::new(g, &[Core::STRONG, Core::WEAK])).unwrap().quietly();
    let log = Log::default();
    model.log_to(log.clone()).unwrap();
    let (cpu, base) = (model.cpu(0), Va(g.base(Half::Upper)));
    let page = page_at(base);
    let tree = Tree::build(&cpu, g, Half::Upper, [page].into_iter()).unwrap();
    let mut slot = linmap::Slot { table: tree.root(), index: 0 };
    cpu.announces(tree.root(), [page]);
    let space = SharedSpace::adopt(tree);
    cpu.loads(Register::Ttbr1, cpu.empty_table());
    for cpu in [cpu, model.cpu(1)] {
        cpu.reports();
        cpu.loads(Register::Ttbr1, space.root());
    }
    let mut level = g.root();
    // SAFETY: the memory is the model's.
    unsafe {
        while let linmap::arch::Entry::Table(child) = cpu.load(slot).decode(g, level) {
            (slot.table, level) = (child, level.next());
        }
        cpu.begins(space.root(), "by hand", &[Expected::new(base, g.page_size(), None)]);
        cpu.store(slot, linmap::arch::Descriptor::HOLE);
    }
    cpu.dsb(linmap::Dsb::Ishst);
    if with_tlbi {
        cpu.tlbi(Tlbi::Page(base, Scope::LastLevel), g);
    }
    cpu.dsb(linmap::Dsb::Ish);
    cpu.isb();
    cpu.done(true);
    goes_on(&space, cpu, g);
    let lines = log.take();
    (String::from_utf8(lines).unwrap(), model.verdict().is_err())
}

/// After a breach the log goes on with every step of the code under test: the TLBI is all that it lacks.
#[test]
fn a_log_keeps_what_follows_a_breach() {
    for granule in [Granule::K4, Granule::K16, Granule::K64] {
        let g = Geometry::new(granule, 48, OaFormat::Bits48).unwrap();
        let (right, breach) = going_on(g, true);
        assert!(!breach, "{granule:?}");
        let events = replay(right.as_bytes()).expect("no breach");
        let (wrong, breach) = going_on(g, false);
        assert!(breach, "{granule:?}");
        let Err(ReplayError::Breach { line, later, .. }) = replay(wrong.as_bytes()) else {
            panic!("no breach in the log")
        };
        // All lines but the first are events, and those up to `line` were judged.
        assert_eq!(line - 1 + later, events - 1, "{granule:?}");

        // With the TLBI it is the log of a right run.
        let tlbi = right.lines().position(|l| l.contains("\"tlbi\"")).expect("a TLBI");
        let mut lines: Vec<&str> = wrong.lines().collect();
        lines.insert(tlbi, right.lines().nth(tlbi).unwrap());
        assert_eq!(replay(lines.join("\n").as_bytes()).expect("no breach"), events, "{granule:?}");
        let (code, out, _) = replayed(wrong.as_bytes());
        assert_eq!(code, Some(1));
        assert!(out.ends_with(&format!("  {later} more events follow, which are not judged\n")), "{out}");
    }
}

/// Each event comes back from its line as it was.
#[test]
fn events_survive_their_lines() {
    for text in String::from_utf8(unmapping(true)).unwrap().lines().skip(1) {
        let event: Event = serde_json::from_str(text).expect(text);
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }
    for text in [r#"{"event":"readbegin","cpu":2}"#, r#"{"event":"readend","cpu":2}"#] {
        let event: Event = serde_json::from_str(text).expect(text);
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }
}

/// A log of the first version, which knew fewer features of CPUs and no long names of registers. It is never stored again.
#[test]
fn an_older_log_replays() {
    let log = include_bytes!("older.jsonl");
    assert_eq!(replay(&log[..]).expect("no breach"), 76);
    let wrong: Vec<&str> = include_str!("older.jsonl").lines().filter(|l| !l.contains("\"tlbi\"")).collect();
    assert!(matches!(replay(wrong.join("\n").as_bytes()), Err(ReplayError::Breach { .. })));
}

fn no_cpus(machine: &str) -> String {
    let (before, cpus) = machine.split_once("\"cpus\":[").expect("CPUs");
    let (_, after) = cpus.split_once(']').expect("their end");
    format!("{before}\"cpus\":[]{after}")
}

/// Mistakes of typing among them: nothing in a line is ignored.
#[test]
fn what_is_no_log_is_refused_with_its_line() {
    let machine = String::from_utf8(unmapping(true)).unwrap().lines().next().unwrap().to_owned();
    let with = |event: &str| format!("{machine}\n{event}\n");
    let begin =
        |change: &str| format!(r#"{{"event":"begin","cpu":0,"root":"0x0","name":"x","changes":[{change}]}}"#);
    let rows = [
        (String::new(), "line 1: no line describes the machine"),
        ("{}\n".into(), "line 1: the first line must describe the machine: {\"event\":\"machine\", ...}"),
        ("{\"event\":\"isb\",\"cpu\":0}\n".into(), "line 1: the first line must describe the machine"),
        (machine.replace("\"machine\"", "\"dsb\""), "line 1: the first line must describe the machine"),
        ("a\n".into(), "line 1: expected a JSON object"),
        (format!("{machine}\nwrite\n"), "line 2: expected a JSON object"),
        (format!("{machine}\n{machine}\n"), "line 2: a second machine"),
        (format!("{machine}\n\n{{\"event\":\"dbs\",\"cpu\":0}}\n"), "line 3: unknown variant `dbs`"),
        (machine.replace("64k", "8k"), "line 1: \"8k\" is none of 4k, 16k, 64k"),
        (machine.replace("\"va_bits\":52", "\"va_bits\":99"), "line 1: 99 VA bits"),
        (machine.replace("\"tables\":1024", "\"tables\":99999999999"), "line 1: 99999999999 table pages"),
        (machine.replace("\"cpus\":[", "\"cpus\":[],\"was\":["), "line 1: unknown field `was`"),
        (machine.replace("never_aborts", "never_abort"), "line 1: unknown field `never_abort`"),
        (no_cpus(&machine), "line 1: 0 CPUs"),
        (with(r#"{"event":"dsb","cpu":0,"kind":"ish","domain":1}"#), "line 2: unknown field `domain`"),
        (with(&begin(r#"{"va":"0x0","bytes":"0x10000"}"#)), "line 2: missing field `to`"),
        (with(&begin(r#"{"va":"0x0","bytes":"0x10000","to":null,"too":1}"#)), "line 2: unknown field `too`"),
        (
            with(&begin(r#"{"va":"0x0","bytes":"0x10000","to":{"pa":"0x0","attributes":"0x0","size":1}}"#)),
            "line 2: unknown field `size`",
        ),
        (
            with(r#"{"event":"free","cpu":0,"table":"1000"}"#),
            "line 2: \"1000\": expected a text like \"0x1000\"",
        ),
        (
            with(r#"{"event":"free","cpu":0,"table":"0x+1"}"#),
            "line 2: \"0x+1\": expected a text like \"0x1000\"",
        ),
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

/// A reader may close standard output early. Where it cannot be written for another reason, that is an error.
#[test]
fn standard_output_closes_or_is_full() {
    let path = std::env::temp_dir().join(format!("linmap-model-{}-closed.log", std::process::id()));
    std::fs::write(&path, unmapping(false)).expect("a file");
    let run = |output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linmap-model"));
        command.arg("replay").arg(&path).stdout(output).stderr(Stdio::piped());
        let output = command.output().expect("the command runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(run(writer.into()), (Some(1), String::new()));
    if let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") {
        let (code, err) = run(full.into());
        assert!(code == Some(2) && err.contains("standard output: "), "{err}");
    }
    std::fs::remove_file(&path).expect("the file");
}

#[test]
fn a_directory_and_standard_input_are_named() {
    let output = command(&["replay", env!("CARGO_MANIFEST_DIR")]);
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.code() == Some(2) && err.ends_with(": is a directory\n"), "{err}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap-model"));
    let output = command.args(["replay", "-"]).stdin(Stdio::null()).output().expect("the command runs");
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(err, "linmap-model: standard input: line 1: no line describes the machine\n");
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
        r#"{"event":"readend","cpu":0}"#,
        r#"{"event":"tlbi","cpu":0,"op":"rvaae1is","operand":"0xffffffffffffffff"}"#,
    ];
    for event in events {
        let (code, out, err) = replayed(format!("{machine}\n{event}\n").as_bytes());
        assert_eq!(code, Some(1), "{event}: {out}{err}");
    }
}
