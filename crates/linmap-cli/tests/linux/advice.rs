//! The advice of `linmap stat` is a promise: every piece of it is followed, and the map is then in large leaves.
//!
//! Each release is booted with each of the arguments that can keep its map in pages. The advice of `stat` inside the
//! guest, where it knows the boot arguments, and outside, where it may not, is read and followed. No machine is
//! booted twice.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

use crate::guest::{Guest, KERNELS, Machine, PLAIN, at_hand, at_hand_16k, named};
use crate::sources::{document, inside};

const MAY_ABORT: &str = "max,pauth-impdef=on";
const AMPERE_ONE: &str = "max,pauth-impdef=on,midr=0xc00fac30";
/// BBM level 2, and listed by Linux 7.3.
const NEOVERSE_N3: &str = "max,pauth-impdef=on,midr=0x410fd8e0";

/// A machine to boot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Boot {
    kernel: &'static str,
    arguments: String,
    cpu: &'static str,
}

/// The output of `stat` outside and inside.
#[derive(Clone)]
struct Said {
    outside: Value,
    inside: Value,
}

impl Boot {
    fn new(kernel: &'static str, arguments: &str, cpu: &'static str) -> Self {
        Self { kernel, arguments: arguments.to_owned(), cpu }
    }

    fn read(&self) -> Said {
        static READ: LazyLock<Mutex<HashMap<Boot, Said>>> = LazyLock::new(Mutex::default);
        if let Some(said) = READ.lock().expect("no test has failed in it").get(self) {
            return said.clone();
        }
        println!("{self:?}");
        let machine = Machine {
            kernel: self.kernel,
            arguments: &self.arguments,
            cpu: self.cpu,
            ram: "512M",
            more: &["-smp", "1"],
            ..PLAIN
        };
        let mut guest = Guest::boot(machine);
        let outside = document(&["stat", "--json", &named("qemu:", &guest.qmp())]);
        let said = Said { outside, inside: inside(&mut guest, "stat --json") };
        READ.lock().expect("no test has failed in it").insert(self.clone(), said.clone());
        said
    }

    /// Returns the machines that one piece of advice stands for.
    fn follow(&self, advice: &Value) -> Vec<Self> {
        let list = |key: &str| {
            let words = advice[key].as_array().unwrap_or_else(|| panic!("{key}: {advice:#}")).iter();
            words.map(|word| word.as_str().expect("a word").to_owned()).collect::<Vec<_>>()
        };
        let without = list("without");
        let is_left = |word: &&str| !without.iter().any(|name| word.split('=').next() == Some(name));
        let mut words: Vec<_> =
            self.arguments.split_whitespace().filter(is_left).map(str::to_owned).collect();
        words.extend(list("with"));
        let cpu = if advice["cpus_that_never_abort"] == true { AMPERE_ONE } else { self.cpu };
        let release = advice["release"].as_str();
        let index = |kernel: &str| KERNELS.iter().position(|k| *k == kernel.trim_end_matches("-16k"));
        let kernels: Vec<_> = match release {
            Some(release) => {
                let oldest = index(release).unwrap_or_else(|| panic!("Linux {release} is not tested"));
                // The oldest release that it names, and the newest, with the same pages.
                let is_newer = |kernel: &&str| index(kernel) >= Some(oldest);
                let alike = if self.kernel.ends_with("-16k") { at_hand_16k } else { at_hand };
                let newer = || alike().into_iter().filter(is_newer);
                let (first, last) = (newer().next(), newer().next_back());
                first.into_iter().chain(last.filter(|last| first != Some(last))).collect()
            }
            None => vec![self.kernel],
        };
        kernels.into_iter().map(|kernel| Self { kernel, arguments: words.join(" "), cpu }).collect()
    }
}

/// Boots, reads, and follows all advice.
fn keeps_its_promise(boot: &Boot, in_pages: bool) {
    let said = boot.read();
    for stat in [&said.outside, &said.inside] {
        assert_eq!(stat["in_pages"], in_pages, "{boot:?}: {stat:#}");
        let advice = stat["advice"].as_array().expect("advice");
        assert_eq!(advice.is_empty(), !in_pages, "{boot:?}: {stat:#}");
        for (advice, text) in advice.iter().zip(stat["remedies"].as_array().expect("remedies")) {
            for followed in boot.follow(advice) {
                let after = followed.read().outside;
                assert_eq!(after["in_pages"], false, "{boot:?}, {text}: {followed:?}: {after:#}");
                let entries = |stat: &Value| stat["linear"]["tlb_entries"].as_u64().expect("a number");
                // Of 512 MiB, two leaves of 32M are in pages in any case with 16K pages: for the image, and for KFENCE's pool.
                let factor = if boot.kernel.ends_with("-16k") { 4 } else { 40 };
                assert!(
                    entries(&after) * factor < entries(stat),
                    "{boot:?}, {text}: {followed:?}: {after:#}"
                );
            }
        }
    }
}

