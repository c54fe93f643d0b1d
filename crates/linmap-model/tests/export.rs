//! Logs for other checkers: small ones as they must be, every event expressed or refused by name, and no panic on any log.

use std::process::{Command, Output};

use linmap::arch::{Descriptor, Leaf, Level};
use linmap::{Attributes, Geometry, Granule, Half, OaFormat, Pa};
use linmap_model::export::{Inexpressible, Question, Why, casemate, herd};
use linmap_model::observed::{Observer, Told};
use linmap_model::{Access, Barrier, CacheOp, Core, Event, Expected, Register, Setup, Tlb, Update, Word};
use test_support::{Random, geometries};

const ROOT: u64 = 0x1000_0000;
const MIDDLE: u64 = ROOT + 0x1000;
const PAGES: u64 = ROOT + 0x2000;

fn geometry() -> Geometry {
    Geometry::new(Granule::K4, 39, OaFormat::Bits48).unwrap()
}

fn base() -> u64 {
    geometry().base(Half::Upper)
}

fn setup() -> Setup {
    Setup { tables: 8, ..Setup::new(geometry(), &[Core::STRONG; 2]) }
}

fn page(oa: u64, attributes: Attributes) -> u64 {
    let leaf = Leaf { oa: Pa(oa), attributes, contiguous: false, valid: true };
    Descriptor::leaf(leaf, geometry(), Level::PAGE).0
}

fn table(pa: u64) -> u64 {
    Descriptor::table(Pa(pa), geometry()).0
}

/// A page is mapped, and both CPUs use it.
fn in_use() -> Vec<Event> {
    let mut events = Vec::new();
    let entries =
        [(PAGES, page(0x4000_0000, Attributes::RAM)), (MIDDLE, table(PAGES)), (ROOT, table(MIDDLE))];
    for (table, entry) in entries {
        events.push(Event::Alloc { cpu: 0, table });
        events.push(Event::Write { cpu: 0, table, index: 0, value: 0, count: 512, step: 0, was: None });
        events.push(Event::write(0, Pa(table), 0, entry));
    }
    events.push(Event::Dsb { cpu: 0, kind: Barrier::Ishst });
    for cpu in [0, 1] {
        events.push(Event::Msr { cpu, register: Register::Ttbr1, value: ROOT });
        events.push(Event::Isb { cpu });
    }
    events
}

/// The page is replaced by another entry, with its TLBI.
fn replaced(name: &str, value: u64) -> Vec<Event> {
    let changes = vec![Expected::new(linmap::Va(base()), 0x1000, None)];
    let tlbi = Event::Tlbi { cpu: 0, op: Tlb::Vaale1is, operand: (base() & ((1 << 56) - 1)) >> 12 };
    let operation = [
        Event::Begin { cpu: 0, root: ROOT, name: name.into(), changes },
        Event::write(0, Pa(PAGES), 0, value),
        Event::Dsb { cpu: 0, kind: Barrier::Ishst },
        tlbi,
        Event::Dsb { cpu: 0, kind: Barrier::Ish },
        Event::Isb { cpu: 0 },
        Event::Done { cpu: 0, ok: true },
    ];
    in_use().into_iter().chain(operation).collect()
}

fn litmus(events: &[Event]) -> Result<String, Inexpressible> {
    herd(&setup(), events, &Question::default())
}

#[test]
fn a_trace_for_casemate() {
    let trace = casemate(&setup(), &replaced("unmap", 0)).unwrap();
    assert_eq!(trace, include_str!("export/unmap.log"));
}

#[test]
fn litmus_tests_for_herd() {
    let read_only = page(0x4000_0000, Attributes::RAM | Attributes::READ_ONLY);
    for (name, value, test) in [
        ("unmap", 0, include_str!("export/unmap.litmus")),
        ("protect", read_only, include_str!("export/protect.litmus")),
    ] {
        assert_eq!(litmus(&replaced(name, value)).unwrap(), test, "{name}");
    }
}

/// A page comes with a table: the return of the operation, and the publication of the table.
#[test]
fn the_publication_of_a_table() {
    let mut events = in_use();
    let (va, pages, entry) = (base() + (1 << 21), PAGES + 0x1000, page(0x8000_0000, Attributes::RAM));
    let changes = vec![Expected::new(linmap::Va(va), 0x1000, None)];
    events.extend([
        Event::Begin { cpu: 0, root: ROOT, name: "map".into(), changes },
        Event::Alloc { cpu: 0, table: pages },
        Event::Write { cpu: 0, table: pages, index: 0, value: 0, count: 512, step: 0, was: None },
        Event::write(0, Pa(pages), 0, entry),
        Event::Dsb { cpu: 0, kind: Barrier::Ishst },
        Event::write(0, Pa(MIDDLE), 1, table(pages)),
        Event::Dsb { cpu: 0, kind: Barrier::Ishst },
        Event::Isb { cpu: 0 },
        Event::Done { cpu: 0, ok: true },
    ]);
    assert_eq!(litmus(&events).unwrap(), include_str!("export/map.litmus"));
    let publication =
        |va| herd(&setup(), &events, &Question { va, publication: true, ..Question::default() });
    assert_eq!(publication(None).unwrap(), include_str!("export/publication.litmus"));
    assert_eq!(publication(Some(base())).unwrap_err().why, Why::NothingPublished { va: base() });
}

