//! A plan for people: the decision by the CPUs, its costs, and the large leaves.

use kernel_plan::bootargs::Bbml2;
use linmap::policy::Decision;
use linmap::{Geometry, Leaves, Stats};

use super::given::{Basis, Given};
use super::planned::Planned;
use super::sweep::{QUIET, Swept};
use crate::kernel_options::{KernelOptions, rodata_name};
use crate::size::{grouped, human};
use crate::table::table;
use crate::terminal::{ASIDE, HEADING};

/// Returns the whole report, with styles, ending in a line break.
pub(crate) fn of(given: &Given<'_>, planned: &[Planned]) -> String {
    let mut parts = vec![heading(given, planned), modes(given), costs(planned)];
    parts.extend(planned.iter().map(leaves));
    parts.join("\n")
}

/// `Linear map: 256G from 0x40000000, …`.
fn heading(given: &Given<'_>, planned: &[Planned]) -> String {
    let mut facts = vec![given.source.clone()];
    if !given.source.contains(" from ") {
        facts.push(format!("{} of RAM", human(given.memory.ram.bytes())));
    }
    facts.push(format!("{}-bit addresses", given.options.kernel_options.va_bits));
    facts.push(format!("rodata={}", rodata_name(given.options.kernel_options.rodata)));
    if let Some(crash) = planned.iter().find_map(|p| p.crash.as_ref()) {
        facts.push(format!(
            "{} for a crash kernel at {:#x}",
            human(crash.end.0 - crash.start.0),
            crash.start.0
        ));
    }
    let mut text = format!("{HEADING}Linear map{HEADING:#}: {}\n{}", facts.join(", "), kernel(given));
    for planned in planned.iter().filter(|p| p.dropped_bytes > 0) {
        let (granule, dropped) = (planned.geometry.granule(), human(planned.dropped_bytes));
        text.push_str(&format!("With {granule} pages {dropped} of RAM is out of reach.\n"));
    }
    text
}

/// `Kernel: 192K of code and constants at 0x40200000, …`: RAM with permissions of its own.
fn kernel(given: &Given<'_>) -> String {
    let basis = match given.basis {
        Basis::Nothing => {
            return format!("{HEADING}Kernel{HEADING:#}: none in the plan; --kernel says where one is\n");
        }
        Basis::Assumed => "assumed, as large as this version's own; --kernel says where another is",
        Basis::Measured => "measured: the image that was built here",
        Basis::Named => "as --kernel says",
        Basis::Iomem => "as /proc/iomem says",
    };
    let (bytes, start) = (given.read_only.end.0 - given.read_only.start.0, given.read_only.start.0);
    format!("{HEADING}Kernel{HEADING:#}: {} of code and constants at {start:#x}, {basis}\n", human(bytes))
}

/// The decision of each mode; the one of the options is marked.
fn modes(given: &Given<'_>) -> String {
    let rows = decisions(given).into_iter().map(|(who, decision, asked)| {
        let mark = if asked { "  <" } else { "" };
        vec![who.to_owned(), decision.mode.number().to_string(), decision.policy.to_string(), {
            format!("{}{mark}", mapped_in(decision.leaves()))
        }]
    });
    table(&["CPUs that never abort", "mode", "policy", "mapped in"], rows)
}

/// Returns the CPUs that can promise never to abort, the decision that follows, and true for the options' own case.
pub(crate) fn decisions(given: &Given<'_>) -> [(&'static str, Decision, bool); 3] {
    let KernelOptions { rodata, split, bbml2, .. } = &given.options.kernel_options;
    let asked = match *bbml2 {
        Bbml2::First(0) => (false, true),
        Bbml2::First(count) if count < u32::from(given.options.cpus) => (true, false),
        _ => (true, true),
    };
    let cases =
        [("all", true, true), ("not the boot CPU", false, true), ("the boot CPU, not all", true, false)];
    cases.map(|(who, boot, others)| {
        (who, Decision::when_all_reported(boot, others, *rodata, *split), asked == (boot, others))
    })
}

