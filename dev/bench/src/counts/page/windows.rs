//! The section about every window: its counts, and its instructions by RAM.

use super::super::boots::{Map, PageSize};
use super::super::counted::{Counted, is_cost};
use super::super::results::Results;
use crate::report::{table, thousands};

/// RAM of the boots whose counts are shown in full, in GiB.
const GIB: u64 = 64;

pub(crate) fn section(results: &Results) -> String {
    let mut text = format!(
        "Each window in a map of large leaves and in one of pages. Its parameters, such as the size of a leaf, are \
         those in the map of large leaves. First all counts with {GIB} GB, then instructions by RAM.\n"
    );
    for page_size in PageSize::ALL {
        text += &format!("\n### {} pages\n\n{}", page_size.label(), counts(results, page_size));
        text += &format!("\n{}", by_ram(results, page_size));
    }
    text
}

fn counts(results: &Results, page_size: PageSize) -> String {
    let maps = [Map::Large, Map::Pages].map(|map| results.of(page_size, map, GIB));
    let row = |name: &str| {
        let count = |counted: Option<&Counted>, what: &str| counted.and_then(|c| c.count(name, what));
        let of = |counted: Option<&Counted>| {
            ["instructions", "tlbi", "dsb", "isb"].map(|what| or_empty(count(counted, what)))
        };
        let about = maps[0].and_then(|counted| parameters(counted, name)).unwrap_or_default();
        [vec![name.to_owned(), about], of(maps[0]).to_vec(), of(maps[1]).to_vec()].concat()
    };
    let rows: Vec<_> = results.windows(page_size, &[Map::Large, Map::Pages]).into_iter().map(row).collect();
    let header = [
        "window",
        "of",
        "large: instructions",
        "TLBI",
        "DSB",
        "ISB",
        "pages: instructions",
        "TLBI",
        "DSB",
        "ISB",
    ];
    table(&header, &rows)
}

/// Returns the parameters of a window: all its numbers that are not counts.
fn parameters(counted: &Counted, name: &str) -> Option<String> {
    let window = counted.windows.get(name)?;
    let parameters = window.iter().filter(|(what, _)| !is_cost(what));
    let texts: Vec<String> = parameters
        .map(|(what, number)| format!("{} {}", what.replace('_', " "), thousands(*number)))
        .collect();
    Some(texts.join(", "))
}

fn by_ram(results: &Results, page_size: PageSize) -> String {
    let maps = [Map::Large, Map::Pages];
    let sizes: Vec<u64> = results.by_ram(page_size, Map::Large).map(|(gib, _)| gib).collect();
    let row = |map: Map, name: &str| {
        let instructions = |gib: &u64| results.of(page_size, map, *gib)?.count(name, "instructions");
        let counts: Vec<_> = sizes.iter().map(instructions).collect();
        let any = counts.iter().any(Option::is_some);
        let cells = counts.into_iter().map(or_empty);
        any.then(|| [name.to_owned(), map.name().to_owned()].into_iter().chain(cells).collect())
    };
    let names = results.windows(page_size, &maps);
    let rows: Vec<Vec<String>> =
        names.into_iter().flat_map(|name| maps.into_iter().filter_map(move |map| row(map, name))).collect();
    let sizes: Vec<String> = sizes.iter().map(|gib| format!("{gib} GB")).collect();
    let header: Vec<&str> = ["window", "map"].into_iter().chain(sizes.iter().map(String::as_str)).collect();
    table(&header, &rows)
}

fn or_empty(count: Option<u64>) -> String {
    count.map_or_else(String::new, thousands)
}
