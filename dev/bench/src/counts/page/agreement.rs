//! A test that the page and the stored counts agree where they count the same boots.

use std::collections::{BTreeMap, BTreeSet};

use super::super::boots::{self, Boot};
use super::super::budgets;
use super::super::choosing::Targets;
use super::super::counted::{Counted, Figures};
use super::super::lines;
use super::super::results::Results;
use super::super::{PAGES, STORED, Stored};
use super::{WRITES, files, introduction};
use crate::repository;

/// Columns that say which row it is, beside the first one.
const NAMES: [&str; 3] = ["RAM", "map", "window"];
/// The column of boots that are stored for each kind of map: what is not stored of them is not counted any more.
const ALL_STORED: &str = "4 GB";

/// The place of a cell: heading, row, column, and the number of columns with this name before it.
type Place = (String, String, String, usize);

/// Returns the cells of a page's tables that are not empty.
fn cells(page: &str) -> BTreeMap<Place, String> {
    let (mut cells, mut heading, mut header) = (BTreeMap::new(), "", Vec::new());
    for line in page.lines() {
        let row = line.strip_prefix('|').map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        match row {
            None => {
                heading = if line.starts_with('#') { line } else { heading };
                header.clear();
            }
            Some(row) if header.is_empty() => header = row,
            Some(_) if line.starts_with("| -") => {}
            Some(row) => {
                let is_name = |n: &usize| *n == 0 || NAMES.contains(&header[*n]);
                let (names, counts): (Vec<usize>, Vec<usize>) = (0..header.len()).partition(is_name);
                let named: Vec<&str> = names.iter().map(|n| row[*n]).collect();
                for n in counts.into_iter().filter(|n| !row[*n].is_empty()) {
                    let before = header[..n].iter().filter(|other| **other == header[n]).count();
                    let place = (heading.to_owned(), named.join(" "), header[n].to_owned(), before);
                    cells.insert(place, row[n].to_owned());
                }
            }
        }
    }
    cells
}

/// Returns each difference of a page from one of the stored boots alone.
fn differences(page: &str, of_stored: &str) -> Vec<String> {
    let (now, should) = (cells(page), cells(of_stored));
    let gone = now.keys().filter(|(.., column, _)| column == ALL_STORED);
    let places: BTreeSet<&Place> = should.keys().chain(gone).collect();
    let differ = places.into_iter().filter(|place| now.get(place) != should.get(place));
    differ
        .map(|place| {
            let (heading, row, column, _) = place;
            let [now, should] =
                [&now, &should].map(|cells| cells.get(place).map_or("nothing", String::as_str));
            format!("{heading}: {row}: {column}: {now}, and {should} is stored")
        })
        .collect()
}

/// Returns the counts of a boot among the stored figures.
fn counted(figures: &Figures, boot: &Boot) -> Counted {
    let (mut counted, boot) = (Counted::default(), format!("{boot}/"));
    for (name, count) in figures.iter().filter(|(name, _)| !lines::is_of_plugin(name)) {
        match name.strip_prefix(&boot).map(|name| name.split_once('/').ok_or(name)) {
            Some(Ok((window, what))) => {
                counted.windows.entry(window.to_owned()).or_default().insert(what.to_owned(), *count);
            }
            Some(Err("tables")) => counted.tables = *count,
            Some(Err(_)) | None => {}
        }
    }
    counted
}

#[test]
fn the_page_has_the_stored_counts() {
    let root = &repository::root().expect("a workspace");
    let read = |name: &str| repository::read(root, name).expect("the file");
    let Stored { versions, figures } = Stored::read(&read(STORED)).expect("figures");
    let budgets = budgets::read(&read(budgets::FILE)).expect("budgets");
    let results = boots::stored().into_iter().map(|boot| (boot, counted(&figures, &boot)));
    let targets = Targets::of(&budgets).expect("targets");
    let written = files(&Results(results.collect()), &BTreeMap::new(), &targets, &versions);
    let (name, of_stored) = &written[0];
    let page = read(&format!("{PAGES}/{name}"));
    let stale = differences(&page, of_stored);
    assert!(stale.is_empty(), "{name} is stale; `{WRITES}` writes it anew:\n{}", stale.join("\n"));
    assert!(
        page.starts_with(&introduction(&versions)),
        "{name} is not of {versions}; `{WRITES}` writes it anew"
    );
    assert!(cells(of_stored).len() > figures.len() / 2, "most of the stored counts are on the page");
}

#[test]
fn each_difference_is_named() {
    let page =
        |rows: &str| format!("### 4K pages\n\n| window | map | 4 GB | 64 GB |\n| - | - | - | - |\n{rows}");
    let of_stored = page("| create | large | 7 | 8 |\n| trim | pages | 5 | |\n");
    let same = page("| create | large | 7 | 8 |\n| trim | pages | 5 | 6 |\n");
    assert_eq!(differences(&same, &of_stored), Vec::<String>::new());
    let other = page("| create | large | 7 | 9 |\n| walk | large | 4 | 4 |\n");
    let expected = [
        "create large: 64 GB: 9, and 8 is stored",
        "trim pages: 4 GB: nothing, and 5 is stored",
        "walk large: 4 GB: 4, and nothing is stored",
    ];
    assert_eq!(differences(&other, &of_stored), expected.map(|text| format!("### 4K pages: {text}")));
}
