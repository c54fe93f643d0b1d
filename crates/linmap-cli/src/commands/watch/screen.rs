//! The view on a terminal: leaves and cost now and since the start, and the newest changes.

use super::history::{History, Reading};
use crate::map::leaves;
use crate::size::{grouped, human};
use crate::source::Seconds;
use crate::table::table;
use crate::terminal::{ASIDE, HEADING};

/// The fewest and the most changes in the view.
const FEWEST: usize = 3;
const MOST: usize = 100;
/// The rows around the changes: their heading, its rule, and the row of the cursor.
const AROUND: usize = 3;

/// Returns the view for so many rows, ending in a line break.
pub(super) fn of(history: &History, rows: u16) -> String {
    let Some(reading) = history.newest() else { return String::new() };
    let mut text = heading(history, reading);
    text += &leaf_table(history, reading);
    text.push('\n');
    text += &totals(history, reading);
    text.push('\n');
    text += &changes(history, room(rows, text.lines().count()));
    text
}

/// Returns the number of changes that fit below so many lines. A terminal that is too low scrolls.
fn room(rows: u16, above: usize) -> usize {
    usize::from(rows).saturating_sub(above + AROUND).clamp(FEWEST, MOST)
}

fn heading(history: &History, reading: &Reading) -> String {
    let pages = if reading.in_pages { "in pages" } else { "in large leaves" };
    let mut text = format!("{HEADING}{}{HEADING:#}: {}, {pages}\n", reading.name, reading.facts);
    let halted = reading.halted.map(|halted| format!(", halted for {}", Seconds(halted))).unwrap_or_default();
    text += &format!(
        "{ASIDE}every {}; {} readings, {} failed; the last took {}{halted}{ASIDE:#}\n",
        Seconds(history.interval),
        grouped(history.readings),
        grouped(history.failures),
        Seconds(reading.took),
    );
    if let Some(why) = &history.error {
        text += &format!("{HEADING}not read{HEADING:#}: {}\n", crate::printable::line(why));
    }
    text.push('\n');
    text
}

fn leaf_table(history: &History, reading: &Reading) -> String {
    let (first, g) = (history.first(), reading.geometry);
    let leaves =
        reading.leaves().into_iter().filter(|(size, now)| *now != 0 || first.descriptors(*size) != 0);
    let mut rows: Vec<Vec<String>> = leaves
        .map(|(size, now)| vec![leaves::name(size), grouped(now), since(now, first.descriptors(size))])
        .collect();
    let (tables, entries) = (reading.stats.tables, reading.stats.tlb_entries(g));
    rows.push(vec!["table pages".to_owned(), grouped(tables), since(tables, first.tables)]);
    rows.push(vec![
        "TLB entries to cover RAM".to_owned(),
        grouped(entries),
        since(entries, first.tlb_entries(g)),
    ]);
    table(&["descriptors", "now", "since the start"], rows)
}

/// Returns a difference with its sign.
fn since(now: u64, first: u64) -> String {
    match now.cmp(&first) {
        std::cmp::Ordering::Equal => "0".to_owned(),
        std::cmp::Ordering::Less => format!("-{}", grouped(first - now)),
        std::cmp::Ordering::Greater => format!("+{}", grouped(now - first)),
    }
}

fn totals(history: &History, reading: &Reading) -> String {
    let (now, all) = (&history.latest, &history.counts);
    let row = |name: &str, now: String, all: String| vec![name.to_owned(), now, all];
    table(
        &["changes", "this reading", "since the start"],
        [
            row("leaves split", grouped(now.splits), grouped(all.splits)),
            row("leaves collapsed", grouped(now.collapses), grouped(all.collapses)),
            row("permissions changed", human(now.attributes), human(all.attributes)),
            row("invalid now", human(now.gone), human(all.gone)),
            row("valid now", human(now.come), human(all.come)),
            row("invalid in all", human(reading.invalid), String::new()),
        ],
    )
}

fn changes(history: &History, most: usize) -> String {
    if history.seen.is_empty() {
        return "Nothing has changed so far.\n".to_owned();
    }
    let rows = history.seen.iter().take(most).map(|seen| {
        let change = &seen.change;
        let sizes: Vec<String> = change.sizes.iter().flatten().map(|size| human(size.bytes())).collect();
        vec![
            format!("{:#x}", change.va.0),
            human(change.bytes),
            change.kind.text().to_owned(),
            sizes.join(" -> "),
            format!("{} s", seen.after.as_secs()),
            seen.who(),
        ]
    });
    table(&["newest changes at", "bytes", "kind", "leaves", "after", "who has the memory"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_as_many_as_there_is_room_for() {
        for (rows, above, expected) in
            [(24, 18, FEWEST), (10, 18, FEWEST), (50, 18, 29), (u16::MAX, 18, MOST)]
        {
            assert_eq!(room(rows, above), expected, "{rows}");
        }
    }
}
