//! The linear map at a glance, from the kernel's report: its leaves, its cost beside the cost in pages, and the cost
//! of creation and changes. Anything that the report lacks is left out.

use comfy_table::{Cell, CellAlignment, LineStyle, Row, Table, TableStyle};

use super::cost::page_mapped_cost;
use super::document::Document;
use super::leaves::Leaves;
use crate::size::{grouped, human};
use crate::table::fitted;
use crate::terminal::{ASIDE, HEADING};

/// Returns the whole summary, with styles, ending in a line break.
pub(crate) fn of(document: &Document) -> String {
    let leaves = Leaves::of(document);
    if leaves.is_empty() {
        return "The kernel reported no linear map.\n".to_owned();
    }
    let mut parts = vec![heading(document, &leaves), leaf_table(document, &leaves)];
    parts.extend(cost_table(document));
    parts.extend(window_table(document));
    let closing: String = creation(document).into_iter().chain(tests(document)).collect();
    parts.extend((!closing.is_empty()).then_some(closing));
    parts.join("\n")
}

/// Returns the names of the failed tests, with their reasons.
pub(crate) fn failed_tests(document: &Document) -> String {
    let named = |name: String| match document.text(&format!("/tests/{name}/why")) {
        Some(why) => format!("{name} ({why})"),
        None => name,
    };
    let failed: Vec<String> =
        outcomes(document).into_iter().filter(|(_, ok)| !ok).map(|(name, _)| named(name)).collect();
    match failed[..] {
        [] => "the kernel finished, and says that not all was well".to_owned(),
        _ => format!("failed: {}", failed.join(", ")),
    }
}

/// `Linear map: 12G, 4K granule, …`, then the reason for its leaves.
fn heading(document: &Document, leaves: &[Leaves]) -> String {
    let mut facts: Vec<String> = Vec::new();
    facts.extend(document.number("/linear/bytes").map(human));
    let dropped = document.number("/linear/dropped_bytes").filter(|bytes| *bytes > 0);
    facts.extend(dropped.map(|bytes| format!("{} of RAM out of reach", human(bytes))));
    facts.extend(document.number("/page_size").map(|size| format!("{} granule", human(size))));
    facts.extend(document.number("/va_bits").map(|bits| format!("{bits}-bit addresses")));
    facts.extend(document.text("/rodata").map(|rodata| format!("rodata={rodata}")));
    format!("{HEADING}Linear map{HEADING:#}: {}\n{}", facts.join(", "), mode(document, leaves))
}

/// `Mode 1 (live): boot CPU AmpereOne never aborts`; for a map in pages, the reason.
fn mode(document: &Document, leaves: &[Leaves]) -> String {
    let number = document.number("/mode").map(|mode| format!("mode {mode}"));
    let policy = document.text("/policy").map(|policy| format!("({policy})"));
    let name = number.into_iter().chain(policy).collect::<Vec<_>>().join(" ");
    let reason = document.text("/mode_reason").unwrap_or_else(|| "the kernel gave no reason".to_owned());
    let page_size = document.number("/page_size");
    // The alias of the image keeps its leaves even if everything else is in pages.
    let page_mapped = document.text("/policy").as_deref() == Some("pages")
        || leaves.iter().all(|leaves| Some(leaves.size) == page_size && !leaves.contiguous);
    match (page_mapped, name.as_str()) {
        (true, "") => format!("Mapped with pages, because: {reason}\n"),
        (true, name) => format!("Mapped with pages in {name}, because: {reason}\n"),
        (false, "") => format!("Large leaves: {reason}\n"),
        (false, name) => format!("Large leaves in {name}: {reason}\n"),
    }
}

fn leaf_table(document: &Document, leaves: &[Leaves]) -> String {
    let page_size = document.number("/page_size").unwrap_or_default();
    let total = leaves.iter().map(Leaves::bytes).fold(0, u64::saturating_add);
    let descriptors = leaves.iter().map(|leaves| leaves.descriptors).fold(0, u64::saturating_add);
    let mut table = table(["leaves", "descriptors", "covered", "share"]);
    for leaves in leaves {
        table.add_row(row([
            leaves.name(page_size),
            grouped(leaves.descriptors),
            human(leaves.bytes()),
            share(leaves.bytes(), total),
        ]));
    }
    if leaves.len() > 1 {
        table.add_row(row(["total".to_owned(), grouped(descriptors), human(total), share(total, total)]));
    }
    fitted(table)
}

