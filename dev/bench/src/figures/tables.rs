//! Tables of some stored counts and those of Linux, for documents. All counts are in docs/benchmarks.

use crate::counts::linux;
use crate::counts::{Map, PageSize, Stored};
use crate::report;

/// Returns the table of this name.
pub(super) fn of(name: &str, stored: &str) -> Result<String, String> {
    let stored = Stored::read(stored)?;
    let counts = Counts(&stored);
    match name {
        "create" => create(&counts),
        "change" => change(&counts),
        "stopped" => stopped(&counts),
        "set_memory" => set_memory(&counts),
        _ => Err(format!("no table \"{name}\"; expected create, change, stopped or set_memory")),
    }
}

struct Counts<'s>(&'s Stored);

impl Counts<'_> {
    /// Returns a stored figure, such as `4k/64G/large/create/tlbi`.
    fn get(&self, name: &str) -> Result<String, String> {
        let figure = self.0.figures.get(name);
        let count = figure.ok_or_else(|| {
            format!("{} has no {name}; `make counts ARGS=--update` measures it", crate::counts::STORED)
        })?;
        Ok(report::thousands(*count))
    }

    /// Returns several figures of one window, separated by semicolons.
    fn several(&self, window: &str, what: &[&str]) -> Result<String, String> {
        let each = what.iter().map(|what| self.get(&format!("{window}/{what}")));
        Ok(each.collect::<Result<Vec<_>, _>>()?.join("; "))
    }
}

fn create(counts: &Counts<'_>) -> Result<String, String> {
    let mut rows = Vec::new();
    for (page_size, map, gib) in [
        (PageSize::K4, Map::Pages, 4),
        (PageSize::K4, Map::Large, 4),
        (PageSize::K4, Map::Large, 64),
        (PageSize::K16, Map::Large, 64),
    ] {
        let linux = linux::same(page_size, map, gib).ok_or("Linux was not counted there")?;
        let leaves = if map == Map::Pages { "pages" } else { "large leaves" };
        let theirs = [linux.instructions, linux.tlbi, linux.dsb].map(report::thousands).join("; ");
        let ours = |window: &str| {
            let window = format!("{}/{gib}G/{}/{window}", page_size.name(), map.name());
            counts.several(&window, &["instructions", "tlbi", "dsb"])
        };
        let what = format!("{gib} GB in {leaves}, {} granule", page_size.label());
        rows.push(vec![what, theirs, ours("create_all")?, ours("create")?]);
    }
    let header =
        ["", "Linux 7.2: instructions; TLBI; DSB", "linmap in full: instructions; TLBI; DSB", "the window"];
    Ok(report::table(&header, &rows))
}

fn change(counts: &Counts<'_>) -> Result<String, String> {
    let mut rows = Vec::new();
    for change in &linux::PAGE_CHANGES {
        let window = format!("{}/64G/large/{}", change.page_size.name(), change.window);
        rows.push(vec![
            format!("{}, {}", change.page_size.label(), change.out_of),
            report::thousands(change.instructions),
            counts.get(&format!("{window}/instructions"))?,
            counts.several(&window, &["tlbi", "dsb"])?,
        ]);
    }
    rows.push(vec![
        "collapse of 512 pages to 2M, table freed".to_owned(),
        "does not exist".to_owned(),
        counts.get("4k/64G/large/collapse_l2/instructions")?,
        counts.several("4k/64G/large/collapse_l2", &["tlbi", "dsb"])?,
    ]);
    Ok(report::table(&["one page becomes read-only", "Linux 7.2", "linmap", "TLBI; DSB"], &rows))
}

fn stopped(counts: &Counts<'_>) -> Result<String, String> {
    let ours = [
        (
            "a page out of a 2M block, 7 CPUs parked: instructions while all others are away",
            "park/park/instructions",
        ),
        ("the same, of all 8 CPUs, from the request until all are back", "park/park/stopped_instructions"),
        ("repaint of 4 GB in 4K pages: instructions", "repaint/repaint/instructions"),
        ("of these with CPUs stopped, of all 4 CPUs", "repaint/repaint/stopped_instructions"),
    ];
    let row = |(what, name): (&str, &str)| Ok(vec![what.to_owned(), counts.get(&format!("4k/4G/{name}"))?]);
    let rows = ours.into_iter().map(row).collect::<Result<Vec<_>, String>>()?;
    Ok(report::table(&["", "linmap"], &rows))
}

fn set_memory(counts: &Counts<'_>) -> Result<String, String> {
    let (instructions, tlbi) = linux::SET_MEMORY_RO;
    let window = "4k/64G/large/set_memory_ro";
    let row = |what: &str, theirs, key: &str| {
        Ok(vec![what.to_owned(), report::thousands(theirs), counts.get(&format!("{window}/{key}"))?])
    };
    let rows: Vec<Vec<String>> =
        [row("instructions", instructions, "instructions"), row("TLBIs", tlbi, "tlbi")]
            .into_iter()
            .collect::<Result<_, String>>()?;
    Ok(report::table(&["`set_memory_ro` on 512 adjacent pages, one 1G split", "Linux 7.2", "linmap"], &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_not_stored_is_named() {
        let stored = r#"{"qemu":"","rustc":"","figures":{"4k/64G/large/set_memory_ro/instructions":11543}}"#;
        let error = of("set_memory", stored).unwrap_err();
        assert!(error.contains("4k/64G/large/set_memory_ro/tlbi; `make counts ARGS=--update`"), "{error}");
        assert!(of("other", stored).is_err());
    }
}
