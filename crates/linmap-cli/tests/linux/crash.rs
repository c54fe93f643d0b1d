//! A kernel panics into its crash kernel, and its memory is read there: `/proc/vmcore` by the command itself, and files of
//! Debian's makedumpfile. Both are as the guest was before; then, its owners of pages have what files of the kernel say.

use serde_json::Value;

use crate::guest::{Guest, at_hand, named};
use crate::owned::{self, SECRET, Told, owned};
use crate::sources::{Entries, document, entries, inside};

/// The forms of a dump, as options of makedumpfile. Debian builds it without Snappy (`-p`).
const FORMS: [&str; 4] = ["-c", "-l", "-z", "-F -l"];

/// A reading of the guest, without KFENCE's pool, in which pages come and go.
#[derive(PartialEq, Debug)]
struct Reading {
    entries: Vec<Entries>,
    geometry: Value,
    owned: Value,
    findings: Value,
}

/// Reads the map with a function that runs the command with these arguments on one SOURCE.
fn read(told: &Told, mut run: impl FnMut(&str) -> Value) -> Reading {
    let dump = run("dump --json --region linear");
    let is_fixed = |row: &Entries| !told.kfence.contains(&row.va);
    Reading {
        entries: entries(&dump).into_iter().filter(is_fixed).collect(),
        geometry: dump["geometry"].clone(),
        owned: serde_json::to_value(owned(&run("stat --who --json"))).expect("JSON"),
        findings: run("check --json")["count"].clone(),
    }
}

/// Loads the crash kernel. Returns the bytes that kexec says it takes.
fn load(guest: &mut Guest) -> u64 {
    let said = guest.shell(
        "kexec -d -c -p /crash/kernel --initrd=/crash/initrd --append='console=ttyAMA0 quiet reset_devices nr_cpus=1' 2>&1 | \
         busybox grep -e memsz -e failed; cat /sys/kernel/kexec_crash_loaded",
    );
    assert_eq!(said.trim().lines().last(), Some("1"), "{said}");
    let sizes =
        said.lines().filter(|line| line.starts_with("segment")).filter_map(|line| line.split_once("= 0x"));
    sizes.map(|(_, size)| u64::from_str_radix(size.trim(), 16).expect("a size")).sum()
}

/// Gives makedumpfile a VMCOREINFO that it knows: up to 1.7.8 it knows no kernel that is built for 52 bits and has fewer.
/// Returns the option.
fn known_to_makedumpfile(guest: &mut Guest, va_bits: u64) -> &'static str {
    guest.shell(&format!(
        "busybox dd if=/proc/vmcore bs=4096 count=16 2>/dev/null | busybox strings | busybox grep -E '^[A-Z_]+[=(]' | \
         busybox sed 's/VA_BITS)=52/VA_BITS)={va_bits}/; s/PHYS_OFFSET)=0xfff[0-9a-f]*\\(........\\)$/PHYS_OFFSET)=0x\\1/; \
         /KERNELOFFSET/d' >/tmp/info"
    ));
    "-i /tmp/info"
}

/// The guest panics, and everything in its crash kernel agrees with the reading from before.
fn panic_and_compare(
    guest: &mut Guest,
    told: &Told,
    before: &Reading,
    forms: &[&str],
    is_built_for_52_bits: bool,
) {
    let said = guest.shell("echo c >/proc/sysrq-trigger");
    assert!(said.contains("Starting crashdump kernel"), "{said}");
    let with = |source: &'static str| move |arguments: &str| format!("{arguments} {source}");
    let vmcore = with("/proc/vmcore");
    let after = read(told, |arguments| inside(guest, &vmcore(arguments)));
    assert_eq!(&after, before, "/proc/vmcore");
    let va_bits = before.geometry["va_bits"].as_u64().expect("a number");
    let info = if is_built_for_52_bits { known_to_makedumpfile(guest, va_bits) } else { "" };
    for form in forms {
        let to = if form.starts_with("-F") { "> /tmp/core" } else { "/tmp/core" };
        let said =
            guest.shell(&format!("rm -f /tmp/core; makedumpfile {info} -d 31 {form} /proc/vmcore {to}"));
        assert!(said.contains("makedumpfile Completed"), "{form}: {said}");
        let core = with("/tmp/core");
        let after = read(told, |arguments| inside(guest, &core(arguments)));
        assert_eq!(&after, before, "{form}");
    }
}

/// Reads the halted guest from outside.
fn before(guest: &Guest, told: &Told) -> Reading {
    let source = named("qemu:", &guest.qmp());
    guest.monitor("stop");
    let before = read(told, |arguments| {
        document(&[&arguments.split(' ').collect::<Vec<_>>()[..], &[&source]].concat())
    });
    guest.monitor("cont");
    before
}

fn owners_and_a_panic(kernel: &str, forms: &[&str]) {
    let mut guest = owned::boot(kernel);
    let told = Told::by(&mut guest);
    let stat = document(&["stat", "--who", "--json", &named("qemu:", &guest.qmp())]);
    told.expect(kernel, &stat);
    told.expect(kernel, &inside(&mut guest, "stat --who --json"));
    load(&mut guest);
    let before = before(&guest, &told);
    panic_and_compare(&mut guest, &told, &before, forms, true);
}

#[test]
fn linux_6_12() {
    owners_and_a_panic("6.12", &FORMS);
}

#[test]
fn linux_6_12_with_16k_pages() {
    owners_and_a_panic("6.12-16k", &FORMS);
}

/// Newer than makedumpfile.
#[test]
fn linux_7_2() {
    if at_hand().contains(&"7.2") {
        owners_and_a_panic("7.2", &[]);
    }
}

/// The table of symbols of 6.1 has those of code alone, so it does not name owners; its crash kernel is out of the map.
#[test]
fn linux_6_1_without_a_crash_kernel_in_its_map() {
    let mut guest = owned::boot("6.1");
    let told = Told::by(&mut guest);
    // kexec looks for a symbol that this kernel does not show, and writes a wrong ELF header without it.
    guest.shell(
        "(echo 'ffff800008000000 T _text'; cat /proc/kallsyms) >/tmp/symbols; busybox mount --bind /tmp/symbols /proc/kallsyms",
    );
    let loaded = load(&mut guest);
    let before = before(&guest, &told);
    assert_eq!(before.owned["invalid"].as_u64(), Some(loaded + SECRET * told.page), "{before:#?}");
    panic_and_compare(&mut guest, &told, &before, &FORMS, false);
}
