//! The operations on live tables, for every caller: the arguments are checked, and each operation begins.

use crate::edit::call::Caller;
use crate::edit::change::{Ranges, change_ranges, protect};
use crate::edit::collapse::collapse;
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::edit::mapping::Mapping;
use crate::edit::one_leaf::in_one_hold;
use crate::edit::split_to_pages::split_to_pages;
use crate::edit::unmap::{unmap, unmap_all};
use crate::format::{Attributes, Change, ChangeFlags, LeafChange, MemoryType, Pa, Span, Unaligned, Va};
use crate::plan::Leaves;

/// An address, and a number of pages from there on.
pub(crate) type Pages = (Va, u64);

impl<G: Guard> Caller<'_, G> {
    /// Changes permissions, validity, or both.
    ///
    /// # Errors
    ///
    /// A range that is unaligned or outside the half; a change that walkers may undo; as for [`protect`].
    #[inline(never)]
    pub(crate) fn change(
        self,
        (va, pages): Pages,
        change: Change,
        flags: ChangeFlags,
    ) -> Result<(), ChangeError> {
        let Some(span) = self.tables().span(va, pages)? else { return Ok(()) };
        self.tables().may_change(change, va)?;
        let later = flags.contains(ChangeFlags::LATER);
        protect(self, (self.tables().leaf_change_with(change, flags), later, span))
    }

    /// Gives memory allocation tags, or takes them away.
    ///
    /// # Errors
    ///
    /// As for [`protect`]; memory that is of another type.
    pub(crate) fn set_tagged(self, (va, pages): Pages, tagged: bool) -> Result<(), ChangeError> {
        let Some(span) = self.tables().span(va, pages)? else { return Ok(()) };
        let wanted = if tagged { MemoryType::NORMAL_TAGGED } else { MemoryType::NORMAL };
        let set = Attributes::empty().of_type(wanted).bits();
        let refuse_write_execute = !self.tables().allows_write_execute();
        let clear = Attributes::MEMORY_TYPE.bits();
        protect(self, (LeafChange { clear, set, refuse_write_execute, ..LeafChange::NONE }, false, span))
    }

    /// Changes single pages, in any order.
    ///
    /// # Errors
    ///
    /// As for [`change`](Self::change), for any of the pages.
    pub(crate) fn change_pages(
        self,
        pages: impl Iterator<Item = Va> + Clone,
        change: Change,
        flags: ChangeFlags,
    ) -> Result<(), ChangeError> {
        let tables = self.tables();
        tables.may_change(change, pages.clone().next().unwrap_or(Va(tables.base())))?;
        let wanted = (tables.leaf_change_with(change, flags), flags.contains(ChangeFlags::LATER));
        change_ranges(self, Ranges::of(tables.geometry().page_size(), pages), wanted)
    }

    /// Maps pages to consecutive physical memory, in these leaves.
    ///
    /// # Errors
    ///
    /// A mapping in the range; an address that is unaligned or out of range; memory that would be both writable and executable, or
    /// updated by walkers; out of frames.
    pub(crate) fn map(
        self,
        (va, pages): Pages,
        (oa, attributes): (Pa, Attributes),
        leaves: Leaves,
    ) -> Result<(), ChangeError> {
        let (tables, g) = (self.tables(), self.tables().geometry());
        let Some(span) = tables.owned_span(va, pages)? else { return Ok(()) };
        if oa.0 & (g.page_size() - 1) != 0 {
            return Err(ChangeError::Unaligned(Unaligned::Pa(oa)));
        }
        if oa.0.checked_add(span.last - span.first).is_none_or(|last| last >> g.oa_bits() != 0) {
            return Err(ChangeError::OutputAddress { oa, pages, bits: g.oa_bits() });
        }
        if attributes.is_write_execute() && !tables.allows_write_execute() {
            return Err(ChangeError::WriteExecute { va });
        }
        if attributes.is_hardware_updated() && tables.expects_hardware_updates() {
            return Err(ChangeError::HardwareUpdated { va });
        }
        let mapping = Mapping { half: tables.half(), span, oa, attributes, leaves };
        if in_one_hold(self, &mapping)? { Ok(()) } else { mapping.map(self) }
    }

    /// Removes mappings.
    ///
    /// # Errors
    ///
    /// As for [`change`](Self::change).
    pub(crate) fn unmap(self, (va, pages): Pages) -> Result<(), ChangeError> {
        let Some(span) = self.tables().owned_span(va, pages)? else { return Ok(()) };
        unmap(self, span)
    }

    /// Removes the mappings of several ranges.
    ///
    /// # Errors
    ///
    /// As for [`unmap`](Self::unmap), for any of them; a leaf that is only partly in one.
    pub(crate) fn unmap_all(self, ranges: &[Pages]) -> Result<(), ChangeError> {
        unmap_all(self, ranges)
    }

    /// Splits everything into single pages.
    ///
    /// # Errors
    ///
    /// As for [`split_to_pages`].
    #[inline(never)]
    pub(crate) fn split_to_pages(self, (va, pages): Pages) -> Result<(), ChangeError> {
        let Some(span) = self.tables().owned_span(va, pages)? else { return Ok(()) };
        split_to_pages(self, span)
    }

    /// Returns to the largest leaves.
    ///
    /// # Errors
    ///
    /// As for [`collapse`].
    #[inline(never)]
    pub(crate) fn collapse(self, (va, pages): Pages) -> Result<(), ChangeError> {
        let Some(span) = self.tables().owned_span(va, pages)? else { return Ok(()) };
        collapse(self, span)
    }

    /// Splits everything into single pages that stay single.
    ///
    /// # Errors
    ///
    /// As for [`split_to_pages`].
    pub(crate) fn pin(self, (va, pages): Pages) -> Result<(), ChangeError> {
        let Some(span) = self.tables().owned_span(va, pages)? else { return Ok(()) };
        // What cannot be split is refused before anything is marked. After that only a collapse may have come between.
        split_to_pages(self, span)?;
        self.stay_split(span, (0, Attributes::STAYS_SPLIT.bits()))?;
        split_to_pages(self, span)
    }

    /// Lets pages be merged again.
    ///
    /// # Errors
    ///
    /// As for [`protect`].
    pub(crate) fn unpin(self, (va, pages): Pages) -> Result<(), ChangeError> {
        let Some(span) = self.tables().owned_span(va, pages)? else { return Ok(()) };
        self.stay_split(span, (Attributes::STAYS_SPLIT.bits(), 0))
    }

    /// Clears and sets a bit that hardware ignores.
    fn stay_split(self, span: Span, bits: (u64, u64)) -> Result<(), ChangeError> {
        let change = LeafChange { skip_holes: true, ..LeafChange::of_bits(bits) };
        protect(self, (change, false, span))
    }
}
