//! Recorded traces: the project's own format and two of other programs.

use tempfile::NamedTempFile;

use crate::{document, printed, refused};

fn file(content: &[u8]) -> NamedTempFile {
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    std::fs::write(file.path(), content).expect("written");
    file
}

/// Returns accesses and walks of a trace, in pages.
fn counted(content: &str, more: &[&str]) -> (u64, u64) {
    let file = file(content.as_bytes());
    let path = file.path().to_str().expect("a plain path");
    let document =
        document(&[&["--trace", path, "--seeds", "1", "--ram", "1G", "--footprint", "64M"], more].concat());
    let pages = &document["workloads"][0]["by_seed"][0]["pages"];
    (pages["accesses"].as_u64().expect("a count"), pages["walks"].as_u64().expect("a count"))
}

#[test]
fn three_formats() {
    let fresh = ["--placement", "fresh", "--set", "coalesce=1"];
    // Two pages, one of them twice; the last access crosses into a third.
    let own = "linmap-trace 1 virtual\nR 0x7f0000001000 8\nW 0x7f0000005000\nR 0x7f0000001040 64\nR 0x7f0000005ffc 8\n";
    assert_eq!(counted(own, &fresh), (5, 3));
    let lackey = "==1== Lackey\nI  04001090,3\n L 1000,8\n S 5000,4\n M 1040,4\n";
    assert_eq!(counted(lackey, &fresh), (4, 2));
    let execlog = "0, 0x10, 0xf9400000, \"ldr x0, [x0]\", load, 0x40301000, RAM\n\
                   0, 0x14, 0xd503201f, \"nop\"\n0, 0x18, 0xf9000000, \"str\", store, 0x9000000, pl011\n";
    assert_eq!(counted(execlog, &fresh), (1, 1));
}

/// Returns the message for a trace, without its name.
fn broken(content: &[u8], more: &[&str]) -> String {
    let file = file(content);
    let path = file.path().to_str().expect("a plain path");
    refused(&[&["--trace", path, "--ram", "1G", "--footprint", "16M"], more].concat()).replace(path, "FILE")
}

#[test]
fn broken_lines_are_named() {
    let said = broken(b"linmap-trace 1 virtual\nR 0x1000\nR here\n", &[]);
    assert!(said.contains("`FILE`:3: `R here`: `R ADDRESS [BYTES]`"), "{said}");
    let said = broken(b" L 1000,8\n L 2000,8\n L 3000\n", &[]);
    assert!(said.contains("`FILE`:3: `L 3000`: ` L ADDRESS,BYTES` is right"), "{said}");
    let said = broken(b"\x7fELF\x00\x01", &[]);
    assert!(said.contains("`FILE`:1: "), "{said}");
    assert!(broken(b"", &[]).contains("`FILE` has no access to data in 0 lines"));
    let long = [b"linmap-trace 1 virtual\nR 0x1".as_slice(), &vec![b'0'; 70_000]].concat();
    assert!(broken(&long, &[]).contains("`FILE`:2: "), "{}", broken(&long, &[]));
    let outside = broken(b"linmap-trace 1 physical\nR 0x40000000\nR 0x90000000\n", &[]);
    assert!(outside.contains("`FILE`:3: `R 0x90000000`: no RAM of this machine is there"), "{outside}");
    let wide: String = (0..5000).map(|page| format!("R {:#x}\n", page << 12)).collect();
    let said = broken(format!("linmap-trace 1 virtual\n{wide}").as_bytes(), &[]);
    assert!(
        said.contains("`FILE`:4098: `R 0x1000000`: more memory is touched than the footprint allows; --footprint gives it more"),
        "{said}"
    );
    assert!(refused(&["--trace", "/no/such/trace"]).contains("cannot read `/no/such/trace`: No such file"));
}

#[test]
fn a_trace_and_a_workload_exclude_each_other() {
    assert!(refused(&["--trace", "x", "--workload", "fork"]).contains("cannot be used with"));
    assert!(printed(&["--help"]).contains("docs/tlb.md"));
}

/// Addresses that are physical need no memory to be placed, however large the footprint is.
#[test]
fn a_physical_trace_needs_no_footprint() {
    let file = file(b"linmap-trace 1 physical\nR 0x40000000\nR 0x80000000\n");
    let path = file.path().to_str().expect("a plain path");
    printed(&["--trace", path, "--ram", "2G"]);
    let virtual_one: String = (0..5000).map(|page| format!("R {:#x}\n", page << 12)).collect();
    let file = self::file(format!("linmap-trace 1 virtual\n{virtual_one}").as_bytes());
    let said = refused(&["--trace", file.path().to_str().expect("a plain path"), "--ram", "16M"]);
    assert!(said.contains("--ram gives it more"), "{said}");
}
