//! Joins consecutive entries, with consecutive output addresses, into the rows of a dump.

use std::ops::ControlFlow;

use linmap::arch::{Entry, Level, TableLimits};
use linmap::read::Visited;
use linmap::{Attributes, Va};

use super::runs::{Entries, descend_runs};
use super::view::{View, WalkError};
use crate::source::{EntryKind, Restriction, SavedRun};

/// The most rows; each takes 80 bytes.
pub(crate) const MAX_ROWS: usize = 1 << 22;

/// Why there are no rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StretchError {
    #[error("{0}")]
    Walk(#[from] WalkError),
    #[error("more than {MAX_ROWS} rows, the first of them beyond at {0}; a smaller --range has fewer")]
    TooMany(Va),
}

/// Permissions with or without the restrictions of tables above.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permissions {
    /// Those of the entry itself.
    Own,
    /// Those that remain below the tables above it.
    Effective,
}

/// Returns all rows of a range in order of address, holes included.
pub(crate) fn of(
    view: &View<'_>,
    range: (Va, Va),
    permissions: Permissions,
) -> Result<Vec<SavedRun>, StretchError> {
    let mut rows: Vec<SavedRun> = Vec::new();
    let mut beyond = None;
    let _ = descend_runs(view, range, |found| {
        let Some(next) = stretch(view, found, permissions) else { return ControlFlow::Continue(()) };
        if let Some(last) = rows.last_mut()
            && joins(last, &next)
        {
            last.bytes += next.bytes;
            return ControlFlow::Continue(());
        }
        if rows.len() == MAX_ROWS {
            beyond = Some(next.va);
            return ControlFlow::Break(());
        }
        rows.push(next);
        ControlFlow::Continue(())
    })?;
    beyond.map_or(Ok(rows), |va| Err(StretchError::TooMany(va)))
}

/// Returns entries that follow each other as a row; a table is none.
fn stretch(view: &View<'_>, entries: &Entries<'_>, permissions: Permissions) -> Option<SavedRun> {
    let (found, bytes) = (entries.first, entries.bytes);
    let what = match found.entry {
        Entry::Table(_) => return None,
        Entry::Hole => EntryKind::Hole,
        Entry::Reserved => EntryKind::Reserved,
        Entry::Leaf(leaf) => EntryKind::Leaf {
            oa: view.has_addresses.then_some(leaf.oa),
            attributes: match permissions {
                Permissions::Own if view.has_descriptors || leaf.valid => leaf.attributes,
                // As in saved dumps: with the software-present bit in its place.
                Permissions::Own => leaf.attributes | present(found),
                Permissions::Effective => found.limits.restrict(leaf.attributes),
            },
            contiguous: leaf.contiguous,
            valid: leaf.valid,
        },
    };
    let descriptor = (permissions == Permissions::Own && view.has_descriptors).then_some(found.descriptor.0);
    Some(SavedRun { va: found.va, bytes, level: found.level, what, descriptor })
}

/// Returns the software-present bit of an invalid leaf.
fn present(found: &Visited) -> Attributes {
    Attributes::NOT_GLOBAL & Attributes::from_bits_truncate(found.descriptor.0)
}

/// Returns true if a row continues with the next entry.
fn joins(row: &SavedRun, next: &SavedRun) -> bool {
    row.level == next.level
        && row.va.0.wrapping_add(row.bytes) == next.va.0
        && row.at(row.bytes) == (next.what, next.descriptor)
}

