//! Pages that real kernels take out of their linear maps are named; they count neither as coverage nor as TLB
//! entries.

use serde_json::Value;

use crate::guest::{Guest, Machine, PLAIN, at_hand, named};
use crate::sources::document;

const SMALL: Machine<'static> = Machine { ram: "512M", more: &["-smp", "1"], ..PLAIN };
const PAGE: u64 = 4096;

/// Returns `stat` of a guest, which must agree with the rows of its dump.
fn stat(guest: &Guest) -> Value {
    let source = named("qemu:", &guest.qmp());
    // A running guest can split a leaf or protect an object of KFENCE.
    guest.monitor("stop");
    let stat = document(&["stat", "--json", &source]);
    let dump = document(&["dump", "--json", "--region", "linear", &source]);
    guest.monitor("cont");
    let (mut valid, mut invalid) = (0, 0);
    for row in dump["rows"].as_array().expect("rows").iter().filter(|row| row["kind"] == "leaf") {
        *(if row["valid"] == true { &mut valid } else { &mut invalid }) +=
            row["bytes"].as_u64().expect("bytes");
    }
    let of_kinds: u64 =
        stat["invalid"].as_array().expect("kinds").iter().map(|kind| number(&kind["bytes"])).sum();
    assert_eq!((number(&stat["linear"]["bytes"]), of_kinds), (valid, invalid), "{stat:#}");
    stat
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the pages of one kind, and how it is known.
fn pages(stat: &Value, what: &str) -> Option<(u64, String)> {
    let kind = stat["invalid"].as_array()?.iter().find(|kind| kind["what"] == what)?;
    Some((number(&kind["pages"]), kind["certainty"].as_str()?.to_owned()))
}

/// Older kernels clear only the valid bit, newer ones set a software bit.
#[test]
fn secret_memory_is_no_coverage() {
    for kernel in at_hand().into_iter().filter(|kernel| ["6.1", "6.12", "7.2"].contains(kernel)) {
        let arguments = "nokaslr secretmem.enable=1";
        let mut guest = Guest::boot(Machine { kernel, arguments, ..SMALL });
        let before = stat(&guest);
        let said = guest.shell(
            "(ulimit -l unlimited; taker secret 3000; echo >/taken) & until [ -e /taken ]; do sleep 1; done",
        );
        assert!(said.contains("taken"), "{kernel}: {said}\n{}", guest.shell("dmesg | tail -n 40"));
        let after = stat(&guest);
        let number = |stat: &Value, key: &str| number(&stat["linear"][key]);
        assert_eq!(pages(&after, "taken"), Some((3000, "inferred".to_owned())), "{kernel}: {after:#}");
        for (key, each) in [("tlb_entries", 1), ("bytes", PAGE), ("tables", 0)] {
            assert_eq!(number(&before, key) - number(&after, key), 3000 * each, "{kernel}: {key}");
        }
    }
}

#[test]
fn guards_of_kfence_are_no_coverage() {
    for kernel in at_hand().into_iter().filter(|kernel| ["6.12", "7.2"].contains(kernel)) {
        let arguments = "nokaslr rodata=on rodata=noalias kfence.sample_interval=100";
        let guest = Guest::boot(Machine { kernel, arguments, ..SMALL });
        let stat = stat(&guest);
        // 255 objects: a guard after each, two at the start, and the free ones.
        let (pages, certainty) = pages(&stat, "kfence").unwrap_or_else(|| panic!("{kernel}: {stat:#}"));
        assert!((257..512).contains(&pages) && certainty == "inferred", "{kernel}: {stat:#}");
        assert_eq!(stat["linear"]["bytes"], (512 << 20) - pages * PAGE, "{kernel}: {stat:#}");
    }
}

/// Read-only in the linear map in Linux 7.2, not valid there in 7.3, and writable before.
#[test]
fn the_images_data_is_read_only_or_gone() {
    let read_only = "data and bss are read-only in the linear map";
    for kernel in at_hand() {
        let guest = Guest::boot(Machine { kernel, ..SMALL });
        let stat = stat(&guest);
        let data = pages(&stat, "image_data");
        let facts = stat["facts"].to_string();
        assert_eq!(facts.contains(read_only), kernel == "7.2", "{kernel}: {facts}");
        match kernel {
            "7.3" => assert!(data.is_some_and(|(pages, how)| pages > 256 && how == "known"), "{stat:#}"),
            _ => assert_eq!(data, None, "{kernel}: {stat:#}"),
        }
    }
}

/// A loaded crash kernel is out of the linear map of Linux 6.1.
#[test]
fn a_crash_kernel_is_protected() {
    let arguments = "nokaslr crashkernel=64M";
    let mut guest = Guest::boot(Machine { kernel: "6.1", arguments, ..SMALL });
    assert_eq!(pages(&stat(&guest), "crash_kernel"), None);
    let line = guest.shell("grep 'Crash kernel' /proc/iomem");
    let start = line.split('-').next().map(|word| format!("0x{}", word.trim())).expect("a range");
    let said = guest.shell(&format!("taker crash {start}"));
    assert!(said.contains("taken"), "{line}: {said}");
    let stat = stat(&guest);
    // The loaded part, not all reserved memory.
    let loaded = (20 << 20) / PAGE + 1;
    assert_eq!(pages(&stat, "crash_kernel"), Some((loaded, "inferred".to_owned())), "{stat:#}");
    assert_eq!(stat["causes"][1]["cause"], "crashkernel", "{stat:#}");
}
