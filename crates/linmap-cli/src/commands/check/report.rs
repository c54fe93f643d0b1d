//! The findings for people: how many of each kind in each region, then the first of each.

use super::findings::{Findings, Found, address, kind};
use crate::commands::names::Names;
use crate::commands::reading::facts;
use crate::map::view::View;
use crate::size::grouped;
use crate::table::table;
use crate::terminal::{ASIDE, HEADING};

/// The most findings of a kind in a region that are listed without `--all`.
const FIRST: usize = 3;

/// The findings of one kind in one region: the kind, the region, how many, and the first ones.
type Group<'f> = (&'static str, &'static str, usize, Vec<&'f Found>);

/// Returns the whole report, ending in a line break.
pub(super) fn of(view: &View<'_>, findings: &Findings, names: &Names, all: bool) -> String {
    let tables = grouped(findings.tables as u64);
    let mut text =
        format!("{HEADING}{}{HEADING:#}: {}, {tables} tables looked at\n", view.name(), facts(view));
    let groups = groups(findings);
    if groups.is_empty() && findings.ended_by.is_none() {
        text += "Nothing found.\n";
    }
    if !groups.is_empty() {
        let rows = groups.iter().map(|(name, region, count, _)| {
            vec![(*name).to_owned(), (*region).to_owned(), grouped(*count as u64)]
        });
        text += &format!("\n{}\n", table(&["finding", "region", "count"], rows));
    }
    for (_, _, count, list) in &groups {
        let shown = if all { list.len() } else { FIRST.min(list.len()) };
        for finding in &list[..shown] {
            let name = names.name(address(finding)).map(|name| format!(" ({name})")).unwrap_or_default();
            text += &format!("{finding}{name}\n");
        }
        if *count > shown {
            text += &format!("{ASIDE}  and {} more{ASIDE:#}\n", grouped((count - shown) as u64));
        }
    }
    let left_out = findings.count - findings.list.len() as u64;
    if left_out > 0 {
        text += &format!("{} findings more were not kept\n", grouped(left_out));
    }
    for note in &findings.notes {
        text += &format!("{ASIDE}note:{ASIDE:#} {note}\n");
    }
    text
}

/// Groups the findings by kind and region, in the order of the first of each.
fn groups(findings: &Findings) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (region, finding) in &findings.list {
        let name = kind(finding).1;
        match groups.iter_mut().find(|group| (group.0, group.1) == (name, *region)) {
            Some(group) => {
                group.2 += 1;
                group.3.push(finding);
            }
            None => groups.push((name, region, 1, vec![finding])),
        }
    }
    groups
}
