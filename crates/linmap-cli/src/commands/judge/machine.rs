//! The machine of a QEMU command line, and the arguments by which it is judged.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use linmap::cpu::{BbmPromise, Midr};

use super::failure::Failure;
use super::names::hexadecimal;
use crate::size::Size;

/// The RAM of a machine without `-m`.
const DEFAULT: Size = Size(128 << 20);

/// The machine of a QEMU command line.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) ram: Size,
    /// The physical address of RAM.
    pub(crate) base: u64,
    /// The kernel that QEMU loads.
    pub(crate) kernel: Option<PathBuf>,
    /// True if an accelerator is named.
    has_accelerator: bool,
    /// True if instructions are counted, which takes one thread.
    counts: bool,
    /// Its CPUs never raise a TLB conflict abort.
    never_aborts: bool,
}

impl Machine {
    /// Reads QEMU's arguments, those of [`under_tcg`]; refuses what cannot be judged. As in QEMU, later values of an option replace or
    /// complete earlier ones.
    pub(crate) fn read(arguments: &[OsString], base: u64) -> Result<Self, Failure> {
        if arguments.is_empty() {
            return Err(Failure::NoArguments);
        }
        let texts: Vec<String> = arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        let values = |names: &[&str]| -> Vec<&str> {
            let pairs = texts.windows(2).filter(|pair| names.contains(&pair[0].as_str()));
            pairs.map(|pair| pair[1].as_str()).collect()
        };
        let has = |name: &str| texts.iter().any(|text| text == name);
        let cpus = values(&["-smp", "--smp"]).into_iter().map(cpus).max().unwrap_or(1);
        let accelerators = values(&["-accel", "--accel"]);
        let machines = values(&["-M", "-machine", "--machine"]);
        for (option, value) in
            accelerators.iter().map(|v| ("-accel", *v)).chain(machines.iter().map(|v| ("-M", *v)))
        {
            if option == "-accel" && value.contains("thread=single") && cpus > 1 {
                return Err(refused(
                    option,
                    value,
                    "with one thread QEMU names the wrong CPU; several CPUs need thread=multi",
                ));
            }
            if value.contains("memory-backend=") {
                return Err(refused(option, value, "the command gives RAM a file of its own"));
            }
            if value.contains("memory.size=") {
                return Err(refused(option, value, "the size of RAM is read from `-m`"));
            }
        }
        if has("-daemonize") || has("--daemonize") {
            return Err(refused("-daemonize", "", "the command waits for QEMU"));
        }
        if let Some(value) = values(&["-icount", "--icount"]).last().filter(|_| cpus > 1) {
            return Err(refused("-icount", value, "with several CPUs QEMU names the wrong one"));
        }
        let ram = match values(&["-m", "--m"]).into_iter().rev().find_map(ram) {
            Some(ram) => ram?,
            None if machines.iter().any(|value| value.split(',').any(|word| word.starts_with("virt"))) => {
                DEFAULT
            }
            None => {
                return Err(refused("-m", "", "the size of RAM is not known of other machines than virt"));
            }
        };
        Ok(Self {
            ram,
            base,
            kernel: values(&["-kernel", "--kernel"]).last().map(PathBuf::from),
            counts: has("-icount") || has("--icount"),
            has_accelerator: !accelerators.is_empty()
                || machines.iter().any(|value| value.split(',').any(|word| word.starts_with("accel="))),
            never_aborts: values(&["-cpu", "--cpu"]).last().is_some_and(|cpu| never_aborts(cpu)),
        })
    }

    /// Returns the arguments that are added; `told` are more of the plugin's.
    pub(crate) fn added(&self, plugin: &Path, file: &Path, document: &Path, told: &str) -> Vec<OsString> {
        let Size(bytes) = self.ram;
        let [file, plugin, document] = [file, plugin, document].map(in_argument);
        let mut added = vec![
            "-object".to_owned(),
            format!("memory-backend-file,id=linmap-ram,size={bytes},mem-path={file},share=on"),
            "-machine".to_owned(),
            "memory-backend=linmap-ram".to_owned(),
            "-plugin".to_owned(),
            format!(
                "{},ram={file},base={:#x},out={}{}{told}",
                plugin,
                self.base,
                document,
                if self.never_aborts { ",never-aborts=on" } else { "" }
            ),
        ];
        if !self.has_accelerator {
            let threads = if self.counts { "tcg" } else { "tcg,thread=multi" };
            added.extend(["-accel".to_owned(), threads.to_owned()]);
        }
        added.into_iter().map(OsString::from).collect()
    }
}

