//! Compressed cores of real kernels: their symbols are those that the guest has, and owners of pages are those that its lists have.

use serde_json::Value;

use crate::guest::{Guest, Machine, PLAIN, at_hand, named};
use crate::sources::{document, linmap};

const ARGUMENTS: &str = "secretmem.enable=1 kfence.sample_interval=100";
const SMALL: Machine<'static> = Machine { arguments: ARGUMENTS, ram: "1G", ..PLAIN };

/// Returns bytes of an owner, and how it is known.
fn owner(stat: &Value, kind: &str) -> Option<(u64, String)> {
    let owner = stat["who"]["owners"].as_array()?.iter().find(|owner| owner["owner"] == kind)?;
    Some((owner["bytes"].as_u64()?, owner["by"].as_str()?.to_owned()))
}

/// Its lists are not known, and it says so.
fn owned_by_address(stat: &Value) {
    let missing = stat["who"]["missing"][0].as_str().unwrap_or_default();
    assert!(missing.contains("CONFIG_KALLSYMS_ALL is not set"), "{stat:#}");
    assert!(
        owner(stat, "invalid").is_some_and(|(bytes, by)| bytes >= 300 * 4096 && by == "nothing"),
        "{stat:#}"
    );
    assert!(owner(stat, "vmalloc").is_some_and(|(_, by)| by == "address"), "{stat:#}");
    // QEMU's tree, by its mapping alone.
    assert_eq!(owner(stat, "device_tree"), Some((1 << 20, "address".to_owned())), "{stat:#}");
    assert_eq!((owner(stat, "secretmem"), owner(stat, "bpf")), (None, None));
}

fn owned_by_lists(kernel: &str, stat: &Value) {
    let (who, [list, symbol]) = (&stat["who"], ["list", "symbol"].map(str::to_owned));
    assert_eq!(who["missing"], Value::Array(Vec::new()), "{kernel}: {who:#}");
    assert_eq!(owner(stat, "secretmem"), Some((300 * 4096, list.clone())), "{kernel}: {who:#}");
    assert_eq!(owner(stat, "bpf"), Some((2 << 20, list)), "{kernel}: {who:#}");
    assert_eq!(owner(stat, "kfence"), Some((2 << 20, symbol.clone())), "{kernel}: {who:#}");
    assert_eq!(owner(stat, "device_tree"), Some((1 << 20, symbol)), "{kernel}: {who:#}");
    assert!(owner(stat, "kernel_code").is_some_and(|(bytes, _)| bytes > 8 << 20), "{kernel}: {who:#}");
    // The variables of each CPU by symbols, and what the allocator has beside them by its lists.
    for by in ["symbol", "list"] {
        let owners = who["owners"].as_array().expect("owners");
        let per_cpu = owners.iter().find(|owner| owner["owner"] == "per_cpu" && owner["by"] == by);
        let bytes = per_cpu.and_then(|owner| owner["bytes"].as_u64()).unwrap_or(0);
        assert!((2 << 14..64 << 20).contains(&bytes), "{kernel}: {by}: {who:#}");
    }
    // Nothing that was taken has no owner.
    assert_eq!(owner(stat, "invalid"), None, "{kernel}: {who:#}");
}

#[test]
fn symbols_and_owners_of_a_compressed_core_are_the_guests() {
    for kernel in at_hand().into_iter().filter(|kernel| ["6.1", "6.12", "7.2"].contains(kernel)) {
        let mut guest = Guest::boot(Machine { kernel, ..SMALL });
        let names = ["jiffies", "schedule", "swapper_pg_dir", "_etext", "pack_list"];
        let text = guest.shell(
            "cat /proc/kallsyms | busybox grep -E ' (jiffies|schedule|swapper_pg_dir|_etext|pack_list)$'",
        );
        let said = guest.shell(
            "(ulimit -l unlimited; taker secret 300; echo >/taken) & until [ -e /taken ]; do sleep 1; done",
        );
        assert!(said.contains("taken"), "{kernel}: {said}");
        guest.monitor("stop");
        let core = guest.path("core");
        assert_eq!(guest.monitor(&named("dump-guest-memory -z ", &core)), "");
        let core = core.display().to_string();
        let mut compared = 0;
        for name in names {
            let line = text.lines().find(|line| line.trim_end().ends_with(&format!(" {name}")));
            let Some(address) = line.and_then(|line| line.split_whitespace().next()) else { continue };
            let walked = document(&["walk", "--json", &core, name]);
            assert_eq!(walked["va"], format!("0x{address}"), "{kernel}: {name}");
            let back = document(&["walk", "--json", &core, address]);
            assert!(back["symbol"].as_str().is_some(), "{kernel}: {name}: {back}");
            compared += 1;
        }
        // The table of 6.1 has the symbols of code alone.
        assert!(compared >= if kernel == "6.1" { 2 } else { 4 }, "{kernel}: {text}");
        let stat = document(&["stat", "--who", "--json", &core]);
        if kernel == "6.1" {
            owned_by_address(&stat);
        } else {
            owned_by_lists(kernel, &stat);
        }
        // In both directions, for a page of text.
        let pa = document(&["walk", "--json", &core, "schedule"])["translation"]["pa"]
            .as_str()
            .expect("an address")
            .to_owned();
        let mappings = document(&["walk", "--json", &core, "--pa", &pa]);
        assert!(
            mappings["mappings"].as_array().is_some_and(|list| list.len() >= 2),
            "{kernel}: {mappings:#}"
        );
        assert_eq!(linmap(&["walk", &core, "no_such_symbol"]).status.code(), Some(2));
    }
}
