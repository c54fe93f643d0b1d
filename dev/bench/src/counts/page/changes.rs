//! The section about one page that becomes read-only, compared with Linux.

use super::super::boots::{Map, PageSize};
use super::super::linux;
use super::super::results::Results;
use crate::report::{table, thousands};

/// RAM, in GiB.
const GIB: u64 = 64;

pub(crate) fn section(results: &Results) -> String {
    format!(
        "One call, including the allocation of table pages. Linux issues one TLBI as well. {GIB} GB in large \
         leaves.\n\n{}\n\
         `set_memory_ro` on 512 adjacent pages of the vmalloc area. Their alias in the linear map is split out of a \
         1 GB block:\n\n{}",
        pages(results),
        many(results)
    )
}

fn pages(results: &Results) -> String {
    let row = |change: &linux::PageChange| {
        let counted = results.of(change.page_size, Map::Large, GIB);
        let count = |what| counted.and_then(|counted| counted.count(change.window, what));
        let or_empty = |count: Option<u64>| count.map_or_else(String::new, thousands);
        let factor = count("instructions").map(|ours| change.instructions as f64 / ours as f64);
        vec![
            format!("{}, {}", change.page_size.label(), change.out_of),
            thousands(change.instructions),
            or_empty(change.dsb),
            or_empty(count("instructions")),
            or_empty(count("tlbi")),
            or_empty(count("dsb")),
            factor.map_or_else(String::new, |factor| format!("{factor:.1}x")),
        ]
    };
    let header = ["a page", "Linux: instructions", "DSB", "linmap: instructions", "TLBI", "DSB", "factor"];
    table(&header, &linux::PAGE_CHANGES.iter().map(row).collect::<Vec<_>>())
}

fn many(results: &Results) -> String {
    let counted = results.of(PageSize::K4, Map::Large, GIB);
    let ours = ["instructions", "tlbi"].map(|what| counted.and_then(|c| c.count("set_memory_ro", what)));
    let [instructions, tlbi] = ours.map(|count| count.map_or_else(String::new, thousands));
    let (theirs, theirs_tlbi) = linux::SET_MEMORY_RO;
    let rows = [
        vec!["Linux 7.2".to_owned(), thousands(theirs), thousands(theirs_tlbi)],
        vec!["linmap".to_owned(), instructions, tlbi],
    ];
    table(&["", "instructions", "TLBI"], &rows)
}