/// Returns the arguments by which a paused machine is looked at.
pub(crate) fn opened(monitor: &Path, gdb: &Path) -> [OsString; 4] {
    let server = |path: &Path| format!("unix:{},server=on,wait=off", in_argument(path));
    ["-qmp".to_owned(), server(monitor), "-gdb".to_owned(), server(gdb)].map(OsString::from)
}

/// Returns a path as arguments of QEMU have it: a comma ends one, two are one in it.
pub(crate) fn in_argument(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn refused(option: &str, value: &str, why: &str) -> Failure {
    Failure::Refused { option: option.into(), value: value.into(), why: why.into() }
}

/// Returns the arguments with TCG alone, where others are named beside it: `-accel kvm -accel tcg` and `-M virt,accel=kvm:tcg` take what
/// there is. Refuses those that do not name it.
pub(crate) fn under_tcg(arguments: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let why = "a guest is judged under TCG alone";
    let texts: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let is_tcg = |value: &str| value.split([',', ':']).next() == Some("tcg");
    let accelerators = || {
        let pairs = texts.windows(2).filter(|pair| matches!(&*pair[0], "-accel" | "--accel"));
        pairs.map(|pair| &*pair[1])
    };
    let other = accelerators().find(|value| !is_tcg(value));
    let offers =
        |value: &str| value.split(',').next().is_some_and(|names| names.split(':').any(|name| name == "tcg"));
    let has_tcg = accelerators().any(offers);
    if let Some(other) = other.filter(|_| !has_tcg) {
        return Err(refused("-accel", other, why));
    }
    if let Some(option) = texts.iter().find(|text| matches!(&***text, "-enable-kvm" | "--enable-kvm")) {
        return Err(refused(option, "", why));
    }
    let mut kept: Vec<OsString> = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter().zip(&texts).peekable();
    while let Some((word, text)) = words.next() {
        let value = words.peek().map(|(_, value)| value.to_string());
        match (&**text, value) {
            ("-accel" | "--accel", Some(value)) if !offers(&value) => drop(words.next()),
            ("-accel" | "--accel", Some(value)) if !is_tcg(&value) => {
                let rest = value.split_once(',').map_or_else(String::new, |(_, rest)| format!(",{rest}"));
                kept.extend([word.clone(), format!("tcg{rest}").into()]);
                words.next();
            }
            ("-M" | "-machine" | "--machine", Some(value)) if value.contains("accel=") => {
                let tcg = |word: &str| match word.strip_prefix("accel=") {
                    Some(names) if !names.split(':').any(|name| name == "tcg") => {
                        Err(refused("-M", &value, why))
                    }
                    Some(_) => Ok("accel=tcg".to_owned()),
                    None => Ok(word.to_owned()),
                };
                let parts: Vec<String> = value.split(',').map(tcg).collect::<Result<_, _>>()?;
                kept.extend([word.clone(), parts.join(",").into()]);
                words.next();
            }
            _ => kept.push(word.clone()),
        }
    }
    Ok(kept)
}

/// Returns the most CPUs that `-smp` may mean: their number, or the largest that the topology allows.
fn cpus(value: &str) -> u32 {
    let words = value.split(',').map(|word| word.split_once('=').unwrap_or(("cpus", word)));
    let numbers = words.filter_map(|(name, number)| Some((name, number.parse::<u32>().ok()?)));
    let (totals, parts): (Vec<_>, Vec<_>) = numbers.partition(|(name, _)| ["cpus", "maxcpus"].contains(name));
    let product = parts.iter().fold(1, |product: u32, (_, number)| product.saturating_mul(*number));
    totals.iter().map(|(_, number)| *number).max().unwrap_or(product)
}

/// Returns the RAM of `-m`, if it names one; without a suffix it is in MiB.
fn ram(value: &str) -> Option<Result<Size, Failure>> {
    let first = value.split(',').next().unwrap_or_default();
    let size = value.split(',').find_map(|word| word.strip_prefix("size="));
    let text = size.or(Some(first).filter(|first| !first.contains('=')))?;
    let bytes = text.strip_prefix("0x").and_then(hexadecimal).map(|mib| Size(mib.saturating_mul(1 << 20)));
    let is_mib = text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if is_mib { format!("{text}M") } else { text.to_owned() };
    let size = bytes.map_or_else(|| text.parse(), Ok);
    Some(size.map_err(|error| Failure::Ram { value: value.into(), error }))
}

/// Returns true if the CPU of `-cpu` is one that never raises a TLB conflict abort.
fn never_aborts(cpu: &str) -> bool {
    let midr = cpu.split(',').find_map(|word| word.strip_prefix("midr="));
    let midr = midr.and_then(hexadecimal);
    // FEAT_BBM level 2, as QEMU's `max` has it.
    midr.is_some_and(|midr| BbmPromise::of(Midr(midr), 2 << 52u32).never_aborts())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Machine, Failure> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Machine::read(&under_tcg(&words)?, 0x4000_0000)
    }

    /// KUnit's line, and what others write to take what there is.
    #[test]
    fn tcg_is_taken_where_it_is_offered() {
        let of = |line: &str| -> Option<String> {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let kept = under_tcg(&words).ok()?;
            Some(kept.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
        };
        for (line, kept) in [
            (
                "-nodefaults -m 1024 -accel kvm -accel hvf -accel tcg -machine virt",
                "-nodefaults -m 1024 -accel tcg -machine virt",
            ),
            ("-accel tcg,thread=multi", "-accel tcg,thread=multi"),
            ("-accel kvm:tcg,thread=multi -smp 2", "-accel tcg,thread=multi -smp 2"),
            ("-M virt,accel=kvm:tcg,mte=on", "-M virt,accel=tcg,mte=on"),
            ("-accel", "-accel"),
        ] {
            assert_eq!(of(line).as_deref(), Some(kept), "{line}");
        }
        for line in ["-accel kvm", "-accel kvm -accel hvf", "-M virt,accel=kvm", "-accel tcg -enable-kvm"] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn ram_is_read_as_qemu_reads_it() {
        for (line, bytes) in [
            ("-M virt", 128 << 20),
            ("-m 512", 512 << 20),
            ("-m 2G", 2 << 30),
            ("-m 2g", 2 << 30),
            ("-m size=1G,slots=2,maxmem=4G", 1 << 30),
            ("-m 1G -m 3G", 3 << 30),
            ("-m 1G -m slots=2,maxmem=4G", 1 << 30),
            ("-m 0x400", 1 << 30),
            ("-M virt-10.0 -m slots=2,maxmem=4G", 128 << 20),
        ] {
            assert_eq!(read(line).map(|machine| machine.ram.0).ok(), Some(bytes), "{line}");
        }
        assert!(matches!(read("-m x"), Err(Failure::Ram { .. })));
        assert!(matches!(read("-M sbsa-ref"), Err(Failure::Refused { .. })));
    }

    #[test]
    fn what_cannot_be_judged_is_refused() {
        for line in [
            "-accel kvm",
            "-accel kvm:tcg",
            "-M virt,accel=kvm",
            "-enable-kvm -M virt",
            "-smp 2 -accel tcg,thread=single",
            "-smp cpus=4 -icount shift=0",
            "-smp sockets=2,cores=2 -icount shift=0",
            "-smp maxcpus=4 -icount shift=0",
            "-smp 4 -smp threads=1 -icount shift=0",
            "-M virt,memory.size=1G",
            "-M virt -daemonize",
            "-M virt,memory-backend=mem",
        ] {
            assert!(matches!(read(line), Err(Failure::Refused { .. })), "{line}");
        }
        assert!(matches!(read(""), Err(Failure::NoArguments)));
        assert!(read("-M virt -icount shift=0").is_ok() && read("-M virt -accel tcg,thread=single").is_ok());
    }

    #[test]
    fn one_thread_counts_instructions() {
        let added = |line: &str| {
            let machine = read(&format!("-M virt {line}")).expect("a machine");
            let added = machine.added(Path::new("p"), Path::new("r"), Path::new("d"), "");
            added.last().map(|last| last.to_string_lossy().into_owned())
        };
        assert_eq!(added("-smp 4").as_deref(), Some("tcg,thread=multi"));
        assert_eq!(added("-icount shift=4").as_deref(), Some("tcg"));
        assert!(added("-accel tcg").is_some_and(|last| last.contains("ram=r")));
    }

    #[test]
    fn cpus_that_never_abort_are_known() {
        let of = |cpu: &str| read(&format!("-M virt -cpu {cpu}")).map(|machine| machine.never_aborts).ok();
        assert_eq!(of("max,midr=0xc00fac30"), Some(true));
        assert_eq!(of("max"), Some(false));
        assert_eq!(of("cortex-a57"), Some(false));
    }
}