/// Returns the tables of a range that restrict what lies below them; consecutive ones with the same restrictions are
/// one, at each level.
pub(crate) fn restrictions(view: &View<'_>, range: (Va, Va)) -> Result<Vec<Restriction>, StretchError> {
    let mut list: Vec<Restriction> = Vec::new();
    // By level ordinal: the index of the last one.
    let mut last: [Option<usize>; Level::COUNT] = [None; Level::COUNT];
    let mut beyond = None;
    let _ = descend_runs(view, range, |entries| {
        let found = entries.first;
        let limits = TableLimits::of(found.descriptor);
        if !matches!(found.entry, Entry::Table(_)) || limits.is_empty() {
            return ControlFlow::Continue(());
        }
        let Visited { va, level, .. } = *found;
        let next = Restriction { va, bytes: view.geometry.level_size(level), level, limits };
        let index = &mut last[level.ordinal()];
        if let Some(last) = index.and_then(|index| list.get_mut(index))
            && last.limits == limits
            && last.va.0.wrapping_add(last.bytes) == va.0
        {
            last.bytes += next.bytes;
            return ControlFlow::Continue(());
        }
        if list.len() == MAX_ROWS {
            beyond = Some(va);
            return ControlFlow::Break(());
        }
        *index = Some(list.len());
        list.push(next);
        ControlFlow::Continue(())
    })?;
    beyond.map_or(Ok(list), |va| Err(StretchError::TooMany(va)))
}

/// Returns the attributes in the words of a dump, without padding: `ro NX UXN AF SHD NG CON GP MEM/NORMAL`.
pub(crate) fn words(attributes: Attributes, contiguous: bool, valid: bool) -> String {
    let a = attributes;
    let flags = [
        (!valid, "F"),
        (a.contains(Attributes::USER), "USR"),
        (!a.contains(Attributes::READ_ONLY), "RW"),
        (a.contains(Attributes::READ_ONLY), "ro"),
        (a.contains(Attributes::DIRTY_MANAGED), "DBM"),
        (a.contains(Attributes::PXN), "NX"),
        (!a.contains(Attributes::PXN), "x"),
        (a.contains(Attributes::UXN), "UXN"),
        (a.contains(Attributes::INNER_SHAREABLE), "SHD"),
        (a.contains(Attributes::ACCESSED), "AF"),
        (a.contains(Attributes::NOT_GLOBAL), "NG"),
        (a.contains(Attributes::GUARDED), "GP"),
        (contiguous, "CON"),
    ];
    let mut words: Vec<String> = flags.iter().filter(|f| f.0).map(|f| f.1.to_owned()).collect();
    let kind = a.memory_type();
    words.push(kind.name().map_or_else(|| format!("type {}", kind.index()), str::to_owned));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::Pa;
    use linmap::arch::Level;

    #[test]
    fn rows_join_where_both_addresses_go_on() {
        let row = |va, oa: Option<u64>| SavedRun {
            va: Va(va),
            bytes: 4096,
            level: Level::PAGE,
            what: EntryKind::Leaf {
                oa: oa.map(Pa),
                attributes: Attributes::RAM,
                contiguous: false,
                valid: true,
            },
            descriptor: None,
        };
        assert!(joins(&row(0, Some(0)), &row(4096, Some(4096))));
        assert!(joins(&row(0, None), &row(4096, None)));
        assert!(!joins(&row(0, Some(0)), &row(4096, Some(8192))));
        assert!(!joins(&row(0, Some(0)), &row(8192, Some(4096))));
        let bits = |row: SavedRun, bits| SavedRun { descriptor: Some(bits), ..row };
        assert!(joins(&bits(row(0, Some(0)), 0x703), &bits(row(4096, Some(4096)), 0x1703)));
        assert!(!joins(&bits(row(0, Some(0)), 0x703), &bits(row(4096, Some(4096)), 0x1703 | 1 << 55)));
        let hole = |va| SavedRun { what: EntryKind::Hole, ..row(va, None) };
        assert!(joins(&hole(0), &hole(4096)));
        assert!(!joins(&hole(0), &SavedRun { level: Level::new(2), ..hole(4096) }));
    }

    #[test]
    fn words_are_those_of_a_dump() {
        assert_eq!(words(Attributes::RAM, true, true), "RW NX UXN SHD AF CON MEM/NORMAL-TAGGED");
        assert_eq!(words(Attributes::KERNEL_TEXT, false, false), "F ro x UXN SHD AF MEM/NORMAL");
    }
}
