//! The instructions that all CPUs execute, as QEMU logs them, beside the kernel's counts in `windows`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use serde_json::Value;
use tempfile::TempDir;

use crate::guest::boot;

/// The link address of the image, and its address in QEMU.
const LINKED: u64 = 0xffff_ffff_8000_0000;
const LOADED: u64 = 0x4020_0000;

/// A kind of instruction that windows count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Tlbi,
    Dsb,
    Isb,
}

impl Kind {
    /// Returns the kind of the instruction `word`, before `next` (Arm ARM C6.2: DSB, ISB, SYS with CRn 8).
    fn of(word: u32, next: u32) -> Option<Self> {
        match word {
            _ if word & 0xffff_f0ff == 0xd503_309f => Some(Self::Dsb),
            _ if word & 0xffff_f0ff == 0xd503_30df && !reads_a_counter(next) => Some(Self::Isb),
            _ if word & 0xfff8_f000 == 0xd508_8000 => Some(Self::Tlbi),
            _ => None,
        }
    }
}

/// Returns true for MRS of CNTVCT_EL0 or PMEVCNTR0_EL0: the barrier before it is not counted.
fn reads_a_counter(word: u32) -> bool {
    matches!(word & !0x1f, 0xd53b_e040 | 0xd53b_e800)
}

/// The image that `make image` built, and its counted instructions.
struct Image {
    path: PathBuf,
    symbols: BTreeMap<String, u64>,
    /// Counted instructions by their offset in the image.
    counted: BTreeMap<u64, Kind>,
}

impl Image {
    fn read() -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
        let path = target.join("linmap.img");
        let places = ["aarch64-unknown-none-softfloat", "aarch64-unknown-linux-gnu"];
        let elf = places.iter().find_map(|place| std::fs::read(target.join(place).join("image/kernel")).ok());
        let elf = elf.expect("the ELF that `make image` left");
        let elf = ElfFile64::<Endianness>::parse(&*elf).expect("an ELF");
        let symbols: BTreeMap<String, u64> = elf
            .symbols()
            .filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())))
            .collect();
        let raw = std::fs::read(&path).expect("the image");
        let text = &raw[..(symbols["rodata_start"] - LINKED) as usize];
        let words: Vec<u32> = text
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
            .collect();
        let kinds = words.windows(2).map(|pair| Kind::of(pair[0], pair[1])).enumerate();
        let counted = kinds.filter_map(|(i, kind)| Some((i as u64 * 4, kind?))).collect();
        Self { path, symbols, counted }
    }

    /// Returns the instructions between the two markers of a window, and the kernel's counts.
    fn window(&self, name: &str, cpus: &str, machine: &str, line: &str) -> ([u64; 3], [u64; 3]) {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let (trace, serial) = (directory.path().join("trace"), directory.path().join("serial"));
        let markers = [format!("mark_{name}_begin"), format!("mark_{name}_end")].map(|m| self.symbols[&m]);
        let places = self.counted.keys().flat_map(|offset| [LINKED + offset, LOADED + offset]);
        let filter: Vec<String> = markers.into_iter().chain(places).map(|pc| format!("{pc:#x}+4")).collect();
        let mut qemu = Command::new("qemu-system-aarch64");
        qemu.args([
            "-M",
            &format!("virt,{machine}"),
            "-cpu",
            "max,midr=0xc00fac30",
            "-smp",
            cpus,
            "-m",
            "256M",
        ]);
        qemu.args(["-icount", "shift=0,sleep=off", "-nodefaults", "-display", "none", "-no-reboot"]);
        qemu.arg("-kernel").arg(&self.path).args(["-append", line]);
        qemu.arg("-serial").arg(format!("file:{}", serial.display()));
        // One instruction a block, so that each one executed is a line.
        qemu.args(["-singlestep", "-d", "exec,nochain", "-dfilter", &filter.join(",")]).arg("-D").arg(&trace);
        assert!(qemu.stdin(Stdio::null()).status().expect("QEMU is there").success());
        let trace = std::fs::read_to_string(trace).expect("a trace");
        let said = std::fs::read_to_string(serial).expect("a console");
        (self.between(markers, &trace), reported(name, &said))
    }

    /// Returns how many of each kind are in a trace between the first and the second of two markers.
    fn between(&self, [begin, end]: [u64; 2], trace: &str) -> [u64; 3] {
        let executed = trace.lines().filter_map(program_counter);
        let inside = executed.skip_while(|pc| *pc != begin).skip(1).take_while(|pc| *pc != end);
        let mut counts = [0; 3];
        for pc in inside {
            let offset = pc.checked_sub(LINKED).unwrap_or_else(|| pc - LOADED);
            counts[self.counted[&offset] as usize] += 1;
        }
        counts
    }
}

/// Returns the address of a line such as `Trace 0: 0x7f.. [00000000/ffffffff80001234/..] name`.
fn program_counter(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix("Trace ")?.split_once('/')?;
    u64::from_str_radix(rest.split('/').next()?, 16).ok()
}

/// Returns a console's counts of a window.
fn reported(name: &str, console: &str) -> [u64; 3] {
    let documents = console.lines().filter_map(|line| line.strip_prefix("linmap: "));
    let parsed = documents.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let window = parsed.into_iter().find_map(|document| document["windows"].get(name).cloned());
    let window = window.unwrap_or_else(|| panic!("no window {name} in:\n{console}"));
    ["tlbi", "dsb", "isb"].map(|what| window[what].as_u64().expect("a count"))
}

/// Windows count the instructions of all CPUs, with one CPU and with several that are parked.
#[test]
fn windows_count_all_cpus() {
    let image = Image::read();
    let repainted = "pagesize=64k bbml2=3 split=pages run=";
    let park = "bbml2=off split=park run=bench";
    for (name, cpus, machine, line, least) in [
        ("create", "1", "gic-version=3", "", [0, 2, 1]),
        ("repaint", "4", "gic-version=3", repainted, [6, 15, 24]),
        ("repaint", "4", "gic-version=2", repainted, [6, 11, 20]),
        // Of the CPU that parks the others, counted from when they are parked.
        ("park", "3", "gic-version=3", park, [2, 4, 6]),
    ] {
        let (executed, said) = image.window(name, cpus, machine, line);
        assert_eq!((executed, said), (least, least), "{name} on {cpus} CPUs, {machine}: TLBI, DSB, ISB");
    }
}

/// A split on CPUs that may abort: each of them invalidates its TLB twice, and is counted when it is back.
#[test]
fn windows_count_cpus_that_are_parked() {
    for cpus in [2, 5] {
        let options =
            ["--count", "--run", "bench", "--bbml2", "off", "--split", "park", "--ram", "2G", "--cpus"];
        let booted = boot(&[&options[..], &[&cpus.to_string()]].concat()).expect_well("parked");
        let uses = |what: &str| booted.number(&format!("/windows/protect_l2/{what}"));
        // The other CPUs: two in parking, one in each of two interrupts, as a call comes before. The one that parks:
        // four, two to send, three for the split.
        assert_eq!((uses("tlbi"), uses("dsb")), (2 * cpus, 4 * (cpus - 1) + 9), "{cpus} CPUs");
    }
}
