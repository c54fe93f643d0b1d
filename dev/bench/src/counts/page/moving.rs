//! The sections about operations that park the other CPUs: a repaint, and splits on CPUs that may abort.

use super::super::boots::{Map, PageSize};
use super::super::counted::Window;
use super::super::linux;
use super::super::results::Results;
use crate::report::{lines, table, thousands};

const PLOT: &str = "counts-repaint.svg";

pub(crate) fn repaint(results: &Results) -> String {
    let rows: Vec<Vec<String>> = repaints(results)
        .map(|(page_size, gib, [all, stopped])| {
            let linux = linux::REPAINTS.iter().find(|(size, of, _)| (*size, *of) == (page_size, gib));
            let linux = linux.map_or_else(String::new, |(_, _, count)| thousands(*count));
            vec![page_size.label().to_owned(), format!("{gib} GB"), linux, thousands(all), thousands(stopped)]
        })
        .collect();
    let header = ["pages", "RAM", "Linux: all of it stopped", "linmap", "of these stopped"];
    format!(
        "One of four CPUs may abort and comes online after the map was made. Instructions of all CPUs; *stopped* are \
         those from the request to park until all CPUs are back. In Linux all instructions are of that kind.\n\n{}\n\
         ![instructions by RAM]({PLOT})\n",
        table(&header, &rows)
    )
}

/// Returns the repaints: page size, GiB, and two counts: all instructions, and those while CPUs are stopped.
fn repaints(results: &Results) -> impl Iterator<Item = (PageSize, u64, [u64; 2])> {
    PageSize::ALL.into_iter().flat_map(|page_size| {
        results.by_ram(page_size, Map::Repaint).filter_map(move |(gib, counted)| {
            let count = |what| counted.count("repaint", what);
            Some((page_size, gib, [count("instructions")?, count("stopped_instructions")?]))
        })
    })
}

/// Returns the plot of instructions by RAM for 4K pages, with its file name.
pub(crate) fn plot(results: &Results) -> (String, String) {
    let at_4k = |size: &PageSize| *size == PageSize::K4;
    let linux = linux::REPAINTS.iter().filter(|(size, ..)| at_4k(size));
    let linux = linux.map(|(_, gib, count)| (*gib as f64, *count as f64)).collect();
    let ours = |which: usize| {
        let repaints = repaints(results).filter(|(size, ..)| at_4k(size));
        repaints.map(|(_, gib, counts)| (gib as f64, counts[which] as f64)).collect()
    };
    let series = [
        ("Linux 7.2, CPUs stopped".to_owned(), linux),
        ("linmap".to_owned(), ours(0)),
        ("linmap, CPUs stopped".to_owned(), ours(1)),
    ];
    (PLOT.to_owned(), lines("Repaint into 4K pages", ("GB of RAM", "instructions"), &series))
}

pub(crate) fn park(results: &Results) -> String {
    let rows: Vec<Vec<String>> = PageSize::ALL
        .into_iter()
        .flat_map(|page_size| results.by_ram(page_size, Map::Park).map(move |(_, c)| (page_size, c)))
        .flat_map(|(page_size, counted)| {
            let row = move |(name, window): (&String, &Window)| {
                let count = |what: &str| window.get(what).map_or_else(String::new, |n| thousands(*n));
                let counts = ["instructions", "stopped_instructions", "tlbi", "dsb", "isb"].map(count);
                [vec![page_size.label().to_owned(), name.clone()], counts.to_vec()].concat()
            };
            counted.windows.iter().map(row)
        })
        .collect();
    let header = ["pages", "window", "instructions", "stopped", "TLBI", "DSB", "ISB"];
    format!(
        "Eight CPUs that may abort, 4 GB. `park` counts the CPU that splits a block while all others are parked; \
         *stopped* are the instructions of all eight from the request to park until all are back. Linux has no such \
         operation: it maps such machines in pages.\n\n{}",
        table(&header, &rows)
    )
}
