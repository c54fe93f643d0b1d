//! Walkers that write into the tables, a map that becomes not global, and splits that have a reason.

use linmap::Granule;

use crate::guest::boot;
use crate::matrix::page_size;

/// Where the CPU can, its walkers set the access flag and note writes; the map has no leaf in which they would.
#[test]
fn walkers_write_where_they_may_and_nowhere_else() {
    for granule in Granule::ALL {
        let booted = boot(&["--run", "updates", "--cpus", "3", "--page-size", page_size(granule)])
            .expect_well("updates");
        let [accessed, dirty] =
            ["accessed", "dirty"].map(|what| booted.number(&format!("/tests/updates/{what}")));
        assert_eq!([accessed, dirty], [3, 3], "{granule}: {}", booted.console);
    }
    // Without FEAT_HAFDBS the same accesses fault.
    let booted =
        boot(&["--run", "updates", "--cpus", "2", "--cpu", "cortex-a57"]).expect_well("an older CPU");
    assert_eq!(booted.number("/tests/updates/accessed"), 0, "{}", booted.console);
    assert_eq!(booted.number("/tests/updates/dirty"), 0, "{}", booted.console);
}

/// With every policy, and with leaves that are not valid.
#[test]
fn the_map_becomes_local_while_it_is_used() {
    for granule in Granule::ALL {
        for more in
            [&[][..], &["--bbml2", "off"], &["--bbml2", "off", "--split", "park"], &["--data", "hidden"]]
        {
            let fixed =
                ["--run", "local,selftest", "--cpus", "4", "--ram", "1G", "--page-size", page_size(granule)];
            let what = format!("{granule} pages, {more:?}");
            let booted = boot(&[&fixed[..], more].concat()).expect_well(&what);
            let [global, local] =
                ["global", "local"].map(|name| booted.number(&format!("/tests/local/{name}")));
            assert!(global > 0 && local >= global, "{what}: {}", booted.console);
        }
    }
}

/// Modules and guarded pages split leaves; what they cost is told apart, and comes back by a collapse.
#[test]
fn splits_are_counted_by_reason() {
    for granule in Granule::ALL {
        let fixed = ["--run", "modules,pagealloc", "--cpus", "2", "--ram", "4G", "--count"];
        let booted =
            boot(&[&fixed[..], &["--page-size", page_size(granule)]].concat()).expect_well("reasons");
        for reason in ["module", "guard"] {
            // Also where a split is only of a run.
            let entries = booted.number(&format!("/splits/reasons/{reason}/tlb_entries"));
            assert!(entries > 0, "{granule} {reason}: {}", booted.at("/splits"));
        }
        let [now, collapsed] =
            ["tlb_entries", "collapsed"].map(|key| booted.number(&format!("/splits/{key}")));
        assert!(collapsed <= now, "{granule}: {}", booted.at("/splits"));
        // Without a reason nothing is told.
        let booted = boot(&["--run", "protection", "--page-size", page_size(granule)]).expect_well("none");
        assert!(!booted.says("splits: "), "{granule}: {}", booted.console);
    }
}
