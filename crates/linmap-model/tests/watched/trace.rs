//! The traces that a kernel writes of itself, in C and in Rust: the same lines, a right one and one with a fault that is named.

use std::process::Command;

use linmap_model::Rule;
use linmap_model::observed::{Finding, Grade, Miss, watch};
use tempfile::TempDir;

#[path = "../../trace/linmap_trace.rs"]
mod linmap_trace;

use linmap_trace::Trace;

/// Returns the trace of the example in C.
fn in_c(arguments: &[&str]) -> String {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let program = directory.path().join("example");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/trace/example.c");
    let mut cc = Command::new("cc");
    let built = cc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
    assert!(built.status().expect("cc is installed").success());
    let output = Command::new(program).args(arguments).output().expect("it runs");
    String::from_utf8(output.stdout).expect("lines")
}

/// Writes the trace of the same in Rust.
fn in_rust(alone: bool) -> String {
    let mut text = String::new();
    let (root, middle, last, va) = (0x4000_0000, 0x4000_1000, 0x4000_2000, 0xffff_ff80_0000_3000);
    let write = |text: &mut String| {
        let mut t = Trace { out: text, cpu: 0 };
        t.machine("4k", 39, 2)?;
        t.store(root, middle | 3)?;
        t.store(middle, last | 3)?;
        t.store(last + 24, 0x8000_0703)?;
        t.dsb("ishst")?;
        for cpu in 0..2 {
            t.cpu = cpu;
            t.msr("ttbr1_el1", root)?;
        }
        t.cpu = 0;
        t.access(va)?;
        t.store(last + 24, 0)?;
        t.dsb("ishst")?;
        t.tlbi(if alone { "vaae1" } else { "vaae1is" }, va >> 12 & ((1 << 44) - 1))?;
        t.dsb("ish")?;
        t.isb()?;
        t.leave()
    };
    write(&mut text).expect("room");
    text
}

fn found(trace: &str) -> Vec<Finding> {
    watch(trace.as_bytes()).expect("lines that can be read").findings().cloned().collect()
}

/// Leaves out the places in the code, which differ.
fn without_places(trace: &str) -> Vec<String> {
    let place =
        |line: &str| line.split(",\"pc\":").next().unwrap_or_default().trim_end_matches('}').to_owned();
    trace.lines().map(place).collect()
}

#[test]
fn both_write_the_same_lines() {
    assert_eq!(without_places(&in_c(&[])), without_places(&in_rust(false)));
    assert_eq!(without_places(&in_c(&["alone"])), without_places(&in_rust(true)));
}

#[test]
fn a_right_trace_is_not_blamed() {
    assert_eq!(found(&in_c(&[])), []);
    assert_eq!(found(&in_rust(false)), []);
}

#[test]
fn the_fault_of_a_trace_is_named() {
    for trace in [in_c(&["alone"]), in_rust(true)] {
        let found = found(&trace);
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!((finding.grade, finding.rule), (Grade::Suspect, Rule::Stale));
        assert_eq!(finding.missed.map(|missed| missed.why), Some(Miss::LocalOnly));
        assert_eq!(finding.holders, 0b10, "the other CPU");
    }
}

/// The header is nothing where no line can leave.
#[test]
fn without_a_way_out_it_is_nothing() {
    let source = "#include \"linmap_trace.h\"\nint f(void) { linmap_trace_dsb(\"ish\"); linmap_trace_isb(); return 0; }\n";
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let file = directory.path().join("nothing.c");
    std::fs::write(&file, source).expect("room");
    let mut cc = Command::new("cc");
    cc.args(["-ffreestanding", "-nostdlib", "-Wall", "-Werror", "-c", "-o", "/dev/null", "-I"]);
    cc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/trace")).arg(&file);
    assert!(cc.status().expect("cc is installed").success());
}