pub(crate) const fn mapped_in(leaves: Leaves) -> &'static str {
    match leaves {
        Leaves::Pages => "pages",
        Leaves::Largest => "large leaves",
    }
}

/// The costs of each page size, in pages and in large leaves.
fn costs(planned: &[Planned]) -> String {
    let rows = planned.iter().flat_map(|planned| {
        let row = |leaves: Leaves, stats: &Stats, saved: String| {
            let mark = if leaves == planned.decision.leaves() { "  <" } else { "" };
            let g = planned.geometry;
            let descriptors: u64 = g.leaf_sizes().iter().map(|size| stats.descriptors(*size)).sum();
            vec![
                format!("{} in {}{mark}", granule_name(g), mapped_in(leaves)),
                grouped(descriptors),
                grouped(stats.tables),
                human(stats.table_bytes(g)),
                grouped(stats.tlb_entries(g)),
                saved,
            ]
        };
        let saved = human(planned.saved_bytes());
        [
            row(Leaves::Pages, &planned.pages.stats, String::new()),
            row(Leaves::Largest, &planned.large.stats, saved),
        ]
    });
    let header =
        ["page size", "leaves", "table pages", "table memory", "TLB entries to cover RAM", "RAM saved"];
    let counted = planned.iter().flat_map(|p| [p.pages, p.large]).any(|counted| !counted.built);
    let aside = if counted {
        format!("{ASIDE}Maps with more than 64M of tables are counted without being built.{ASIDE:#}\n")
    } else {
        String::new()
    };
    format!(
        "{}{ASIDE}< is what a kernel would do with these options.{ASIDE:#}\n{aside}",
        table(&header, rows)
    )
}

/// The large leaves of one page size.
fn leaves(planned: &Planned) -> String {
    let (g, stats) = (planned.geometry, &planned.large.stats);
    let total = stats.bytes(g);
    let used = g.leaf_sizes();
    let rows = used.iter().filter(|size| stats.descriptors(**size) > 0).map(|size| {
        let descriptors = stats.descriptors(*size);
        let bytes = descriptors << size.entry_shift;
        vec![
            leaf_name(1 << size.entry_shift, size.contiguous.then(|| size.descriptors())),
            grouped(descriptors),
            human(bytes),
            share(bytes, total),
        ]
    });
    let title = format!("{} in large leaves", granule_name(g));
    table(&[&title, "descriptors", "covered", "share"], rows)
}

/// Returns the name of a page size: `4K pages`.
pub(crate) fn granule_name(geometry: Geometry) -> String {
    format!("{} pages", geometry.granule())
}

/// Returns the name of a leaf: `2M`, or `32M contiguous (16 x 2M)`.
fn leaf_name(bytes: u64, run: Option<u64>) -> String {
    let size = human(bytes);
    match run {
        Some(run) => format!("{} contiguous ({run} x {size})", human(bytes.saturating_mul(run))),
        None => size,
    }
}

/// Returns a part of a whole in percent.
fn share(part: u64, whole: u64) -> String {
    match part as f64 * 100.0 / whole as f64 {
        _ if part == whole => "100%".to_owned(),
        small if small < 0.1 => "<0.1%".to_owned(),
        large if large > 99.9 => ">99.9%".to_owned(),
        percent => format!("{percent:.1}%"),
    }
}

/// Returns a sweep for people.
pub(crate) fn of_sweep(swept: &Swept) -> String {
    let told = || swept.columns.iter().filter(|column| column.name != QUIET);
    let header: Vec<&str> = told().map(|column| column.name).collect();
    let rows = swept.rows.iter().map(|row| {
        let cells = row.values.iter().zip(&swept.columns[1..]).filter(|(_, column)| column.name != QUIET);
        let cells = cells.map(|(value, column)| (column.shown)(*value));
        std::iter::once(row.name.clone()).chain(cells).collect()
    });
    format!("{HEADING}{}{HEADING:#}: {}\n\n{}", swept.title, swept.subtitle, table(&header, rows))
}
