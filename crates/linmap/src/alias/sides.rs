//! The two sides of a change: the area, and the linear addresses of its memory. Pure.

use crate::edit::{ChangeError, Survey};
use crate::format::{LeafChange, Span, Va};

/// One of the two ways to reach the pages.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Area,
    Aliases,
}

/// A change of both sides.
#[derive(Clone, Copy)]
pub(crate) struct Sides {
    /// The linear address less the physical address, wrapping.
    pub(crate) offset: u64,
    /// The first and the last address that the linear map can have.
    pub(crate) range: (Va, Va),
    /// Bits of physical addresses that are not of the memory, but say whose it is.
    pub(crate) besides: u64,
    /// The area.
    pub(crate) span: Span,
    /// Its change.
    pub(crate) area: LeafChange,
    /// The change of the aliases. Holes are left out: the linear map may have none of an alias.
    pub(crate) aliases: LeafChange,
}

/// The linear addresses of physical memory.
pub(crate) struct Reach {
    pub(crate) alias: Span,
    /// The first address beyond the linear map, if a part of the memory is out of its reach.
    pub(crate) beyond: Option<u64>,
}

impl Reach {
    /// Returns true if the linear map has the alias, which was surveyed.
    ///
    /// # Errors
    ///
    /// It has only a part of it.
    pub(crate) fn is_mapped(&self, survey: &Survey) -> Result<bool, ChangeError> {
        let missing = self.beyond.or(survey.hole).filter(|_| survey.finds_leaves());
        missing.map_or(Ok(survey.finds_leaves()), |va| Err(ChangeError::Hole { va: Va(va) }))
    }
}

impl Sides {
    /// Returns an area whose leaves go out, and whose memory has no aliases.
    pub(crate) const fn alone(span: Span) -> Self {
        // The only linear address is 0, and that of all memory is 1.
        let (range, out) = ((Va(0), Va(0)), LeafChange::REMOVE);
        Self { offset: 1, range, besides: u64::MAX, span, area: out, aliases: out }
    }

    /// Returns the linear addresses that physical memory would have, or `None` if all of it is out of the reach of the
    /// linear map.
    pub(crate) fn reach(&self, extent: Span) -> Option<Reach> {
        let (Va(first), Va(last)) = self.range;
        // Relative to the first address of the linear map.
        let at = |pa: u64| (pa & !self.besides).wrapping_add(self.offset).wrapping_sub(first);
        let (from, to, most) = (at(extent.first), at(extent.last), last - first);
        let (begins, ends) = (from <= most, to <= most);
        if !begins && !ends && from <= to {
            return None;
        }
        let alias =
            Span { first: first + if begins { from } else { 0 }, last: first + if ends { to } else { most } };
        let beyond = match (begins, ends) {
            (true, true) => None,
            (true, false) => Some(last + 1),
            (false, _) => Some(first.wrapping_add(from)),
        };
        Some(Reach { alias, beyond })
    }
}
