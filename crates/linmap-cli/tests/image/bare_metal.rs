//! The example kernel, `examples/bare-metal`: both CPUs run, the write to the read-only page faults, and its map is the one
//! that the library makes of the same RAM on the host.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linmap::host::HostMemory;
use linmap::policy::{Decision, SplitFallback};
use linmap::read::MarkedRange;
use linmap::{Change, Geometry, Granule, Half, Layout, OaFormat, Pa, Rodata, SharedSpace, Tree, Va};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

use crate::guest::{AMPERE_ONE, MAX};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bare-metal/src");
/// The machine that it is for.
const RAM: std::ops::Range<Pa> = Pa(0x4000_0000)..Pa(0x6000_0000);

/// Returns the path of the program that `make bare-metal` builds.
fn elf() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    target.expect("a directory").join("bare-metal.elf")
}

/// Returns its output on a machine with this CPU. Time is the guest's; even on a busy host QEMU's CPU time stays below
/// an hour.
fn run(cpu: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -t 3600 && exec \"$0\" \"$@\"", "qemu-system-aarch64", "-kernel"]).arg(elf());
    command.args(["-M", "virt", "-cpu", cpu, "-smp", "2", "-m", "512M", "-icount", "shift=0,sleep=off"]);
    command.args(["-nodefaults", "-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot"]);
    let output = command.stdin(Stdio::null()).output().expect("QEMU is there");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{cpu}: {printed}\n{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// Its text and constants, by its symbols.
fn read_only() -> std::ops::Range<Pa> {
    let bytes = std::fs::read(elf()).expect("`make bare-metal` has built it");
    let elf = ElfFile64::<Endianness>::parse(&*bytes).expect("an ELF file");
    let symbol = |name| elf.symbols().find(|s| s.name() == Ok(name)).map(|s| Pa(s.address()));
    symbol("text_start").expect("a start")..symbol("data_start").expect("an end")
}

/// The dump of the map that it must have, with the last page of RAM read-only.
fn expected(never_aborts: bool, page: Va) -> String {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
    let (memory, mut ram) = (HostMemory::new(g, 512), [RAM]);
    let layout = Layout::new(g, &mut ram, &mut [], read_only(), Rodata::Full).expect("a layout");
    let decision = Decision::on_boot_cpu(never_aborts, Rodata::Full, SplitFallback::Pages);
    let tree = Tree::build(&memory, g, Half::Upper, layout.runs(decision.leaves())).expect("pages enough");
    let (space, platform) = (SharedSpace::adopt(tree), memory.platform());
    space.set_policy(decision.policy);
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&platform).protect(page, 1, Change::READ_ONLY) }.expect("a change");
    let mut text = String::new();
    space.on(&platform).read(|reader| reader.dump(MarkedRange::linear_map(g), &mut text)).expect("memory");
    text
}

/// In pages, where the CPU may abort; in large leaves, of which one is split, where it never does.
#[test]
fn the_example_kernel_does_the_whole_way() {
    let page = Va(0xffff_0000_1fff_f000);
    for (cpu, never_aborts) in [(MAX, false), (AMPERE_ONE, true), ("cortex-a72", false)] {
        let printed = run(cpu).replace('\r', "");
        let (first, rest) = printed.split_once('\n').expect("lines");
        assert_eq!(first, format!("CPU 1 reads 41 at {:#x}, and writes 42", page.0), "{cpu}: {printed}");
        let after =
            rest.strip_prefix(&expected(never_aborts, page)).unwrap_or_else(|| panic!("{cpu}: {printed}"));
        // A data abort of EL1, for a write, by a permission at level 3.
        let fault = format!("the write to the read-only page faults: ESR 0x9600004f, FAR {:#x}\n", page.0);
        assert_eq!(after, fault, "{cpu}: {printed}");
    }
}

/// It is to be read from top to bottom.
#[test]
fn the_example_kernel_is_short() {
    let lines = ["main.rs", "start.s"].map(|name| {
        let source = std::fs::read_to_string(format!("{SOURCES}/{name}")).expect("a source");
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        source.lines().filter(is_code).count()
    });
    assert!(lines.iter().sum::<usize>() <= 150, "{lines:?} lines of Rust and assembly");
}
