//! CPUs that do not answer a call or do not come to be parked: the parking is cancelled, nothing has changed, a late
//! answer does not count for the next parking, and that one succeeds when they come.

use linmap::Granule;

use crate::guest::{Booted, boot};
use crate::matrix::page_size;

/// Fails unless each CPU but the first was late once, and nothing was wrong.
fn expect_late(booted: &Booted, cpus: u64, what: &str) {
    assert_eq!(booted.number("/cpus"), cpus, "{what}");
    let late = ["late", "wrong"].map(|key| booted.number(&format!("/tests/late/{key}")));
    assert_eq!(late, [cpus - 1, 0], "{what}: {}", booted.console);
    for key in ["/tests/late/called_off", "/parking/called_off", "/parking/unanswered"] {
        assert!(booted.number(key) >= cpus - 1, "{what}: {key}");
    }
    assert!(booted.number("/parking/parkings") >= cpus - 1, "{what}");
    assert_eq!(booted.number("/tests/self-check/findings"), 0, "{what}");
}

/// With something to change meanwhile, and with nothing: a leaf splits if CPUs are parked for that.
#[test]
fn late_cpus_have_it_called_off() {
    for granule in Granule::ALL {
        for (split, cpus) in [("park", "2"), ("pages", "5")] {
            let what = format!("{granule} pages, {split}, {cpus} CPUs");
            let fixed = ["--count", "--ram", "1G", "--run", "late", "--page-size", page_size(granule)];
            let more = ["--bbml2", "off", "--split", split, "--cpus", cpus];
            let booted = boot(&[&fixed[..], &more].concat()).expect_well(&what);
            expect_late(&booted, cpus.parse().expect("a number"), &what);
        }
    }
}

/// However long the wait, and at the same time: every wait is for an action of the other CPU.
#[test]
fn late_cpus_at_the_same_time() {
    for limit in ["late:1", "late:50"] {
        let options = ["--ram", "1G", "--run", limit, "--bbml2", "off", "--split", "park", "--cpus", "4"];
        expect_late(&boot(&options).expect_well(limit), 4, limit);
    }
}
