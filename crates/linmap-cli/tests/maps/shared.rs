//! A guest whose RAM is in a shared file: its tables are read while it runs, in passes, and it is halted for moments.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use linmap::Attributes;
use linmap::arch::Level;
use serde_json::Value;
use tempfile::TempDir;

use crate::core::{Kernel, RAM, debian};
use crate::guest::{Guest, Habits, QEMU};
use crate::run::linmap;
use crate::{monitor, stub};

/// A guest with shared RAM, its SOURCE, and the directory of its files. A question about memory is never answered: all of
/// it is read from the file.
fn machine(kernel: Kernel) -> (Arc<Guest>, String, TempDir) {
    let directory = TempDir::new().expect("a directory");
    let habits = Habits { most_reads: 0, ..QEMU };
    let guest = Arc::new(Guest::shared(kernel, habits, &directory.path().join("ram")));
    let source = monitor::listen(&guest, &directory.path().join("qmp"));
    (guest, source, directory)
}

/// The page whose entry changes, and the address of that entry.
fn changing(kernel: Kernel) -> (u64, u64) {
    let mut tables = kernel.tables();
    let page = kernel.linear(RAM + (90 << 20));
    *tables.slot(page, Level::PAGE) = u64::MAX;
    let table = tables.pages.iter().find_map(|(table, words)| {
        let index = words.iter().position(|word| *word == u64::MAX)?;
        Some(table.0 + index as u64 * 8)
    });
    (page, table.expect("an entry"))
}

#[test]
fn a_running_guest_is_halted_for_moments() {
    let (guest, source, _directory) = machine(debian());
    let ran = linmap(&["stat", &source, "--json", "--max-pause", "600"]).exits(0);
    assert!(guest.runs() && guest.halts() == 2, "{} halts", guest.halts());
    assert!(guest.marks().is_empty() && !monitor::has_stub(&guest));
    let document = ran.document();
    let missing = document["missing"][0].as_str().expect("words");
    assert!(missing.contains("two equal passes"), "{missing}");
    ran.says("two equal passes").says("the guest was paused for");
    // The same through a gdbstub, in one halt.
    let other = Arc::new(Guest::new(debian(), QEMU));
    let by_port =
        linmap(&["stat", &stub::listen(&other), "--json", "--max-pause", "600"]).exits(0).document();
    for key in ["linear", "largest", "causes", "facts"] {
        assert_eq!(document[key], by_port[key], "{key}");
    }
    assert_eq!((&by_port["missing"], other.halts()), (&serde_json::json!([]), 1));
}

/// A few tables are read in one halt, and so are those of a guest that stands still.
#[test]
fn one_moment_is_enough_for_a_few_tables_or_a_halted_guest() {
    let (guest, source, _directory) = machine(debian());
    let page = debian().linear(RAM);
    let range = format!("{page:#x}-{:#x}", page + 4096);
    let line = ["dump", &source, "--range", &range, "--json", "--max-pause", "600"];
    let dump = linmap(&line).exits(0).document();
    assert!(guest.halts() == 1 && !dump["missing"].to_string().contains("passes"), "{dump:#}");
    guest.stop();
    let document = linmap(&["stat", &source, "--json", "--max-pause", "600"]).exits(0).document();
    assert!(!guest.runs() && document["missing"] == serde_json::json!([]), "{document:#}");
}

/// One entry changes all the time. It is read when the guest is halted, and is as it was then: always, unless a busy host
/// lets two passes go by without a change.
#[test]
fn what_changes_between_passes_is_read_in_the_halt() {
    let found = (0..30).find(|_| {
        let (seen, last) = changed_meanwhile();
        seen == last
    });
    assert!(found.is_some(), "the entry never is as it was in the halt");
}

