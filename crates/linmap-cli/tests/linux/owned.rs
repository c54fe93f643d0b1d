//! A guest in which every kind of owner has pages, and how many each has: by files of the kernel that have nothing to do with
//! what the command reads.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;

use crate::guest::{Guest, Machine, PLAIN};

/// Pages of `memfd_secret`.
pub(crate) const SECRET: u64 = 300;
/// BPF programs: each is 32K of code, so that a pack of 2M is not enough.
const PROGRAMS: u32 = 100;

/// The memory of each owner that is read-only or invalid in the linear map, in bytes, as the kernel's files have it.
#[derive(Debug)]
pub(crate) struct Told {
    /// The size of a page.
    pub(crate) page: u64,
    /// Code and constants of each module.
    modules: BTreeMap<String, u64>,
    /// Packs of BPF programs.
    bpf: u64,
    /// Addresses of KFENCE's pool.
    pub(crate) kfence: Range<u64>,
    /// The kernel's code with its constants, and its data up to the end of bss.
    code: u64,
    data: u64,
}

/// An area of vmalloc: its addresses, its memory, and who asked for it.
struct Area<'t> {
    addresses: Range<u64>,
    bytes: u64,
    caller: &'t str,
}

/// Boots a kernel that can crash, and has modules, BPF programs and secret memory.
pub(crate) fn boot(kernel: &str) -> Guest {
    let arguments =
        "no_hash_pointers crashkernel=256M secretmem.enable=1 kfence.sample_interval=100 panic=-1";
    let mut guest = Guest::boot(Machine {
        kernel,
        arguments,
        // kexec refuses a seed that the kernel has not used, and makedumpfile is given addresses without KASLR.
        machine: "virt,gic-version=3,dtb-randomness=off",
        // Debian's 6.12 does not load a crash kernel on QEMU's `max`.
        cpu: "neoverse-n1",
        ram: "1G",
        crash: true,
        ..PLAIN
    });
    guest.shell("for module in /modules/*.ko; do [ ! -e $module ] || busybox insmod $module; done");
    let said = guest.shell(&format!(
        "(ulimit -l unlimited; taker secret {SECRET} || echo >/taken) & (taker bpf {PROGRAMS} || echo >/loaded) & \
         until [ -e /taken ] && [ -e /loaded ]; do sleep 1; done"
    ));
    assert!(said.contains("taken") && said.contains("loaded"), "{kernel}: {said}");
    guest
}

impl Told {
    /// Reads the kernel's files.
    pub(crate) fn by(guest: &mut Guest) -> Self {
        let page = guest.shell("busybox grep -m 1 KernelPageSize /proc/1/smaps");
        let page = page.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a size");
        let page = page << 10;
        let text = guest.shell("cat /proc/vmallocinfo");
        let areas: Vec<Area<'_>> = text.lines().filter_map(|line| area(line, page)).collect();
        let iomem = guest.shell("cat /proc/iomem");
        let code = iomem.lines().find_map(|line| line.trim().strip_suffix(" : Kernel code")?.split_once('-'));
        let symbols = guest.shell("busybox grep -E ' (_sdata|__bss_stop)$' /proc/kallsyms");
        let symbol = |name: &str| {
            let line = symbols.lines().find(|line| line.trim().ends_with(name))?;
            line.split_whitespace().next().map(hex)
        };
        let log = guest.shell("dmesg | busybox grep 'kfence: initialized'");
        let kfence = log.split_whitespace().next_back().and_then(|range| range.split_once('-'));
        let is_bpf = |area: &&Area<'_>| area.caller.starts_with("bpf_jit_alloc_exec");
        Self {
            page,
            modules: modules(guest, &areas),
            bpf: areas.iter().filter(is_bpf).map(|area| area.bytes).sum(),
            kfence: kfence.map_or(0..0, |(start, end)| hex(start)..hex(end)),
            code: code.map_or(0, |(first, last)| hex(last) + 1 - hex(first)),
            data: symbol("__bss_stop")
                .zip(symbol("_sdata"))
                .map_or(0, |(end, start)| end.next_multiple_of(page) - start),
        }
    }