/// Returns true if read-only memory is so in the linear map, too, as each release reads `rodata=`.
fn is_full(kernel: &str, arguments: &str) -> bool {
    let renamed = KERNELS.iter().position(|k| *k == kernel) >= KERNELS.iter().position(|k| *k == "6.18");
    let word = arguments.split_whitespace().filter_map(|word| word.strip_prefix("rodata=")).next_back();
    !matches!((word, renamed), (Some("on"), false) | (Some("noalias"), true))
}

/// The releases at which something changed; 7.0 is like 6.18, and 7.3 like 7.2 except for CPUs.
const TURNS: [&str; 5] = ["6.1", "6.12", "6.17", "6.18", "7.2"];

/// With these arguments each release is in pages, except 6.1.
fn each_release(arguments: &str, releases: &[&str]) {
    for kernel in at_hand().into_iter().filter(|kernel| releases.contains(kernel)) {
        let is_full = is_full(kernel, arguments);
        // Debian's 6.1 has no KFENCE; its crash kernel is cut out of pages.
        let in_pages = is_full || kernel != "6.1" || arguments.contains("crashkernel=");
        let boot = Boot::new(kernel, arguments, MAY_ABORT);
        keeps_its_promise(&boot, in_pages);
        // The tables show how the release read the argument.
        let facts = boot.read().outside["facts"].to_string();
        let seen = if is_full { "rodata is full" } else { "rodata is on (noalias)" };
        assert!(facts.contains(seen), "{boot:?}: `{seen}`: {facts}");
    }
}

#[test]
fn as_debian_has_them() {
    each_release("", &KERNELS);
}

#[test]
fn with_pages_of_16k() {
    for kernel in at_hand_16k() {
        for arguments in ["", "rodata=on crashkernel=64M"] {
            keeps_its_promise(&Boot::new(kernel, arguments, MAY_ABORT), true);
        }
    }
}

#[test]
fn with_rodata_on_which_came_to_mean_full() {
    each_release("rodata=on", &TURNS);
}

#[test]
fn with_a_crash_kernel() {
    each_release("crashkernel=64M", &TURNS);
}

/// If rodata is not full, the crash kernel still keeps 6.1 in pages.
#[test]
fn with_a_crash_kernel_and_rodata_not_full() {
    let boot = Boot::new("6.1", "crashkernel=64M rodata=on", MAY_ABORT);
    keeps_its_promise(&boot, true);
    for stat in [boot.read().outside, boot.read().inside] {
        assert_eq!(stat["causes"][0]["cause"], "crashkernel", "{stat:#}");
        assert!(stat["advice"][0]["without"].to_string().contains("crashkernel"), "{stat:#}");
    }
}

#[test]
fn with_noalias_which_older_kernels_do_not_know() {
    for kernel in at_hand().into_iter().filter(|kernel| ["6.17", "6.18"].contains(kernel)) {
        keeps_its_promise(&Boot::new(kernel, "rodata=noalias", MAY_ABORT), true);
        let facts = Boot::new(kernel, "rodata=noalias", MAY_ABORT).read().outside["facts"].to_string();
        assert_eq!(facts.contains("rodata is full"), is_full(kernel, "rodata=noalias"), "{kernel}: {facts}");
    }
}

/// A CPU that Linux 7.3 is the first to trust.
#[test]
fn on_a_cpu_that_is_trusted_later() {
    let at_hand = at_hand();
    for (kernel, in_pages) in [("7.2", true), ("7.3", false)] {
        if at_hand.contains(&kernel) {
            keeps_its_promise(&Boot::new(kernel, "", NEOVERSE_N3), in_pages);
        }
    }
}

/// Every argument on every release; takes long.
#[test]
#[ignore = "takes long: run by `make test-linux ARGS=--include-ignored`"]
fn with_all_arguments() {
    let more =
        ["rodata=full", "rodata=noalias", "kfence.sample_interval=0", "kfence.sample_interval=0 rodata=on"];
    for arguments in ["rodata=on", "crashkernel=64M"].into_iter().chain(more) {
        each_release(arguments, &KERNELS);
    }
}
