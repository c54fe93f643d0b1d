//! The growth of a map: with RAM, with the page size, with single read-only pages.

use linmap::{Geometry, Granule, Stats};

use super::failure::Failure;
use super::fragments::{self, State};
use super::given::Given;
use super::layout::lay_out;
use super::options::{Options, Sweep};
use super::planned::Planned;
use crate::size::{Size, grouped, human};

/// The RAM of the largest machine of a sweep over RAM, by default.
const MAX_RAM: u64 = 64 << 40;
const MIN_RAM: u64 = 1 << 30;

/// A sweep: one row for each value.
pub(crate) struct Swept {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) subtitle: String,
    /// The first one is the value that the rows differ in.
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    /// The columns that are plotted, by number.
    pub(crate) plotted: Vec<usize>,
    /// The units of the axes.
    pub(crate) axes: (Column, Column),
    pub(crate) notes: Vec<String>,
}

/// A column: its name for people and for programs, and the form of its numbers.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    pub(crate) shown: fn(u64) -> String,
}

/// The name of a column that only programs see.
pub(crate) const QUIET: &str = "";

const fn bytes(name: &'static str, key: &'static str) -> Column {
    Column { name, key, shown: human }
}

const fn count(name: &'static str, key: &'static str) -> Column {
    Column { name, key, shown: grouped }
}

/// One value and its results.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) at: u64,
    /// The curves that it belongs to, if one table has rows of several page sizes.
    pub(crate) page_size: Option<u64>,
    pub(crate) values: Vec<u64>,
}

/// Makes the sweep of the options.
pub(crate) fn run(options: &Options) -> Result<Swept, Failure> {
    match options.sweep {
        Some(Sweep::Fragmentation) => fragmentation(options),
        Some(Sweep::PageSize) => page_size(options),
        Some(Sweep::Ram) | None => ram(options),
    }
}

const COSTS: [Column; 4] = [
    bytes("tables, pages", "pages_table_bytes"),
    bytes("tables, large leaves", "large_table_bytes"),
    count("TLB entries, pages", "pages_tlb_entries"),
    count("TLB entries, large leaves", "large_tlb_entries"),
];

fn costs(planned: &Planned) -> Vec<u64> {
    let (g, pages, large) = (planned.geometry, &planned.pages.stats, &planned.large.stats);
    vec![pages.table_bytes(g), large.table_bytes(g), pages.tlb_entries(g), large.tlb_entries(g)]
}

fn ram(options: &Options) -> Result<Swept, Failure> {
    let most = options.machine.ram.map_or(MAX_RAM, |size| size.0.max(MIN_RAM));
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for granule in options.granules() {
        let mut size = MIN_RAM;
        loop {
            let given = Given::of_ram(&options.machine, Size(size))?;
            for planned in Planned::of_all(&given, vec![granule])? {
                rows.push(row(format!("{granule}, {}", human(size)), size, granule, costs(&planned)));
                notes = [given.notes.clone(), planned.notes].concat();
            }
            if size >= most {
                break;
            }
            size = (size * 2).min(most);
        }
    }
    Ok(Swept {
        name: "ram",
        title: "Linear map by RAM",
        subtitle: format!("one range of RAM, {}-bit addresses", options.machine.kernel_options.va_bits),
        columns: [&[bytes("page size, RAM", "ram_bytes")][..], &COSTS].concat(),
        rows,
        plotted: vec![0, 1],
        axes: (bytes("RAM", "ram_bytes"), bytes("table memory", "table_bytes")),
        notes,
    })
}

fn page_size(options: &Options) -> Result<Swept, Failure> {
    let given = Given::read(&options.machine)?;
    let planned = Planned::of_all(&given, options.granules())?;
    let rows = planned.iter().map(|p| Row {
        name: human(p.geometry.page_size()),
        at: p.geometry.page_size(),
        page_size: None,
        values: costs(p),
    });
    Ok(Swept {
        name: "page-size",
        title: "Linear map by page size",
        subtitle: format!("{}, {}-bit addresses", given.source, options.machine.kernel_options.va_bits),
        columns: [&[bytes("page size", "page_size")][..], &COSTS].concat(),
        rows: rows.collect(),
        plotted: vec![0, 1, 2, 3],
        axes: (bytes("page size", "page_size"), count("bytes of tables, TLB entries", "value")),
        notes: given.notes.clone(),
    })
}

fn row(name: String, at: u64, granule: Granule, values: Vec<u64>) -> Row {
    Row { name, at, page_size: Some(granule.page_size()), values }
}

/// The columns of a sweep over read-only pages.
const FRAGMENTATION: [Column; 9] = [
    count("page size, read-only pages", "read_only_pages"),
    bytes("tables at once", "table_bytes"),
    bytes("after rounds", "churned_table_bytes"),
    bytes("with collapse", "collapsed_table_bytes"),
    bytes(QUIET, "back_table_bytes"),
    count("TLB entries at once", "tlb_entries"),
    count("after rounds", "churned_tlb_entries"),
    count("with collapse", "collapsed_tlb_entries"),
    count(QUIET, "back_tlb_entries"),
];

fn fragmentation(options: &Options) -> Result<Swept, Failure> {
    let (seed, rounds) = options.random();
    let given = Given::read(&options.machine)?;
    let mut rows = Vec::new();
    let mut notes = given.notes.clone();
    for granule in options.granules() {
        let (states, said) = lay_out(&given, granule, |laid| {
            let states = fragments::grow(laid.layout, seed, rounds);
            (states.into_iter().map(|state| (state, laid.geometry)).collect::<Vec<_>>(), laid.notes)
        })?;
        notes.extend(said);
        for (State { pages, now, churned, collapsed, back }, g) in states {
            let values = [&now, &churned, &collapsed, &back];
            let tables = values.map(|stats: &Stats| stats.table_bytes(g));
            let entries = values.map(|stats: &Stats| stats.tlb_entries(g));
            rows.push(row(label(g, pages), pages, granule, [tables, entries].concat()));
        }
    }
    notes.dedup();
    Ok(Swept {
        name: "fragmentation",
        title: "Linear map by read-only pages",
        subtitle: format!(
            "{}, random pages (seed {seed}); {rounds} rounds in which all of them are replaced by others, without \
             collapse and with",
            given.source
        ),
        columns: FRAGMENTATION.to_vec(),
        rows,
        plotted: vec![1, 2],
        axes: (count("pages that are read-only", "read_only_pages"), bytes("table memory", "table_bytes")),
        notes,
    })
}

fn label(g: Geometry, pages: u64) -> String {
    format!("{}, {}", g.granule(), grouped(pages))
}
