//! CPUs that change different gigabytes share no lock, and no lock is held for long.

use linmap::Granule;

use crate::guest::{Booted, boot};
use crate::matrix::page_size;

/// The most instructions for which a lock is held, by operation, with pages of 4K, 16K and 64K. A block becomes a table of
/// pages, and such a table a block, in one hold.
const MOST: [(&str, [u64; 3]); 8] = [
    ("map", [20_000; 3]),
    ("split", [20_000, 20_000, 50_000]),
    ("protect", [20_000; 3]),
    ("collapse", [20_000, 20_000, 50_000]),
    ("repaint", [50_000, 50_000, 60_000]),
    ("unmap", [30_000, 100_000, 150_000]),
    ("set_memory", [20_000, 20_000, 50_000]),
    ("set_memory_scattered", [20_000, 20_000, 50_000]),
];

fn contend(granule: Granule, options: &[&str]) -> Booted {
    let all = ["--run", "contend", "--ram", "1G", "--page-size", page_size(granule)];
    let what = format!("{granule} pages, {options:?}");
    let booted = boot(&[&all[..], options].concat()).expect_well(&what);
    assert_eq!(booted.number("/tests/contend/wrong"), 0, "{what}: {}", booted.console);
    assert_eq!(booted.number("/tests/self-check/findings"), 0, "{what}");
    booted
}

/// CPUs take turns, and let others run wherever they could meet.
#[test]
fn nobody_waits_in_different_gigabytes() {
    for granule in Granule::ALL {
        for policy in [["--bbml2", "auto"], ["--bbml2", "off"]] {
            let booted = contend(granule, &[&["--count", "--cpus", "8"], &policy[..]].concat());
            let share = |key: &str| {
                let share = booted.at(&format!("/tests/contend/{key}"));
                share.as_f64().unwrap_or_else(|| panic!("{key} is {share}"))
            };
            assert_eq!(booted.number("/tests/contend/cpus"), 8);
            assert_eq!(booted.number("/tests/contend/found_held"), 0, "{granule}: {}", booted.console);
            assert!(share("contended") == 0.0, "{granule}: {}", share("contended"));
            assert!(share("control") > 0.9, "{granule}: {}", share("control"));
            // One lock for a change.
            assert_eq!(booted.number("/tests/contend/acquisitions"), 8 * 1000, "{granule}");
            assert_eq!(booted.number("/tests/contend/control_acquisitions"), 8 * 1000, "{granule}");
        }
    }
}

/// At the same time, as far as the host has CPUs; and on one CPU.
#[test]
fn however_many_take_part() {
    for (cpus, number) in [("4", 4), ("1", 1)] {
        let booted = contend(Granule::K4, &["--cpus", cpus]);
        assert_eq!(booted.number("/tests/contend/cpus"), number);
        assert_eq!(booted.number("/tests/contend/found_held"), 0, "{}", booted.console);
        assert!(booted.at("/windows/longest_hold/instructions").is_null());
    }
}

/// As much as there is RAM changes; the holds are those of a few thousand entries, however much that is.
#[test]
fn no_lock_is_held_for_long() {
    for (n, granule) in Granule::ALL.into_iter().enumerate() {
        for ram in ["1G", "4G"] {
            let booted = contend(granule, &["--count", "--cpus", "1", "--ram", ram]);
            let hold = |name: &str| booted.number(&format!("/windows/longest_hold/{name}"));
            let longest = MOST.map(|(name, most)| {
                let instructions = hold(&format!("{name}_instructions"));
                println!("{granule} {ram} {name}: {instructions}");
                assert!((100..=most[n]).contains(&instructions), "{granule} {ram} {name}: {instructions}");
                instructions
            });
            assert_eq!(Some(hold("instructions")), longest.into_iter().max());
        }
    }
}
