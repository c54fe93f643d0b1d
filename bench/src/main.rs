//! How close creation comes to the physical limit: a tree built in host memory beside memset of its pages;
//! and how fast the model judges.
//!
//! Thread CPU time, the same pages for all, written before the first measurement. What is compared is
//! measured in turns, so that whatever slows the machine down slows all of it, and each ratio is that of
//! neighbours in time.

mod clock;
mod model;
mod samples;
mod subject;

use linmap::{Granule, Level};

use samples::Samples;
use subject::Subject;

const RAM: u64 = 64 << 30;
const REPETITIONS: usize = 41;

fn main() {
    match std::env::args().nth(1).as_deref() {
        None => {
            creation();
            println!();
            judging();
        }
        Some("creation") => creation(),
        Some("model") => judging(),
        Some(other) => {
            eprintln!("bench: there is creation and model, and no \"{other}\"");
            std::process::exit(2);
        }
    }
}

fn creation() {
    println!("{} GiB mapped in host memory; thread CPU time, median of {REPETITIONS}\n", RAM >> 30);
    println!("{:<10} {:>12} {:>40}   {:>37}", "", "tables", "microseconds", "linmap divided by");
    let columns = ["memset", "at once", "loop", "linmap"];
    let [a, b, c, d] = columns;
    println!("{:>23} {a:>9} {b:>9} {c:>9} {d:>9}   {a:>18} {b:>18}", "");
    for (name, granule, level) in [
        ("4K pages", Granule::K4, Level::PAGE),
        ("2M blocks", Granule::K4, Level::new(2)),
        ("16K pages", Granule::K16, Level::PAGE),
        ("64K pages", Granule::K64, Level::PAGE),
    ] {
        report(name, &mut Subject::new(granule, level, RAM));
    }
    println!("\nmemset    one call for each table page");
    println!("at once   one call for as many bytes in one piece, which may bypass the caches");
    println!("loop      plain stores of as many entries to the same pages");
    println!("In brackets: where eight of ten ratios lie.");
}

fn judging() {
    let (sequences, events, seconds) = model::speed();
    let a_minute = sequences as f64 / seconds * 60.0;
    println!("The model judges {:.2} million events a second,", events as f64 / seconds / 1e6);
    println!(
        "{a_minute:.0} random small sequences a minute ({:.0} events each), on one core.",
        events as f64 / sequences as f64
    );
}

fn report(name: &str, subject: &mut Subject) {
    let mut round = || [subject.memset(), subject.memset_at_once(), subject.ideal(), subject.build()];
    let rounds: Vec<_> = (0..REPETITIONS).map(|_| round()).collect();
    let column = |i: usize| Samples::new(rounds.iter().map(|round| round[i]).collect());
    let [memset, at_once, ideal, linmap] = [0, 1, 2, 3].map(|i| column(i).median() / 1e3);
    let ratio =
        |to: usize| Samples::new(rounds.iter().map(|round| round[3] / round[to]).collect()).to_string();
    let (to_memset, to_at_once) = (ratio(0), ratio(1));
    let kib = subject.table_bytes() >> 10;
    println!(
        "{name:<10} {kib:>8} KiB {memset:>9.1} {at_once:>9.1} {ideal:>9.1} {linmap:>9.1}   {to_memset:>18} {to_at_once:>18}"
    );
}