/// The cost of the map beside the cost in pages.
fn cost_table(document: &Document) -> Option<String> {
    let pages = page_mapped_cost(document);
    let pages = pages.as_ref();
    let plain: fn(u64) -> String = grouped;
    let lines = [
        ("table pages", "/linear/tables", pages.map(|cost| cost.tables), plain),
        ("table memory", "/linear/table_bytes", pages.map(|cost| cost.table_bytes), human),
        ("TLB entries to cover RAM", "/linear/tlb_entries", pages.map(|cost| cost.tlb_entries), plain),
    ];
    let mut table = table(["cost", "this map", "in pages", "factor"]);
    for (name, pointer, pages, shown) in lines {
        let Some(this) = document.number(pointer) else { continue };
        let pages_shown = pages.map(shown).unwrap_or_default();
        let factor = pages.map(|pages| factor(pages, this)).unwrap_or_default();
        table.add_row(row([name.to_owned(), shown(this), pages_shown, factor]));
    }
    (table.row_count() > 0).then(|| fitted(table))
}

/// The windows of the map's creation.
const OF_CREATION: [&str; 7] =
    ["layout", "identity_build", "switch", "create", "identity_discard", "image_map", "create_all"];

/// The cost of changes, window by window.
fn window_table(document: &Document) -> Option<String> {
    let mut table = table(["change", "leaf", "instructions", "TLBI", "DSB", "ISB"]);
    let windows = document.at("/windows").and_then(serde_json::Value::as_object)?;
    for (name, window) in windows.iter().filter(|(name, _)| !OF_CREATION.contains(&name.as_str())) {
        let count = |key: &str| window.get(key).and_then(serde_json::Value::as_u64);
        let shown = |key: &str| count(key).map(grouped).unwrap_or_default();
        table.add_row(row([
            crate::printable::excerpt(name, 60),
            count("leaf_bytes").map(human).unwrap_or_default(),
            count("instructions").map_or_else(|| "not counted".to_owned(), grouped),
            shown("tlbi"),
            shown("dsb"),
            shown("isb"),
        ]));
    }
    (table.row_count() > 0).then(|| fitted(table))
}

/// The cost of creation.
fn creation(document: &Document) -> Option<String> {
    document.at("/windows/create")?;
    let counted = |name: &str| document.number(&format!("/windows/create/{name}"));
    let units = [("instructions", "instructions"), ("tlbi", "TLBI"), ("dsb", "DSB"), ("isb", "ISB")];
    let counts = units.iter().filter_map(|(name, unit)| Some(format!("{} {unit}", grouped(counted(name)?))));
    let counts: Vec<String> = counts.collect();
    let aside = match counted("instructions") {
        Some(_) => String::new(),
        None => format!(" {ASIDE}(--count counts instructions, too){ASIDE:#}"),
    };
    let in_full = document.number("/windows/create_all/instructions").map_or_else(String::new, |all| {
        format!("; in full, with layout, temporary 1:1 map and switches, {} instructions", grouped(all))
    });
    Some(format!("{HEADING}Creation{HEADING:#}: {}{in_full}{aside}\n", counts.join(", ")))
}

/// `Tests: 2 passed`, and the names of those that failed.
fn tests(document: &Document) -> Option<String> {
    let outcomes = outcomes(document);
    let passed = outcomes.iter().filter(|(_, ok)| *ok).count();
    let failed = outcomes.len() - passed;
    let counts = match (passed, failed) {
        (0, 0) => return None,
        (_, 0) => format!("{passed} passed"),
        _ => format!("{passed} passed, {failed} failed"),
    };
    Some(format!("{HEADING}Tests{HEADING:#}: {counts}\n"))
}

/// Returns each test, and true if it passed.
fn outcomes(document: &Document) -> Vec<(String, bool)> {
    let tests = document.at("/tests").and_then(serde_json::Value::as_object);
    let outcome = |test: &serde_json::Value| test.get("ok").and_then(serde_json::Value::as_bool);
    tests
        .into_iter()
        .flatten()
        .filter_map(|(name, test)| Some((crate::printable::excerpt(name, 60), outcome(test)?)))
        .collect()
}

/// No borders but a rule below the header.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table with names to the left and numbers to the right.
fn table<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(row(header.map(str::to_owned)));
    table
}

fn row<const COLUMNS: usize>(cells: [String; COLUMNS]) -> Row {
    let aligned = cells.into_iter().enumerate().map(|(column, text)| {
        let alignment = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    });
    Row::from(aligned.collect::<Vec<_>>())
}

/// Returns a part of a whole in percent.
fn share(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0f64 / whole as f64;
    match percent {
        _ if part == whole => "100%".to_owned(),
        small if small < 0.1 => "<0.1%".to_owned(),
        large if large > 99.9 => ">99.9%".to_owned(),
        _ => format!("{percent:.1}%"),
    }
}

/// Returns how many times more pages cost.
fn factor(pages: u64, this: u64) -> String {
    match (pages, this) {
        (_, 0) => String::new(),
        (pages, this) if pages >= this.saturating_mul(10) => format!("{}x", grouped(pages / this)),
        (pages, this) => format!("{:.1}x", pages as f64 / this as f64),
    }
}
