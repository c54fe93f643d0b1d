//! The section about locks: for how many instructions one is held at the most.

use super::super::boots::{Map, PageSize};
use super::super::results::Results;
use crate::report::{table, thousands};

/// RAM, in GiB.
const GIB: u64 = 64;

/// The operations, by their keys in the window.
const OPERATIONS: [(&str, &str); 8] = [
    ("protect", "64 GB in pages made read-only: longest stretch with a lock held"),
    ("repaint", "longest hold of a repaint of 64 GB with changes going on"),
    ("map", "64 GB mapped in the largest leaves"),
    ("split", "64 GB split to pages"),
    ("collapse", "64 GB in pages collapsed"),
    ("unmap", "64 GB in pages unmapped"),
    ("set_memory", "an area of 4 GB and its aliases made read-only and writable"),
    ("set_memory_scattered", "the same for up to 4,096 pages whose aliases are far from each other"),
];

pub(crate) fn section(results: &Results) -> String {
    let row = |(key, operation): (&str, &str)| {
        let of = |page_size| {
            let hold = results.of(page_size, Map::Large, GIB)?;
            hold.count("longest_hold", &format!("{key}_instructions"))
        };
        let cells = PageSize::ALL.map(|page_size| of(page_size).map_or_else(String::new, thousands));
        [vec![operation.to_owned()], cells.to_vec()].concat()
    };
    let header: Vec<&str> = ["instructions"].into_iter().chain(PageSize::ALL.map(PageSize::label)).collect();
    format!(
        "Interrupts are masked while a lock is held. Each operation is one call, for tables of {GIB} GB that no CPU uses. \
         During the repaint a page somewhere changes before each hold.\n\n{}",
        table(&header, &OPERATIONS.map(row))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::boots::Boot;
    use crate::counts::counted::Counted;

    #[test]
    fn a_hold_is_in_the_column_of_its_page_size() {
        let boot = Boot { map: Map::Large, fixed: false, page_size: PageSize::K16, gib: GIB };
        let window = [("protect_instructions".to_owned(), 12_345)].into();
        let windows = [("longest_hold".to_owned(), window)].into();
        let results = Results([(boot, Counted { windows, ..Counted::default() })].into());
        let text = section(&results);
        let row = text.lines().find(|line| line.contains("made read-only")).expect("a row");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[2..], ["", "12,345", "", ""], "{text}");
    }
}
