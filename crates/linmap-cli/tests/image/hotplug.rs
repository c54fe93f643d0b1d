//! RAM is removed from the map of the booted kernel and added again.

use linmap::Granule;

use crate::guest::{AMPERE_ONE, boot};
use crate::matrix::{MODES, page_size};

/// Every mode at every page size: what is gone faults on all CPUs, what is back has its contents, and the map is what it was.
#[test]
fn ram_comes_and_goes() {
    for granule in Granule::ALL {
        for (options, _, policy) in MODES {
            let fixed = ["--ram", "3G", "--cpus", "4", "--run", "hotplug", "--count", "--cpu", AMPERE_ONE];
            let more = ["--page-size", page_size(granule), "--rodata", "full"];
            let what = format!("{granule} pages, {options:?}");
            let booted = boot(&[&fixed[..], &more, options].concat()).expect_well(&what);
            assert_eq!(booted.text("/policy"), policy, "{what}");
            assert_eq!(booted.number("/tests/hotplug/wrong"), 0, "{what}: {}", booted.console);
            assert_eq!(booted.number("/tests/hotplug/refused"), 0, "{what}");
            assert!(booted.number("/tests/hotplug/went") >= 15, "{what}: {}", booted.console);
        }
    }
}

/// Where no leaf may change its size, whole leaves go and come.
#[test]
fn fixed_leaves_go_as_a_whole() {
    for granule in Granule::ALL {
        let fixed =
            ["--ram", "12G", "--cpus", "2", "--run", "hotplug", "--rodata", "on", "--cpu", AMPERE_ONE];
        let booted = boot(&[&fixed[..], &["--page-size", page_size(granule)]].concat()).expect_well("fixed");
        assert_eq!(booted.number("/tests/hotplug/wrong"), 0, "{granule}: {}", booted.console);
        let (went, refused) = (booted.number("/tests/hotplug/went"), booted.number("/tests/hotplug/refused"));
        assert!(went >= 1 && refused >= 1, "{granule}: {went} went, {refused} refused");
    }
}
