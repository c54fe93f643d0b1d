//! A reading on one line: for people, as comma-separated values, and as a document.

use serde_json::{Value, json};

use super::history::{History, Reading, Seen};
use crate::commands::csv::quoted;
use crate::commands::owners;
use crate::commands::reading::{geometry, hex, schema};
use crate::commands::stat::counts;
use crate::map::leaves;
use crate::size::{grouped, human};

/// Returns one line, and before the first one the names of the columns.
pub(super) fn text(history: &History) -> String {
    let names = ["table pages", "TLB entries", "splits", "collapses", "permissions", "invalid"];
    let mut line = String::new();
    if history.tries() == 1 {
        line += &format!("{:<8}", "reading");
        names.iter().for_each(|name| line += &format!(" {name:>12}"));
        line += "  changed\n";
    }
    let Some(reading) = history.newest() else { return line };
    line += &format!("{:<8}", history.tries());
    if let Some(why) = &history.error {
        return line + &format!(" not read: {}\n", crate::printable::line(why));
    }
    let values = [
        grouped(reading.stats.tables),
        grouped(reading.stats.tlb_entries(reading.geometry)),
        grouped(history.counts.splits),
        grouped(history.counts.collapses),
        human(history.counts.attributes),
        human(reading.invalid),
    ];
    values.iter().for_each(|value| line += &format!(" {value:>12}"));
    let changed: Vec<String> = newest(history).take(3).map(described).collect();
    line + "  " + &changed.join("; ") + "\n"
}

/// `2M split at 0xffff000012200000 (modules)`: one change, in a few words.
pub(super) fn described(seen: &Seen) -> String {
    let change = &seen.change;
    let who = if seen.who.is_empty() { String::new() } else { format!(" ({})", seen.who()) };
    format!("{} {} at {:#x}{who}", human(change.bytes), change.kind.text(), change.va.0)
}

/// Returns the changes that the newest reading shows.
fn newest(history: &History) -> impl Iterator<Item = &Seen> {
    history.seen.iter().filter(|seen| seen.reading == history.readings && history.error.is_none())
}

/// Returns one row, and before the first one the names of the columns.
pub(super) fn csv(history: &History) -> String {
    let Some(reading) = history.newest() else { return String::new() };
    let head = "time,source,bytes,tables,table_bytes,tlb_entries,invalid_bytes,splits,collapses,\
                attribute_bytes,gone_bytes,come_bytes,halted_seconds,error\n";
    let head = if history.tries() == 1 { head } else { "" };
    let (time, source) = (reading.unix_time(), quoted(&history.source));
    if let Some(why) = &history.error {
        return format!("{head}{time:.3},{source}{}{}\n", ",".repeat(12), quoted(why));
    }
    let (stats, g, counts) = (&reading.stats, reading.geometry, &history.counts);
    let halted = reading.halted.map(|halted| format!("{:.6}", halted.as_secs_f64())).unwrap_or_default();
    format!(
        "{head}{time:.3},{source},{},{},{},{},{},{},{},{},{},{},{halted},\n",
        stats.bytes(g),
        stats.tables,
        stats.table_bytes(g),
        stats.tlb_entries(g),
        reading.invalid,
        counts.splits,
        counts.collapses,
        counts.attributes,
        counts.gone,
        counts.come,
    )
}

/// Returns the document of `docs/schema/linmap.watch-1.json`, on one line.
pub(super) fn json(history: &History) -> Value {
    let error = history.error.as_ref();
    let mut document = json!({
        "schema": schema("watch"),
        "ok": error.is_none(),
        "source": history.source,
        "reading": history.tries(),
    });
    match (error, history.newest()) {
        (Some(why), _) => document["error"] = json!(why),
        (None, Some(reading)) => fill(&mut document, history, reading),
        (None, None) => {}
    }
    document
}

fn fill(document: &mut Value, history: &History, reading: &Reading) {
    let counts_of = |counts: &super::changes::Counts| {
        json!({
            "splits": counts.splits,
            "collapses": counts.collapses,
            "attribute_bytes": counts.attributes,
            "gone_bytes": counts.gone,
            "come_bytes": counts.come,
        })
    };
    document["time"] = json!(reading.unix_time());
    document["release"] = json!(reading.release);
    document["geometry"] = geometry(reading.geometry);
    document["linear"] = counts(reading.geometry, &reading.stats);
    document["in_pages"] = json!(reading.in_pages);
    document["invalid_bytes"] = json!(reading.invalid);
    document["halted_seconds"] = json!(reading.halted.map(|halted| halted.as_secs_f64()));
    document["now"] = counts_of(&history.latest);
    document["since_start"] = counts_of(&history.counts);
    document["changes"] = newest(history).map(change).collect::<Vec<_>>().into();
}

fn change(seen: &Seen) -> Value {
    let change = &seen.change;
    let [before, after] = change.sizes.map(|size| size.map(leaves::name));
    json!({
        "kind": change.kind.text(),
        "va": hex(change.va.0),
        "bytes": change.bytes,
        "before": before,
        "after": after,
        "who": seen.who(),
        "owners": seen.who.iter().map(owners::document).collect::<Vec<_>>(),
    })
}