/// Events that the formats have not are refused by name.
#[test]
fn what_cannot_be_expressed_is_named() {
    let right = replaced("unmap", 0);
    let inside = right.len() - 2;
    let line = 0x4000_0000;
    let rows: [(Event, Option<&str>, Option<&str>); 20] = [
        (Event::Dsb { cpu: 0, kind: Barrier::Nsh }, Some("no DSB for one CPU alone"), None),
        (Event::Tlbi { cpu: 0, op: Tlb::Vmalle1, operand: 0 }, Some("no TLBI for one CPU alone"), None),
        (
            Event::Tlbi { cpu: 0, op: Tlb::Aside1is, operand: 0 },
            Some("no TLBI by ASID"),
            Some("no TLBI of that form"),
        ),
        (Event::Park { cpu: 0 }, Some("no CPUs that leave the map"), None),
        (Event::Report { cpu: 0 }, None, None),
        (Event::Code { cpu: 0, pa: line }, Some("no instructions"), Some("no instructions")),
        (
            Event::Cache { cpu: 0, op: CacheOp::DcCvau, pa: line },
            Some("no instructions"),
            Some("no instructions"),
        ),
        (Event::Execute { cpu: 0, pa: line }, Some("no instructions"), Some("no instructions")),
        (
            Event::Msr { cpu: 0, register: Register::Ttbr1, value: MIDDLE },
            Some("a second tree is loaded"),
            None,
        ),
        (
            Event::Cas { cpu: 0, table: PAGES, index: 0, was: 0, value: 0 },
            Some("no compare-and-swap"),
            Some("no compare-and-swap"),
        ),
        (
            Event::Update { cpu: 0, table: PAGES, index: 0, what: Update::Accessed },
            Some("no updates of entries"),
            Some("no updates of entries"),
        ),
        (Event::Give { cpu: 0, pa: line, bytes: 0x1000 }, None, None),
        (Event::ReadBegin { cpu: 1 }, None, None),
        (Event::Reset { cpu: 0 }, Some("no CPUs that are reset"), Some("no CPUs that are reset")),
        (Event::Access { cpu: 0, va: base(), how: Access::Read }, None, Some("no accesses in the operation")),
        (
            Event::Msr { cpu: 0, register: Register::Tcr, value: 0 },
            Some("no registers of EL1"),
            Some("no registers"),
        ),
        (Event::Dsb { cpu: 0, kind: Barrier::Ishnxs }, Some("no nXS"), Some("no nXS")),
        (Event::Isb { cpu: 1 }, None, Some("another CPU takes part")),
        (Event::write(0, Pa(PAGES), 512, 0), Some("no such CPU"), Some("no such CPU")),
        (Event::Isb { cpu: 2 }, Some("no such CPU"), Some("no such CPU")),
    ];
    for (event, by_casemate, by_herd) in rows {
        let mut events = right.clone();
        events.insert(inside, event.clone());
        let results = [casemate(&setup(), &events), litmus(&events)];
        for (result, why) in results.into_iter().zip([by_casemate, by_herd]) {
            match (result, why) {
                (Ok(_), None) => {}
                (Err(error), Some(why)) => {
                    let text = error.to_string();
                    assert!(text.contains(why) && text.contains(&event.to_string()), "{text}");
                }
                (result, why) => panic!("{event}: {result:?} is not {why:?}"),
            }
        }
    }
}

#[test]
fn machines_and_operations_that_do_not_fit_are_named() {
    let right = replaced("unmap", 0);
    let other = Geometry::new(Granule::K16, 47, OaFormat::Bits48).unwrap();
    let why = casemate(&Setup::new(other, &[Core::STRONG]), &[]).unwrap_err().to_string();
    assert_eq!(why, "the checker has only 4K pages, 48 bits of addresses");
    let why = casemate(&Setup::new(geometry(), &[Core::STRONG; 5]), &[]).unwrap_err().to_string();
    assert_eq!(why, "the checker has 4 CPUs");

    // A live store that no operation announces.
    let mut events = in_use();
    events.push(Event::write(0, Pa(PAGES), 0, 0));
    assert_eq!(casemate(&setup(), &events).unwrap_err().why, Why::OutsideOperation);
    assert_eq!(litmus(&events).unwrap_err().why, Why::NoOperation);

    let at = |va| Question { va: Some(va), ..Question::default() };
    let elsewhere = base() + 0x1000;
    let why = herd(&setup(), &right, &at(elsewhere)).unwrap_err().why;
    assert_eq!(why, Why::Unchanged { va: elsewhere });
    // Another memory type.
    let device = replaced("to a device", page(0x4000_0000, Attributes::DEVICE));
    assert_eq!(litmus(&device).unwrap_err().why, Why::Attributes { va: base() });
}

