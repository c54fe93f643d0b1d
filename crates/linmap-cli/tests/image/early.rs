//! A leaf can be split at every moment of the boot.

use linmap::Granule;

use crate::guest::boot;
use crate::matrix::page_size;

/// Whatever the boot CPU and those that come promise, and however leaves are split then.
#[test]
fn no_split_is_refused_during_the_boot() {
    for granule in Granule::ALL {
        for (policy, more) in [
            ("live", &[][..]),
            ("pages", &["--bbml2", "off"]),
            // CPU 2 is the first that may abort: the map is repainted, or splits park from then on.
            ("pages", &["--bbml2", "2"]),
            ("park", &["--bbml2", "2", "--split", "park"]),
            ("park", &["--bbml2", "off", "--split", "park"]),
        ] {
            let fixed = ["--run", "early", "--cpus", "4", "--ram", "1G", "--page-size", page_size(granule)];
            let what = format!("{granule} pages, {more:?}");
            let booted = boot(&[&fixed[..], more].concat()).expect_well(&what);
            assert_eq!(booted.text("/policy"), policy, "{what}");
            let moments = ["created", "reported", "judged", "in"];
            let splits = moments.map(|moment| booted.number(&format!("/tests/early/{moment}")));
            assert_eq!(splits, [1, 3, 3, 3], "{what}: {}", booted.console);
            assert_eq!(booted.number("/tests/early/wrong"), 0, "{what}: {}", booted.console);
        }
    }
}
