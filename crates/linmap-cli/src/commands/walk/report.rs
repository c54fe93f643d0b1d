//! A walk for people: each level with its descriptor, field by field, then the result.

use linmap::arch::Entry;
use linmap::read::Visited;

use super::fields::{self, Field};
use super::walked::{Walked, descriptor};
use crate::commands::reading::facts;
use crate::map::permissions::{LIMITS, in_words};
use crate::map::stretches::words;
use crate::map::view::View;
use crate::size::human;
use crate::terminal::{ASIDE, HEADING};

/// Returns the whole report, ending in a line break.
pub(super) fn of(view: &View<'_>, walked: &Walked) -> String {
    let symbol = walked.symbol.as_ref().map(|symbol| format!(" ({symbol})")).unwrap_or_default();
    let mut text = format!("{HEADING}{}{HEADING:#}{symbol}, region {}: ", walked.va, walked.region);
    text += &format!("{}, {}\n\n", view.name(), facts(view));
    for found in &walked.path {
        text += &level(view, found);
    }
    text + &conclusion(view, walked)
}

fn level(view: &View<'_>, found: &Visited) -> String {
    let (number, index, kind) = (found.level.number(), found.slot.index, fields::kind(found));
    let place = match (view.tables, descriptor(view, found)) {
        (Some(_), Some(bits)) => format!(" of the table at {}: {bits:#018x}", found.slot.table),
        (_, Some(bits)) => format!(": {bits:#018x}; where its table is was not saved"),
        (_, None) => "; where its table is and its descriptor were not saved".to_owned(),
    };
    let mut text = format!("{HEADING}level {number}{HEADING:#}  {kind}, slot {index}{place}\n");
    if found.entry == Entry::Hole || descriptor(view, found).is_none() {
        return text + "\n";
    }
    for field in fields::of(found, view.geometry, view.cpu.mair) {
        text += &line(&field);
    }
    text + "\n"
}

fn line(field: &Field) -> String {
    let (place, name) = (field.place(), field.name);
    let value = format!("{:#x}", field.value);
    let text = format!("  {place:>5}  {name:<14} {value:>14}  {}", field.meaning);
    let text = text.trim_end();
    // Fields without information are dimmed.
    if name.is_empty() || field.value == 0 {
        format!("{ASIDE}{text}{ASIDE:#}\n")
    } else {
        format!("{text}\n")
    }
}

fn conclusion(view: &View<'_>, walked: &Walked) -> String {
    let va = walked.va;
    let Some((found, leaf, attributes)) = walked.translation() else {
        let why = match walked.path.last().map(|found| (found.entry, found.level.number())) {
            Some((Entry::Hole, level)) => format!("nothing is mapped at level {level}"),
            Some((Entry::Leaf(_), level)) => format!("the leaf at level {level} is kept, but is not valid"),
            Some((_, level)) => format!("the descriptor at level {level} means nothing there"),
            None => "nothing was read".to_owned(),
        };
        return format!("{HEADING}{va} does not translate{HEADING:#}: {why}\n");
    };
    let pa = if view.has_addresses {
        format!("{:#x}", leaf.oa.0.wrapping_add(va.0 - found.va.0))
    } else {
        "an address that a text dump does not have".to_owned()
    };
    let size = human(view.geometry.level_size(found.level));
    let mut text = format!("{HEADING}{va} -> {pa}{HEADING:#}, a leaf of {size}");
    if leaf.contiguous {
        text += &format!(" in a run of {}", view.geometry.contiguous_entries(found.level));
    }
    text += &format!("\n{}\n{}\n", words(attributes, leaf.contiguous, leaf.valid), in_words(attributes));
    let limits: Vec<&str> =
        LIMITS.iter().filter(|(limit, _)| found.limits.contains(*limit)).map(|(_, name)| *name).collect();
    if !limits.is_empty() {
        text += &format!("with what the tables above say: {}\n", limits.join(", "));
    }
    text
}
