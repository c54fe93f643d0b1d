//! How a running guest is halted while its map is read: QEMU itself says when. No test measures the time of a busy host, so
//! the durations are printed, and the halts are counted.

use std::time::Duration;

use serde_json::Value;

use crate::guest::{Guest, Machine, PLAIN, named};
use crate::monitor::Events;
use crate::sources::{document, inside};

/// RAM that is backed as far as the guest touches it: 1 GiB for its `struct page`s and 128 MiB for the tables.
const LARGE: Machine<'static> = Machine {
    arguments: "secretmem.enable=1",
    ram: "64G",
    more: &[
        "-object",
        "memory-backend-file,id=mem,size=64G,mem-path=RAM,share=on",
        "-machine",
        "memory-backend=mem",
    ],
    ..PLAIN
};
/// Readings, of which the one with the shortest halts tells most of a busy host.
const READINGS: usize = 5;
/// The most halts of one reading: for the registers, and for tables.
const MOST: usize = 5;

/// Reads the guest, and returns the document and the halts.
fn read(guest: &Guest) -> (Value, Vec<Duration>) {
    let events = Events::of(&guest.qmp());
    let stat = document(&["stat", "--json", &named("qemu:", &guest.hmp())]);
    (stat, events.halts())
}

fn read_several(guest: &Guest, load: &str) -> Vec<Value> {
    let (mut stats, mut longest, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..READINGS {
        let (stat, halts) = read(guest);
        assert!((2..=MOST).contains(&halts.len()), "{load}: {halts:?}");
        assert!(guest.monitor("info status").contains("running"), "{load}: it stands still");
        longest.extend(halts.iter().max().copied());
        all.push(halts.iter().sum::<Duration>());
        stats.push(stat);
    }
    println!("{load}: the longest halt {longest:?}, all of a reading {all:?}");
    stats
}

/// Returns the number of tables of the last level that two passes showed, and of those that were read in a halt.
fn tables_by(stat: &Value) -> (u64, u64) {
    let text = stat["missing"][0].as_str().unwrap_or_default().replace(',', "");
    let number = |before: &str, after: &str| {
        let (_, rest) = text.split_once(before)?;
        rest.split_once(after)?.0.parse().ok()
    };
    let numbers = (number("tables: ", " of the last level"), number("upper levels and ", " that differed"));
    let (Some(passes), Some(halted)) = numbers else { panic!("no numbers: {text}") };
    (passes, halted)
}

#[test]
fn a_guest_of_64_gib_is_halted_for_moments() {
    let mut guest = Guest::boot(LARGE);
    let own = inside(&mut guest, "stat --json");
    for stat in read_several(&guest, "idle") {
        assert_eq!(stat["linear"], own["linear"]);
        // All but the upper ones and a few: 64 GiB in pages are 32,768 tables.
        let (passes, halted) = tables_by(&stat);
        assert!(passes > 32_700 && halted <= 64, "{passes} and {halted}");
    }
    guest.shell(
        "(ulimit -l unlimited; while :; do busybox timeout 1 taker secret 300; done) >/dev/null 2>&1 &",
    );
    guest.shell("while :; do busybox timeout 1 taker bpf 20; done >/dev/null 2>&1 &");
    for stat in read_several(&guest, "while pages come and go") {
        let bytes = |stat: &Value| {
            let kinds = stat["invalid"].as_array().expect("kinds").iter();
            stat["linear"]["bytes"].as_u64().expect("bytes")
                + kinds.filter_map(|kind| kind["bytes"].as_u64()).sum::<u64>()
        };
        assert_eq!(bytes(&stat), bytes(&own), "{stat:#}");
        let (passes, _) = tables_by(&stat);
        assert!(passes > 32_000, "{passes}");
    }
}
