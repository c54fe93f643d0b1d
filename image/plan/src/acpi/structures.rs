//! The structures of a table, one after the other behind its fixed part: each begins with its type and its length.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::layout::Structure;
use super::tables::Table;
use crate::note::{Note, TableDefect};

/// A structure of a table.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    table: Table,
    /// Its offset in the table.
    at: usize,
    /// Its type.
    pub(super) kind: u8,
    bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// Reads it as what its type says. Notes it if it is too short for that.
    pub(super) fn read<T>(&self, note: &mut dyn FnMut(Note<'_>)) -> Option<&'a T>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let read = T::ref_from_prefix(self.bytes).ok();
        if read.is_none() {
            note(self.table.wrong(self.too_short(size_of::<T>())));
        }
        read.map(|(structure, _)| structure)
    }

    const fn too_short(&self, least: usize) -> TableDefect {
        TableDefect::Structure { at: self.at, kind: self.kind, bytes: self.bytes.len(), least }
    }
}

/// Calls `each` for every structure from an offset on, up to the end of the table or a structure that is not whole, which
/// is noted.
pub(super) fn each<'a>(
    (table, bytes): (Table, &'a [u8]),
    first: usize,
    note: &mut dyn FnMut(Note<'_>),
    mut each: impl FnMut(Part<'a>, &mut dyn FnMut(Note<'_>)),
) {
    let mut at = first;
    while let Some((&kind, _)) = bytes.get(at..).and_then(<[u8]>::split_first) {
        let rest = &bytes[at..];
        let length = rest.get(1).map_or(0, |length| usize::from(*length)).max(size_of::<Structure>());
        let Some(own) = rest.get(..length).filter(|own| usize::from(own[1]) == length) else {
            let cut = Part { table, at, kind, bytes: rest };
            return note(table.wrong(cut.too_short(length)));
        };
        each(Part { table, at, kind, bytes: own }, note);
        at += length;
    }
}