    /// Fails unless `stat --who` has these numbers, by the kernel's lists.
    pub(crate) fn expect(&self, kernel: &str, stat: &Value) {
        let who = &stat["who"];
        assert_eq!(who["missing"], Value::Array(Vec::new()), "{kernel}: {who:#}");
        let data = if kernel.starts_with("7.2") { self.data } else { 0 };
        let mut expected: BTreeMap<_, _> = [
            ("secretmem", SECRET * self.page),
            ("bpf", self.bpf),
            ("kfence", self.kfence.end - self.kfence.start),
            ("image", self.code + data),
        ]
        .map(|(kind, bytes)| (kind.to_owned(), bytes))
        .into();
        assert!(expected.values().all(|bytes| *bytes > 0) && self.modules.len() == 3, "{kernel}: {self:?}");
        expected.extend(self.modules.iter().map(|(name, bytes)| (format!("module {name}"), *bytes)));
        assert_eq!(owned(stat), expected, "{kernel}: {who:#}");
        let how = |owner: &Value| {
            let kind = owner["owner"].as_str().expect("a kind");
            owner["by"]
                == if is_of_image(kind) {
                    "address"
                } else if kind == "kfence" {
                    "symbol"
                } else {
                    "list"
                }
        };
        let owners = who["owners"].as_array().expect("owners").iter();
        assert!(owners.filter(|owner| owner["protected_bytes"] != 0).all(how), "{kernel}: {who:#}");
    }
}

/// Tells whether the memory of this owner is in the kernel's image. Of the tables the first one is.
fn is_of_image(kind: &str) -> bool {
    kind.starts_with("kernel_") || kind == "page_tables"
}

/// Returns the bytes of all owners with any that are read-only or invalid, by kind and name. The image is one of them.
pub(crate) fn owned(stat: &Value) -> BTreeMap<String, u64> {
    let mut owned = BTreeMap::new();
    for owner in stat["who"]["owners"].as_array().expect("owners") {
        let kind = owner["owner"].as_str().expect("a kind");
        let kind = if is_of_image(kind) { "image" } else { kind };
        let name = owner["name"].as_str().map_or(kind.to_owned(), |name| format!("{kind} {name}"));
        *owned.entry(name).or_default() += owner["protected_bytes"].as_u64().expect("a number");
    }
    owned.retain(|_, bytes| *bytes > 0);
    owned
}

/// Parses `0xffff80007ab36000-0xffff80007ab3c000   24576 load_module+0x670/0x22a0 pages=5 vmalloc N0=5`.
fn area(line: &str, page: u64) -> Option<Area<'_>> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let caller = words.nth(1)?;
    let pages: u64 = words.find_map(|word| word.strip_prefix("pages="))?.parse().ok()?;
    Some(Area { addresses: hex(start)..hex(end), bytes: pages * page, caller })
}

/// Returns the read-only memory of each module: its areas, except for that with its `struct module`, which is its data.
fn modules(guest: &mut Guest, areas: &[Area<'_>]) -> BTreeMap<String, u64> {
    let mut modules = BTreeMap::new();
    for line in guest.shell("cat /proc/modules").trim().lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let sections = guest.shell(&format!("busybox grep -r '' /sys/module/{name}/sections"));
        let place = |line: &str| {
            let (path, address) = line.split_once(":0x")?;
            let section = path.rsplit('/').next()?;
            let at = hex(address);
            // Memory of the beginning was given back.
            let is_kept = ![".init", ".symtab", ".strtab"].iter().any(|gone| section.starts_with(gone));
            let area = areas.iter().position(|area| area.addresses.contains(&at)).filter(|_| is_kept)?;
            Some((area, section == ".gnu.linkonce.this_module"))
        };
        let places: Vec<_> = sections.lines().filter_map(place).collect();
        let data = places.iter().find(|(_, is_data)| *is_data).map(|(area, _)| *area).expect("its data");
        let read_only: BTreeSet<_> =
            places.iter().map(|(area, _)| *area).filter(|area| *area != data).collect();
        modules.insert(name.to_owned(), read_only.iter().map(|area| areas[*area].bytes).sum());
    }
    modules
}

fn hex(text: &str) -> u64 {
    let digits = text.trim().trim_start_matches("0x");
    u64::from_str_radix(digits, 16).unwrap_or_else(|e| panic!("{text}: {e}"))
}