/// A TLBI for another address, or for another size, is none for this one.
#[test]
fn a_tlbi_that_does_not_reach_the_address_is_left_out() {
    let mut events = replaced("unmap", 0);
    let at = events.iter().position(|e| matches!(e, Event::Tlbi { .. })).unwrap();
    let right = litmus(&events).unwrap();
    assert!(right.contains("TLBI VAALE1IS"));
    // Another page; level 2; pages of 16K.
    for wrong in [1, 6 << 44, 11 << 44] {
        let mut twin = events.clone();
        if let Event::Tlbi { operand, .. } = &mut twin[at] {
            *operand ^= wrong;
        }
        assert!(!litmus(&twin).unwrap().contains("TLBI"), "{wrong:#x}");
    }
    events.remove(at);
    assert!(!litmus(&events).unwrap().contains("TLBI"));
}

/// The number of kinds of events.
const KINDS: usize = 27;

/// Returns the number of an event's kind: a new kind is missed here.
const fn kind(event: &Event) -> usize {
    match event {
        Event::Write { .. } => 0,
        Event::Cas { .. } => 1,
        Event::Update { .. } => 2,
        Event::Dsb { .. } => 3,
        Event::Isb { .. } => 4,
        Event::Tlbi { .. } => 5,
        Event::Msr { .. } => 6,
        Event::Reset { .. } => 7,
        Event::Park { .. } => 8,
        Event::Unpark { .. } => 9,
        Event::Report { .. } => 10,
        Event::Alloc { .. } => 11,
        Event::Free { .. } => 12,
        Event::Begin { .. } => 13,
        Event::Done { .. } => 14,
        Event::Give { .. } => 15,
        Event::Take { .. } => 16,
        Event::Code { .. } => 17,
        Event::Cache { .. } => 18,
        Event::Execute { .. } => 19,
        Event::Access { .. } => 20,
        Event::ReadBegin { .. } => 21,
        Event::ReadEnd { .. } => 22,
        Event::Link { .. } => 23,
        Event::Release { .. } => 24,
        Event::Leave { .. } => 25,
        Event::Exception { .. } => 26,
    }
}

const BARRIERS: [Barrier; 12] = [
    Barrier::Ishst,
    Barrier::Ish,
    Barrier::Nshst,
    Barrier::Nsh,
    Barrier::Oshst,
    Barrier::Osh,
    Barrier::St,
    Barrier::Sy,
    Barrier::Ishnxs,
    Barrier::Nshnxs,
    Barrier::Oshnxs,
    Barrier::Synxs,
];
const CACHE_OPS: [CacheOp; 5] =
    [CacheOp::DcCvau, CacheOp::IcIvau, CacheOp::DcIvac, CacheOp::DcCivac, CacheOp::DcCvac];
const ACCESSES: [Access; 4] = [Access::Read, Access::Write, Access::Execute, Access::Tag];