/// Returns the output address of an entry that changes meanwhile, as it was read, and as it was last.
fn changed_meanwhile() -> (u64, u64) {
    let kernel = debian();
    let (guest, source, _directory) = machine(kernel);
    let (page, entry) = changing(kernel);
    let (last, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let address = |n: u64| RAM + ((n % (1 << 16)) << 12);
    let document = std::thread::scope(|scope| {
        scope.spawn(|| {
            // After the second halt nothing changes any more.
            for n in 1.. {
                let goes_on = ended.load(SeqCst) == 0 && guest.halts() < 2;
                if !goes_on {
                    break;
                }
                if guest.store(entry, (Attributes::RAM.bits() | 3) + address(n)) {
                    last.store(address(n), SeqCst);
                }
            }
        });
        let ran = linmap(&["dump", &source, "--json", "--max-pause", "600"]).exits(0).document();
        ended.store(1, SeqCst);
        ran
    });
    assert!(document["missing"].to_string().contains("two equal passes"), "{}", document["missing"]);
    let rows = document["rows"].as_array().expect("rows");
    let number =
        |text: &Value| u64::from_str_radix(&text.as_str().expect("text")[2..], 16).expect("a number");
    let row = rows.iter().rfind(|row| number(&row["va"]) <= page).expect("a row");
    (number(&row["pa"]) + (page - number(&row["va"])), last.load(SeqCst))
}

/// Another kernel is there in the second halt. Its 128 MiB of tables take longer than a moment, so the guest is let go, and they
/// are read in passes.
#[test]
fn a_halt_that_would_be_long_is_broken_off() {
    let directory = TempDir::new().expect("a directory");
    let kernel = Kernel { ram: 64 << 30, ..debian() };
    let read = |name: &str, moves| {
        let habits = Habits { most_reads: 0, moves, ..QEMU };
        let guest = Arc::new(Guest::shared(kernel, habits, &directory.path().join(name)));
        let source = monitor::listen(&guest, &directory.path().join(name).with_extension("qmp"));
        let stat = linmap(&["stat", &source, "--json", "--max-pause", "600"]).exits(0).document();
        assert!(guest.runs() && guest.marks().is_empty());
        (stat, guest.halts())
    };
    let (moved, halts) = read("moved", true);
    assert!(halts > 2, "{halts} halts");
    assert!(moved["missing"].to_string().contains("two equal passes"), "{}", moved["missing"]);
    assert_eq!(moved["linear"], read("stays", false).0["linear"]);
}

/// Both halts share one limit.
#[test]
fn two_halts_are_no_longer_than_one() {
    let directory = TempDir::new().expect("a directory");
    let habits = Habits { delay: Duration::from_millis(100), most_reads: 0, ..QEMU };
    let guest = Arc::new(Guest::shared(debian(), habits, &directory.path().join("ram")));
    let source = monitor::listen(&guest, &directory.path().join("qmp"));
    let ran = linmap(&["stat", &source, "--max-pause", "1s", "--json"]).exits(2);
    let why = ran.document()["error"].as_str().expect("an error").to_owned();
    assert!(why.contains("--max-pause"), "{why}");
    assert!(guest.runs() && guest.marks().is_empty());
}

/// Measures 64 GiB in pages; not part of the usual tests.
///
/// `cargo test --release -p linmap-cli --test maps -- --ignored --nocapture moments`
#[test]
#[ignore = "a measurement"]
fn moments_of_64_gib_in_pages() {
    let kernel = Kernel { ram: 64 << 30, ..debian() };
    let (guest, source, _directory) = machine(kernel);
    let mut halts = Vec::new();
    for _ in 0..5 {
        let before = cpu_of_children();
        let ran = linmap(&["stat", &source, "--json"]).exits(0);
        let cpu = cpu_of_children() - before;
        // The guest has a few pages of its own where 128 MiB of tables lie.
        assert!(ran.document()["linear"]["tlb_entries"].as_u64() > Some(16_000_000));
        println!("{cpu:?} of CPU; {}", ran.stderr().lines().next().unwrap_or_default());
        halts.push((cpu, guest.longest_halt()));
    }
    println!("longest halt of one connection: {:?}", guest.longest_halt());
    assert!(guest.longest_halt() < Duration::from_millis(100));
}

/// Returns the CPU time of children that were waited for.
fn cpu_of_children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // cutime and cstime, in hundredths of a second, are fields 16 and 17; the name in field 2 has no `)`.
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace().skip(13).take(2);
    Duration::from_millis(10 * fields.map(|field| field.parse::<u64>().expect("a number")).sum::<u64>())
}
