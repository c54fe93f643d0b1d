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

/// A kind of instruction that windows count, or the barrier before the count of instructions is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Tlbi,
    Dsb,
    Isb,
    Read,
}

impl Kind {
    /// Returns the kind of the instruction `word`, before `next` (Arm ARM C6.2: DSB, ISB, SYS with CRn 8).
    fn of(word: u32, next: u32) -> Option<Self> {
        match word {
            _ if word & 0xffff_f0ff == 0xd503_309f => Some(Self::Dsb),
            _ if word & 0xffff_f0ff == 0xd503_30df => Self::of_barrier(next),
            _ if word & 0xfff8_f000 == 0xd508_8000 => Some(Self::Tlbi),
            _ => None,
        }
    }

    /// Returns the kind of an ISB before `next`. That before an MRS of CNTVCT_EL0 or PMEVCNTR0_EL0 is not counted.
    fn of_barrier(next: u32) -> Option<Self> {
        match next & !0x1f {
            0xd53b_e040 => None,
            0xd53b_e800 => Some(Self::Read),
            _ => Some(Self::Isb),
        }
    }
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
        let markers = [format!("mark_{name}_begin"), format!("mark_{name}_end")].map(|m| self.symbols[&m]);
        let (trace, said) = self.run(&markers, cpus, machine, line);
        let said = reported(&said).into_iter().find(|(window, _)| window == name);
        (self.between(markers, &trace), said.unwrap_or_else(|| panic!("no window {name}")).1)
    }

    /// Returns what a CPU executes in each window, one after the other.
    fn windows(&self, trace: &str) -> Vec<[u64; 3]> {
        let mut windows = Vec::new();
        let mut inside = None;
        for kind in trace.lines().filter_map(program_counter).filter_map(|pc| self.kind(pc)) {
            match (kind, &mut inside) {
                (Kind::Read, None) => inside = Some([0; 3]),
                (Kind::Read, Some(_)) => windows.extend(inside.take()),
                (kind, Some(counts)) => counts[kind as usize] += 1,
                (_, None) => {}
            }
        }
        windows
    }

    fn kind(&self, pc: u64) -> Option<Kind> {
        let offset = pc.checked_sub(LINKED).or_else(|| pc.checked_sub(LOADED))?;
        self.counted.get(&offset).copied()
    }

    /// Boots, and returns the trace of the counted instructions and of those at some addresses, and the console.
    fn run(&self, more: &[u64], cpus: &str, machine: &str, line: &str) -> (String, String) {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let (trace, serial) = (directory.path().join("trace"), directory.path().join("serial"));
        let places = self.counted.keys().flat_map(|offset| [LINKED + offset, LOADED + offset]);
        let filter: Vec<String> = more.iter().copied().chain(places).map(|pc| format!("{pc:#x}+4")).collect();
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
        qemu.args(one_instruction_a_block());
        qemu.args(["-d", "exec,nochain", "-dfilter", &filter.join(",")]).arg("-D").arg(&trace);
        assert!(qemu.stdin(Stdio::null()).status().expect("QEMU is there").success());
        let read = |path| std::fs::read_to_string(path).expect("what QEMU wrote");
        (read(trace), read(serial))
    }

    /// Returns how many of each kind are in a trace between the first and the second of two markers.
    fn between(&self, [begin, end]: [u64; 2], trace: &str) -> [u64; 3] {
        let executed = trace.lines().filter_map(program_counter);
        let inside = executed.skip_while(|pc| *pc != begin).skip(1).take_while(|pc| *pc != end);
        let mut counts = [0; 3];
        for kind in inside.filter_map(|pc| self.kind(pc)).filter(|kind| *kind != Kind::Read) {
            counts[kind as usize] += 1;
        }
        counts
    }
}

/// Returns the address of a line such as `Trace 0: 0x7f.. [00000000/ffffffff80001234/..] name`.
fn program_counter(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix("Trace ")?.split_once('/')?;
    u64::from_str_radix(rest.split('/').next()?, 16).ok()
}

/// Returns the windows of a console, with their counts, as they come.
fn reported(console: &str) -> Vec<(String, [u64; 3])> {
    let documents = console.lines().filter_map(|line| line.strip_prefix("linmap: "));
    let documents = documents.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let counts = |window: &Value| ["tlbi", "dsb", "isb"].map(|what| window[what].as_u64());
    let windows = documents.filter_map(|document| document["windows"].as_object().cloned()).flatten();
    windows
        .filter_map(|(name, window)| match counts(&window) {
            [Some(tlbi), Some(dsb), Some(isb)] => Some((name, [tlbi, dsb, isb])),
            _ => None,
        })
        .collect()
}

/// Each window of a boot, and each of a task that reports them one by one.
#[test]
fn each_window_counts_what_is_executed() {
    let image = Image::read();
    // The counter itself is tried first.
    let boot = ["", "layout", "identity_build", "image_map", "switch", "create", "identity_discard"];
    let pages = [
        "pages_out",
        "pages_flush",
        "pages_back",
        "pages_apart_out",
        "pages_apart_flush",
        "pages_apart_back",
    ];
    let page = ["page_out", "page_flush", "page_back"];
    let names = boot.into_iter().chain(pages).chain(page);
    let (trace, console) = image.run(&[], "1", "gic-version=3", "run=pagealloc");
    let said = reported(&console);
    let executed = image.windows(&trace);
    assert_eq!(executed.len(), names.clone().count(), "{console}");
    for (name, executed) in names.zip(executed).skip(1) {
        let said = said.iter().find(|(window, _)| window == name);
        assert_eq!(said.map(|(_, counts)| *counts), Some(executed), "{name}: TLBI, DSB, ISB");
    }
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

/// Returns the options by which each instruction executed is a line of a trace. QEMU 10 has another one than 7.2.
fn one_instruction_a_block() -> &'static [&'static str] {
    let help = Command::new("qemu-system-aarch64").arg("--help").output().expect("QEMU is there");
    if String::from_utf8_lossy(&help.stdout).contains("one-insn-per-tb") {
        &["-accel", "tcg,one-insn-per-tb=on"]
    } else {
        &["-singlestep"]
    }
}
