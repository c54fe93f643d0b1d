//! The parts of a run and their tables.

use std::io;

use linmap::Granule;
use linmap::arch::Level;

use crate::counters::{self, EVENTS};
use crate::document::Document;
use crate::host::{Case, LIBRARIES, LOOK_UPS, Operation, Plan, Row, row, versus};
use crate::libraries::Lacks;
use crate::model;
use crate::report::{self, thousands};
use crate::samples::Samples;
use crate::watching;

const GIB: u64 = 1 << 30;
/// Sizes of the mapped RAM, in GiB.
const SIZES: [u64; 5] = [4, 16, 64, 256, 512];
/// The sizes of leaves with 4K pages.
const LEAVES: [(&str, Level); 3] =
    [("4K pages", Level::PAGE), ("2M blocks", Level::new(2)), ("1G blocks", Level::new(1))];

/// Measures creation at all sizes.
pub(crate) fn creation(to: &mut Document) -> io::Result<()> {
    to.add("## Creation\n");
    to.add(
        "A whole tree is built in pages that are already allocated. loop: stores as many different entries.\n",
    );
    for (name, level) in LEAVES {
        let all = SIZES.map(|gib| measured(Operation::Create, Granule::K4, level, gib));
        section(to, name, &all);
        lines(to, &format!("create-{}", &name[..2].to_lowercase()), &format!("Creation in {name}"), &all);
        limits(to, &all[2]);
    }
    let larger =
        [Granule::K16, Granule::K64].map(|granule| measured(Operation::Create, granule, Level::PAGE, 64));
    section(to, "Larger pages", &larger);
    Ok(())
}

/// Measures changes of existing maps.
pub(crate) fn changes(to: &mut Document) -> io::Result<()> {
    to.add("## Changes\n");
    to.add(
        "linmap changes live tables under its lock. It surveys the range first, so that no change fails half way, and \
         issues the barriers and invalidations that a CPU needs (they cost nothing on the host). The others change \
         tables that are not in use. loop: the sweep changes one bit of as many entries in place; splits store as \
         many entries; collapse reads as many.\n",
    );
    for (name, level) in LEAVES {
        let all = [4, 64, 512].map(|gib| measured(Operation::Protect, Granule::K4, level, gib));
        section(
            to,
            &format!(
                "Permission sweep, {name}: the whole map read-only, then writable again; mean time of one sweep"
            ),
            &all,
        );
        limits(to, &all[1]);
    }
    for (title, operation) in [
        ("Split: one page of each 2M block read-only, one call for each", Operation::ProtectParts),
        ("Split: every 2M block to pages, in one call", Operation::Split),
        ("Collapse: all pages back to 2M blocks, in one call", Operation::Collapse),
    ] {
        let all = [4, 64].map(|gib| measured(operation, Granule::K4, Level::new(2), gib));
        section(to, title, &all);
    }
    Ok(())
}

/// Measures reads of existing maps.
pub(crate) fn reading(to: &mut Document) -> io::Result<()> {
    to.add("## Reading\n");
    to.add(
        "A walk visits every leaf and counts it: one by one, where linmap hands out decoded entries, the others stored \
         ones; and in the quickest way that each has, which is the same for the others, while linmap hands out what \
         continues what, with its length. loop: reads as many entries.\n",
    );
    for (operation, how) in [(Operation::Walk, "leaf by leaf"), (Operation::Count, "as quickly as can be")] {
        for (name, level) in &LEAVES[..2] {
            let all = [4, 64, 512].map(|gib| measured(operation, Granule::K4, *level, gib));
            section(to, &format!("Walk {how}, {name}"), &all);
        }
    }
    Ok(())
}

/// Measures look-ups of single addresses. They have no equivalent in memset, so linmap is the unit.
pub(crate) fn look_ups(to: &mut Document) -> io::Result<()> {
    let mut rows = Vec::new();
    for (name, level) in &LEAVES[..2] {
        let plan = Plan::new(Granule::K4, *level, 64 * GIB);
        let versus = versus(Case::new(Operation::LookUp, plan));
        let each = versus.ours.median() / LOOK_UPS as f64;
        let mut cells = vec![format!("64 GiB, {name}"), format!("{each:.1}")];
        cells.extend(versus.ratios.iter().map(cell));
        cells.extend(event_cells(versus.events, |event| format!("{:.1}", event / LOOK_UPS as f64)));
        rows.push(cells);
    }
    let mut header = vec!["", "linmap, ns"];
    header.extend(LIBRARIES[1..].iter().map(|(name, _)| *name));
    let events = event_columns();
    header.extend(events.iter().map(String::as_str));
    to.add("### Single random addresses\n");
    to.add(
        "The physical address of each, by the function that each library has for it (page_table_multiarch returns flags, too). \
         linmap opens one section of a reader for all of them. Time of the others, divided by that of linmap.\n",
    );
    to.add(&report::table(&header, &rows));
    Ok(())
}

/// Measures the speed of the model.
pub(crate) fn judging(to: &mut Document) -> io::Result<()> {
    let (sequences, events, seconds) = model::speed();
    let a_minute = sequences as f64 / seconds * 60.0f64;
    to.add("## The model\n");
    to.add(&format!(
        "It judges {:.2} million events a second,\n{a_minute:.0} random small sequences a minute ({:.0} events each), on one core.",
        events as f64 / seconds / 1e6f64,
        events as f64 / sequences as f64
    ));
    let watching::Costs { event, store, access } = watching::costs();
    to.add(&format!(
        "Without announcements an event of a page that is unmapped and mapped takes {event:.0} ns, {:.0} million a minute, with 500\n\
         entries under way; a store that concerns none of them {store:.1} ns, an access by an address {access:.1} ns.",
        60_000.0f64 / event
    ));
    Ok(())
}

