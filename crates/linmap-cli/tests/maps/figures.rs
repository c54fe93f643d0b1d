//! Measures the time and memory of `linmap stat` for a large guest; not part of the usual tests.
//!
//! `cargo test --release -p linmap-cli --test maps -- --ignored --nocapture figures`

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::core::{Kernel, debian};

/// 64 GiB in 4K pages: 128 MiB of tables, in a file of holes.
#[test]
#[ignore = "a measurement"]
fn figures_of_64_gib_in_pages() {
    let kernel = Kernel { ram: 64 << 30, ..debian() };
    let core = kernel.core(|_| {});
    let mut times: Vec<(Duration, u64)> = (0..5).map(|_| measured(&core.path())).collect();
    times.sort();
    let (median, memory) = times[2];
    println!(
        "linmap stat, 64 GiB in 4K pages: median {median:?} of {times:?}, {memory} KiB of anonymous memory"
    );
    let document = core.run("stat", &["--json"]).exits(0).document();
    assert_eq!(document["linear"]["tables"], 32768 + 64 + 2);
    assert_eq!(document["linear"]["tlb_entries"], 16 << 20);
    assert!(median < Duration::from_millis(500) && memory < 64 << 10, "{median:?}, {memory} KiB");
}

/// The same memory as makedumpfile saves it: compressed by zlib, and only its tables.
#[test]
#[ignore = "a measurement"]
fn figures_of_64_gib_in_a_filtered_core() {
    let kernel = Kernel { ram: 64 << 30, ..debian() };
    let core = kernel.core(|_| {});
    let path = core.file("filtered");
    let (pages, info) = (crate::dumps::pages(kernel), kernel.info());
    std::fs::write(&path, crate::dumps::dump(kernel, &pages, &info).file()).expect("room");
    let mut times: Vec<(Duration, u64)> = (0..5).map(|_| measured(&path)).collect();
    times.sort();
    let (median, memory) = times[2];
    let before = cpu();
    assert!(Command::new(env!("CARGO_BIN_EXE_linmap")).arg("stat").arg(&path).output().is_ok());
    let used = cpu() - before;
    println!(
        "linmap stat, 64 GiB in a filtered core: median {median:?} of {times:?}, {used:?} of CPU, {memory} KiB of anonymous memory"
    );
    assert!(used < Duration::from_secs(2) && memory < 64 << 10, "{used:?}, {memory} KiB");
}

/// Returns the time that CPUs spent for children that have ended.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a process");
    let fields: Vec<i64> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(1)
        .filter_map(|f| f.parse().ok())
        .collect();
    // After the state, which is no number: fields 16 and 17 of proc(5), in hundredths of a second.
    Duration::from_millis(fields[12..14].iter().sum::<i64>().unsigned_abs() * 10)
}

/// Returns the duration of one run, and the most anonymous memory that was seen, in KiB.
fn measured(path: &std::path::Path) -> (Duration, u64) {
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    let mut child = command.arg("stat").arg(path).stdout(Stdio::null()).spawn().expect("linmap runs");
    let mut most = 0;
    while child.try_wait().expect("it ends").is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let size = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        most = most.max(size.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    (start.elapsed(), most)
}