/// An event of any kind, often with values that mean nothing. What exporters express comes more often.
fn any_event(rng: &mut Random, g: Geometry) -> Event {
    let cpu = rng.below(3) as u8;
    let mut number = || {
        let base = g.base(Half::Upper);
        let known = [0, 1, ROOT, MIDDLE, PAGES, PAGES + 0x1000, base, table(ROOT), table(PAGES), u64::MAX];
        if rng.one_in(8) { rng.bits() } else { rng.of(&known) }
    };
    let (table, value, other) = (number(), number(), number());
    let index = if other > 600 { 0 } else { other as usize };
    let change = Expected::new(linmap::Va(value), other, None);
    match rng.below(34) {
        0..=2 => Event::write(cpu, Pa(table), index, value),
        3 => {
            let (index, count) = (value as usize, other as usize);
            Event::Write { cpu, table, index, value, count, step: 8, was: rng.one_in(2).then_some(other) }
        }
        4 | 5 => Event::Dsb { cpu, kind: rng.of(&[Barrier::Ish, Barrier::Ishst]) },
        6 => Event::Dsb { cpu, kind: rng.of(&BARRIERS) },
        7 => Event::Isb { cpu },
        8 | 9 => Event::Tlbi { cpu, op: rng.of(Tlb::ALL), operand: value },
        10 => Event::Msr { cpu, register: rng.of(Register::ALL), value: table },
        11 => Event::Alloc { cpu, table },
        12 => Event::Free { cpu, table },
        13 | 14 => Event::Begin { cpu, root: table, name: "any: \"name\"\n".into(), changes: vec![change] },
        15 => Event::Done { cpu, ok: rng.one_in(2) },
        16 => Event::Reset { cpu },
        17 => Event::Report { cpu },
        18 => Event::Park { cpu },
        19 => Event::Unpark { cpu },
        20 => Event::Cas { cpu, table, index, was: other, value },
        21 => Event::Update { cpu, table, index, what: rng.of(&[Update::Accessed, Update::Dirty]) },
        22 => Event::Give { cpu, pa: value, bytes: other },
        23 => Event::Take { cpu, pa: value, bytes: other },
        24 => Event::Code { cpu, pa: value },
        25 => Event::Cache { cpu, op: rng.of(&CACHE_OPS), pa: value },
        26 => Event::Execute { cpu, pa: value },
        27 => Event::ReadBegin { cpu },
        28 => Event::ReadEnd { cpu },
        29 => Event::Link {
            cpu,
            table,
            words: vec![(index, Word(value)), (2, Word(other))],
            unordered: vec![cpu],
        },
        30 => Event::Release { cpu },
        31 => Event::Leave { cpu },
        32 => Event::Exception { cpu },
        _ => Event::Access { cpu, va: value, how: rng.of(&ACCESSES) },
    }
}

#[test]
fn no_log_makes_exporters_or_observers_panic() {
    let all = geometries();
    let mut drawn = [0; KINDS];
    test_support::each(4000, |seed| {
        let mut rng = Random::new(seed);
        let mut events = if rng.one_in(2) { in_use() } else { replaced("x", 0) };
        // Often the one to which the tables belong.
        let g = if rng.one_in(2) { geometry() } else { rng.of(&all) };
        for _ in 0..rng.below(12) {
            let at = rng.below(events.len() as u64 + 1) as usize;
            let event = any_event(&mut rng, g);
            drawn[kind(&event)] += 1;
            events.insert(at, event);
        }
        let operation = rng.one_in(2).then(|| rng.below(3) as usize);
        let question =
            Question { operation, va: rng.one_in(4).then(|| rng.bits()), publication: rng.one_in(3) };
        let setup = Setup { tables: 8, ..Setup::new(g, &[Core::STRONG; 3][..1 + rng.index(3)]) };
        for text in [casemate(&setup, &events), herd(&setup, &events, &question)] {
            if let Err(why) = text {
                assert!(!why.to_string().is_empty());
            }
        }
        let mut observer = Observer::new(&setup, Told::default()).unwrap();
        events.iter().for_each(|event| observer.step(event, 0));
        observer.finish();
        assert!(observer.findings().all(|finding| !finding.to_string().is_empty()));
    });
    assert!(test_support::is_one() || drawn.iter().all(|&n| n > 0), "{drawn:?}");
}

fn command(arguments: &[&str], log: &str) -> Output {
    let path = std::env::temp_dir().join(format!("linmap-export-{}-{}.log", std::process::id(), log.len()));
    std::fs::write(&path, log).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_linmap-model")).args(arguments).arg(&path).output();
    std::fs::remove_file(&path).expect("the file");
    output.expect("the command runs")
}

#[test]
fn the_command_exports() {
    let lines: Vec<String> = replaced("unmap", 0).iter().map(|e| serde_json::to_string(e).unwrap()).collect();
    let log = format!("{}\n{}\n", setup().to_json(), lines.join("\n"));
    let va = format!("{:#x}", base());
    let asked = ["export", "herd", "--operation", "0", "--va", &va];
    for (arguments, text) in [
        (&["export", "casemate"][..], include_str!("export/unmap.log")),
        (&["export", "herd"], include_str!("export/unmap.litmus")),
        (&asked, include_str!("export/unmap.litmus")),
    ] {
        let output = command(arguments, &log);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
    }
    for (arguments, log, said) in [
        (
            &["export", "casemate"][..],
            log.replace("\"ishst\"", "\"nsh\""),
            "event 9 (cpu 0  dsb nsh): the checker has no",
        ),
        (&["export", "herd", "--operation", "7"], log.clone(), "there is no such operation"),
        (&["export", "herd"], "{}\n".into(), "line 1: the first line must describe the machine"),
        (&["export", "herd", "--va", "12"], log, "an address begins with 0x"),
    ] {
        let output = command(arguments, &log);
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && err.contains(said), "{err}");
    }
}