fn measured(operation: Operation, granule: Granule, level: Level, gib: u64) -> Row {
    eprintln!("bench: {operation:?}, {gib} GiB, {granule:?}, level {}", level.number());
    row(Case::new(operation, Plan::new(granule, level, gib * GIB)))
}

/// Adds a heading, a table, and the reasons for its empty cells.
fn section(to: &mut Document, title: &str, rows: &[Row]) {
    let mut header = vec!["RAM", "tables, KiB", "memset, us", "linmap / loop"];
    let names: Vec<String> = LIBRARIES.iter().map(|(name, _)| format!("{name} / memset")).collect();
    header.extend(names.iter().map(String::as_str));
    let events = event_columns();
    header.extend(events.iter().map(String::as_str));
    header.push("rounds");
    to.add(&format!("### {title}\n"));
    to.add(&report::table(&header, &rows.iter().map(cells).collect::<Vec<_>>()));
    for (library, (name, _)) in LIBRARIES.iter().enumerate() {
        if let Err(Lacks(why)) = rows[0].to_memset[library] {
            to.add(&format!("`{name}` {why}.\n"));
        }
    }
}

fn cells(row: &Row) -> Vec<String> {
    let page = row.case.plan.geometry.page_size();
    let larger = if page == 4096 { String::new() } else { format!(", {}K pages", page >> 10u32) };
    let mut cells = vec![
        format!("{} GiB{larger}", row.case.plan.bytes / GIB),
        format!("{}", (row.case.tables() as u64 * page) >> 10u32),
        row.memset.times(1e-3).to_string(),
        row.to_ideal.to_string(),
    ];
    cells.extend(row.to_memset.iter().map(cell));
    cells.extend(event_cells(row.events, |event| thousands(event as u64)));
    cells.push(row.rounds.to_string());
    cells
}

/// Returns the cells below [`event_columns`]; a dash where the counters did not run all the time.
fn event_cells(events: Option<[f64; 3]>, text: impl Fn(f64) -> String) -> Vec<String> {
    let cells = events.map_or(["-"; 3].map(str::to_owned), |events| events.map(text));
    if counters::are_there() { cells.to_vec() } else { Vec::new() }
}

/// Returns the headers of the columns for events of linmap: none where they are not counted.
fn event_columns() -> Vec<String> {
    let counted = EVENTS.iter().filter(|_| counters::are_there());
    counted.map(|event| format!("linmap, {event}")).collect()
}

fn cell(samples: &Result<Samples, Lacks>) -> String {
    samples.as_ref().map_or("-".into(), Samples::to_string)
}

/// Adds a plot of all libraries over the size of RAM.
fn lines(to: &mut Document, name: &str, title: &str, rows: &[Row]) {
    let of = |library: usize| {
        let point = |row: &Row| {
            let ratio = row.to_memset[library].as_ref().ok()?.median();
            Some(((row.case.plan.bytes / GIB) as f64, ratio))
        };
        rows.iter().filter_map(point).collect()
    };
    let series: Vec<_> =
        LIBRARIES.iter().enumerate().map(|(n, (name, _))| ((*name).to_owned(), of(n))).collect();
    to.plot(name, title, report::lines(title, ("GiB of RAM", "multiples of memset"), &series));
}

/// A limit of a case, in multiples of memset.
struct Limit {
    operation: Operation,
    level: Level,
    what: &'static str,
    plot: &'static str,
    most: f64,
    /// The best of the other libraries when the limit was set.
    known: f64,
}

const LIMITS: [Limit; 3] = [
    Limit {
        operation: Operation::Create,
        level: Level::PAGE,
        what: "creation in 4K pages",
        plot: "limit-create-4k",
        most: 2.2,
        known: 9.3,
    },
    Limit {
        operation: Operation::Create,
        level: Level::new(2),
        what: "creation in 2M blocks",
        plot: "limit-create-2m",
        most: 3.0,
        known: 27.0,
    },
    Limit {
        operation: Operation::Protect,
        level: Level::PAGE,
        what: "permission sweep of 4K pages",
        plot: "limit-sweep-4k",
        most: 3.0,
        known: 11.0,
    },
];

/// Adds a case with a limit to the table of limits, and its plot.
fn limits(to: &mut Document, row: &Row) {
    let (operation, level) = (row.case.operation, row.case.plan.level);
    let Some(limit) = LIMITS.iter().find(|limit| (limit.operation, limit.level) == (operation, level)) else {
        return;
    };
    let medians = LIBRARIES.iter().zip(&row.to_memset).filter_map(|((name, _), samples)| {
        samples.as_ref().ok().map(|samples| ((*name).to_owned(), samples.median()))
    });
    let bars: Vec<_> = medians.collect();
    let best = bars[1..].iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("another library");
    let others = format!("{:.1} ({}); {} when the limit was set", best.1, best.0, limit.known);
    let spread = row.memset.times(1.0 / row.memset.median()).to_string();
    to.target([limit.what.to_owned(), limit.most.to_string(), cell(&row.to_memset[0]), spread, others]);
    let (title, most) = (format!("64 GiB: {}", limit.what), Some(("at most".to_owned(), limit.most)));
    let unit = "multiples of memset of the same tables";
    to.plot(limit.plot, &title, report::bars(&title, unit, &bars, most));
}
