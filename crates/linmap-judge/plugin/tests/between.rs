//! The plugin of `make counts` counts between two marks.

#[path = "../src/between.rs"]
mod between;

use between::{Between, Counts, Kind};

#[test]
fn instructions_are_as_an_assembler_writes_them() {
    let known = [
        (0xd503_3cdf, Kind::Begin),  // isb #12
        (0xd503_3ddf, Kind::End),    // isb #13
        (0xd503_3bbf, Kind::Dmb),    // dmb ish
        (0xd503_39bf, Kind::Dmb),    // dmb ishld
        (0xc803_7c41, Kind::Atomic), // stxr
        (0xc803_fc41, Kind::Atomic), // stlxr
        (0x8803_7c41, Kind::Atomic), // stxr of 4 bytes
        (0x0803_7c41, Kind::Atomic), // stxrb
        (0xc823_0841, Kind::Atomic), // stxp
        (0xc8a1_7c62, Kind::Atomic), // cas
        (0xc8e1_fc62, Kind::Atomic), // casal
        (0x08a1_7c62, Kind::Atomic), // casb
        (0x4820_7c82, Kind::Atomic), // casp
        (0x4860_fc82, Kind::Atomic), // caspal
        (0xf821_0062, Kind::Atomic), // ldadd
        (0xf8e1_0062, Kind::Atomic), // ldaddal
        (0x3821_3062, Kind::Atomic), // ldsetb
        (0xf8e1_8062, Kind::Atomic), // swpal
        (0x1921_8062, Kind::Atomic), // swpp
        (0xd503_3fdf, Kind::Other),  // isb
        (0xd503_3b9f, Kind::Other),  // dsb ish
        (0xc85f_7c41, Kind::Other),  // ldxr
        (0xc85f_fc41, Kind::Other),  // ldaxr
        (0xc87f_0841, Kind::Other),  // ldxp
        (0xc89f_fc41, Kind::Other),  // stlr
        (0xc8df_fc41, Kind::Other),  // ldar
        (0xf8bf_c041, Kind::Other),  // ldapr
        (0xf900_0041, Kind::Other),  // str
        (0xf861_6862, Kind::Other),  // ldr with a register
        (0xf83f_9041, Kind::Other),  // st64b
        (0xd900_0041, Kind::Other),  // stlur of 8 bytes
    ];
    for (word, kind) in known {
        assert_eq!(Kind::of(word), kind, "{word:#x}");
    }
}

fn counted(between: &Between) -> Vec<Counts> {
    let number = |line: &str, name: &str| -> u64 {
        let after = line.split(&format!("\"{name}\":")).nth(1).expect("the name");
        after.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).expect("a number")
    };
    let text = between.document();
    let windows = text.lines().filter(|line| line.contains("atomics"));
    windows
        .map(|line| Counts {
            code_lines: number(line, "code_lines") as usize,
            data_lines: number(line, "data_lines") as usize,
            shared_lines: number(line, "shared_lines") as usize,
            atomics: number(line, "atomics"),
            dmb: number(line, "dmb"),
        })
        .collect()
}

#[test]
fn only_what_its_cpu_does_between_marks_counts() {
    let mut between = Between::default();
    between.fetches(0, 0x1000);
    between.accesses(0, 0x2000, 8, false);
    between.executes(0, Kind::Atomic);
    between.executes(0, Kind::Begin);
    assert!(between.is_counting());
    for pc in [0x1000, 0x103c, 0x1040] {
        between.fetches(0, pc);
    }
    between.fetches(1, 0x5000);
    between.executes(1, Kind::Dmb);
    between.executes(1, Kind::End);
    between.executes(0, Kind::Dmb);
    between.executes(0, Kind::Atomic);
    between.executes(0, Kind::Atomic);
    // Of two lines.
    between.accesses(0, 0x203c, 8, true);
    between.accesses(1, 0x9000, 8, false);
    between.executes(0, Kind::End);
    assert!(!between.is_counting());
    let expected = Counts { code_lines: 2, data_lines: 2, shared_lines: 0, atomics: 2, dmb: 1 };
    assert_eq!(counted(&between), [expected]);
}

/// A line is shared if another CPU has written it since the mark before, and not if this one has alone.
#[test]
fn lines_that_another_cpu_writes_are_shared() {
    let mut between = Between::default();
    let window = |between: &mut Between| {
        between.executes(0, Kind::Begin);
        for line in 0..4 {
            between.accesses(0, 64 * line, 8, true);
        }
        between.accesses(1, 64 * 3, 8, true);
        between.executes(0, Kind::End);
    };
    between.accesses(0, 0, 8, true);
    between.accesses(1, 64, 8, false);
    between.accesses(1, 128, 1, true);
    between.accesses(1, 4096, 8, true);
    window(&mut between);
    window(&mut between);
    let shared: Vec<_> = counted(&between).iter().map(|counts| counts.shared_lines).collect();
    assert_eq!(shared, [2, 1], "{}", between.document());
}
