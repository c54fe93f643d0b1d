//! The section about creating the map: Linux and linmap by RAM, as tables and plots.

use super::super::boots::{Map, PageSize};
use super::super::counted::Counted;
use super::super::linux::{self, Creation};
use super::super::results::Results;
use crate::report::{lines, table, thousands};

const KINDS: [(Map, &str); 2] = [(Map::Pages, "pages"), (Map::Large, "large leaves")];

pub(crate) fn section(results: &Results) -> String {
    let mut text =
        "Including the allocation of table pages; 48 VA bits, one CPU. *In full* is `windows.create_all`, with TLBIs \
         and DSBs: layout, temporary 1:1 map, the switches to it and from it, and the linear map. *The window* is the linear map alone, from entry to exit, as Linux is counted. Factors are of \
         the full sum.\n".to_owned();
    for page_size in PageSize::ALL {
        for (map, kind) in KINDS {
            text += &format!("\n### {} pages, mapped in {kind}\n\n", page_size.label());
            text += &creations(results, page_size, map);
        }
        text += &format!("\n![instructions by RAM]({})\n", plot_name(page_size));
    }
    let Creation { gib, instructions, tlbi, dsb, tables, .. } = linux::BEFORE_2024;
    let [instructions, tlbi, dsb, tables] = [instructions, tlbi, dsb, tables].map(thousands);
    text + &format!(
        "\nLinux 6.1, before the speed-up of 2024, took {instructions} instructions, {tlbi} TLBIs, {dsb} \
         DSBs and {tables} table pages for {gib} GB in 4K pages.\n"
    )
}

fn creations(results: &Results, page_size: PageSize, map: Map) -> String {
    let row = |(gib, counted): (u64, &Counted)| {
        let linux = linux::same(page_size, map, gib);
        let ours = |what| counted.count("create_all", what).unwrap_or_default();
        let theirs = |of: fn(&Creation) -> u64| linux.map_or_else(String::new, |linux| thousands(of(linux)));
        let window = counted.count("create", "instructions").unwrap_or_default();
        let factor = linux.map(|linux| linux.instructions as f64 / ours("instructions") as f64);
        vec![
            format!("{gib} GB"),
            theirs(|linux| linux.instructions),
            theirs(|linux| linux.tlbi),
            theirs(|linux| linux.dsb),
            theirs(|linux| linux.tables),
            thousands(ours("instructions")),
            thousands(ours("tlbi")),
            thousands(ours("dsb")),
            thousands(counted.tables),
            thousands(window),
            factor.map_or_else(String::new, |factor| format!("{factor:.1}x")),
        ]
    };
    let header = [
        "RAM",
        "Linux: instructions",
        "TLBI",
        "DSB",
        "tables",
        "linmap in full: instructions",
        "TLBI",
        "DSB",
        "tables",
        "the window",
        "factor",
    ];
    table(&header, &results.by_ram(page_size, map).map(row).collect::<Vec<_>>())
}

fn plot_name(page_size: PageSize) -> String {
    format!("counts-create-{}.svg", page_size.name())
}

/// Returns a plot of instructions by RAM for each page size, with its file name.
pub(crate) fn plots(results: &Results) -> Vec<(String, String)> {
    let of = |page_size: PageSize| {
        let series = KINDS.into_iter().flat_map(|(map, kind)| {
            let theirs = linux::CREATIONS.iter().filter(|c| (c.page_size, c.map) == (page_size, map));
            let theirs: Vec<_> = theirs.map(|c| (c.gib as f64, c.instructions as f64)).collect();
            let ours = results.by_ram(page_size, map).filter_map(|(gib, counted)| {
                Some((gib as f64, counted.count("create_all", "instructions")? as f64))
            });
            [(format!("Linux 7.2, {kind}"), theirs), (format!("linmap, {kind}"), ours.collect())]
        });
        let series: Vec<_> = series.filter(|(_, points)| !points.is_empty()).collect();
        let title = format!("Creating the linear map, {} pages", page_size.label());
        (plot_name(page_size), lines(&title, ("GB of RAM", "instructions"), &series))
    };
    PageSize::ALL.into_iter().map(of).collect()
}
