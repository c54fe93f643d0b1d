//! A change of an area and of its aliases in the linear map, under the locks of both.
//!
//! Three steps. *Survey*: find the aliases, in the longest possible extents, and check that everything is mapped and
//! may change. Nothing is stored. *Cut*: split the leaves that contain ends of extents (`cuts.rs`). Table allocation or
//! parking can fail here, before anything is stored. *Change* in place, each side in one batch of invalidations. This
//! cannot fail.

use core::convert::Infallible;

use crate::alias::cuts::Cuts;
use crate::alias::extents::Extents;
use crate::format::{Descriptor, LeafChange, Span, Va};
use crate::live::{
    ChangeError, InPlace, LiveVisitor, LockSet, Locked, Needs, Stop, Survey, TlbBatch, tables_for_ends,
};
use crate::plan::Policy;
use crate::platform::Platform;
use crate::read::{Stop as WalkStop, Table, visit_span};

/// A change of both sides.
pub(crate) struct BothSides<'a, P: Platform> {
    /// The linear address less the physical address, wrapping.
    pub(crate) offset: u64,
    /// The first and the last address that the linear map can have.
    pub(crate) range: (Va, Va),
    pub(crate) locked: Locked<'a, P>,
    pub(crate) policy: Policy,
    /// The area.
    pub(crate) span: Span,
    /// The changes of it and of the aliases.
    pub(crate) area: LeafChange,
    pub(crate) aliases: LeafChange,
}

/// One of the two ways to reach the pages.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Area,
    Aliases,
}

/// The linear addresses of physical memory.
struct Reach {
    alias: Span,
    /// The first address beyond the linear map, if a part of the memory is out of its reach.
    beyond: Option<u64>,
}

/// The findings of a survey of both sides.
#[derive(Default)]
pub(crate) struct Findings {
    /// The number of extents that have an alias, and the last alias. Other aliases are looked up again each time.
    extents: usize,
    alias: Option<Span>,
    /// The number of table pages to split leaves, at the most.
    frames: u64,
    /// True if an alias begins before the end of the previous one, so that they may share pages.
    overlap: bool,
    area: Survey,
    aliases: Survey,
}

impl Findings {
    /// Returns the first leaf in use that has to change its size.
    fn in_use(&self) -> Option<u64> {
        self.aliases.resizes.or(self.area.resizes)
    }
}

impl<P: Platform> BothSides<'_, P> {
    /// Finds aliases and checks every failure except allocation and parking. Stores nothing.
    ///
    /// # Errors
    ///
    /// The area or an alias must not change in this way, or it takes more locks.
    pub(crate) fn survey(&self, found: &mut Findings) -> Result<(), Stop> {
        let locked = &self.locked;
        let mut locks = locked.locks;
        found.area = Extents::visit(locked, self.area, self.span, &mut |extent| {
            let Some(reach) = self.reach(extent) else { return Ok(()) };
            let needed = LockSet::of::<P>(reach.alias);
            if !locked.locks.has(needed) {
                // All that are missing are taken at once.
                locks = locks.and(needed);
                return Ok(());
            }
            let Some(alias) = self.mapped(&reach)? else { return Ok(()) };
            if locked.is_claimed(alias) {
                return Err(Needs::Patience.into());
            }
            found.overlap |= found.alias.is_some_and(|before| alias.first <= before.last);
            (found.extents, found.alias) = (found.extents + 1, Some(alias));
            let survey = Extents::visit(locked, self.aliases, alias, &mut |_| Ok(()))?;
            if survey.changes() {
                locked.mark(alias);
            }
            if survey.splits {
                found.frames += self.frames(alias);
            }
            found.aliases.include(&survey);
            Ok(())
        })?;
        if locks != locked.locks { Err(Needs::Locks(locks).into()) } else { Ok(()) }
    }

    /// Returns the number of table pages that it takes to split the leaves at the ends of an alias, if none has another end.
    fn frames(&self, alias: Span) -> u64 {
        let of = |va| {
            let (table, index) = self.locked.entry_of(va);
            let leaf = table.span_of(index);
            (tables_for_ends(self.locked.geometry, table.level, leaf, alias), leaf.last)
        };
        let (first, last) = of(alias.first);
        first + if last < alias.last { of(alias.last).0 } else { 0 }
    }

    /// Returns the linear addresses that physical memory would have, or `None` if all of it is out of the reach of the
    /// linear map.
    fn reach(&self, extent: Span) -> Option<Reach> {
        let (Va(first), Va(last)) = self.range;
        // Relative to the first address of the linear map.
        let at = |pa: u64| pa.wrapping_add(self.offset).wrapping_sub(first);
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

    /// Returns the alias if the linear map has any of it.
    ///
    /// # Errors
    ///
    /// Only a part of it is within the reach of the linear map.
    fn mapped(&self, &Reach { alias, beyond }: &Reach) -> Result<Option<Span>, ChangeError> {
        if !self.is_mapped(alias.first) && !self.maps_any(alias) {
            return Ok(None);
        }
        beyond.map_or(Ok(Some(alias)), |va| Err(ChangeError::Hole { va: Va(va) }))
    }

    /// Returns the alias of an extent that was surveyed.
    fn alias(&self, extent: Span) -> Result<Option<Span>, ChangeError> {
        self.reach(extent).map_or(Ok(None), |reach| self.mapped(&reach))
    }

    fn is_mapped(&self, va: u64) -> bool {
        let (table, index) = self.locked.entry_of(va);
        self.locked.load(&table, index).is_leaf(self.locked.geometry, table.level)
    }

    /// Returns true if anything is mapped in a range.
    #[cold]
    fn maps_any(&self, span: Span) -> bool {
        visit_span(&self.locked, &self.locked.root(), span, &mut AnyLeaf).is_err()
    }

    /// Splits leaves at the ends of the extents: all that need it, or none.
    ///
    /// # Errors
    ///
    /// CPUs that do not park, or it takes more locks or table pages.
    pub(crate) fn cut(&self, found: &Findings) -> Result<(), Stop> {
        self.locked.may_resize(self.policy, found.in_use())?;
        if !found.aliases.splits && !found.area.splits {
            return Ok(());
        }
        let least = self.locked.reserve.count() + 1;
        if least == 1 && found.frames != 0 {
            // And pages for the list of cuts.
            let wish = found.frames + if found.extents > 4 { 2 + found.extents as u64 / 32 } else { 1 };
            return Err(Needs::MoreFrames { least, wish }.into());
        }
        let mut cuts = Cuts::new(&self.locked);
        match self.add_to(&mut cuts, found) {
            Ok(()) => cuts.carry_out((self.policy, found.in_use().is_some())),
            Err(error) => {
                cuts.undo();
                Err(match error {
                    Stop::Needs(Needs::Frames(_)) => {
                        // All are in the reserve again. Cuts that share a leaf share tables, so the sum is not known.
                        let had = self.locked.reserve.count();
                        Needs::MoreFrames { least: had + 1, wish: 2 * had + 2 }.into()
                    }
                    other => other,
                })
            }
        }
    }

    fn add_to(&self, cuts: &mut Cuts<'_, P>, found: &Findings) -> Result<(), Stop> {
        if found.aliases.splits {
            self.each_alias(found, &mut |alias| cuts.add(self.aliases, alias))?;
        }
        if found.area.splits {
            cuts.add(self.area, self.span)?;
        }
        Ok(())
    }

    /// Calls `each` for every alias.
    fn each_alias(
        &self,
        found: &Findings,
        each: &mut dyn FnMut(Span) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if let (1, Some(alias)) = (found.extents, found.alias) {
            return each(alias);
        }
        let mut of = |extent| self.alias(extent)?.map_or(Ok(()), &mut *each);
        Extents::visit(&self.locked, LeafChange::NONE, self.span, &mut of).map(|_| ())
    }

    /// Changes one side.
    pub(crate) fn change(&self, side: Side, found: &Findings) {
        match side {
            Side::Area => self.change_area(found),
            Side::Aliases => self.change_aliases(found),
        }
    }

    /// Changes the area, in one batch.
    fn change_area(&self, found: &Findings) {
        if found.area.changes() {
            let mut batch = TlbBatch::new();
            self.in_place(&mut InPlace::new(self.area, found.area.is_alike(), &mut batch), self.span);
            batch.finish(&self.locked);
        }
    }

    /// Changes the aliases, in one batch.
    fn change_aliases(&self, found: &Findings) {
        if !found.aliases.changes() {
            return;
        }
        let alike = found.aliases.is_alike() && !found.overlap;
        let mut batch = TlbBatch::new();
        let mut in_place = InPlace::new(self.aliases, alike, &mut batch);
        _ = self.each_alias(found, &mut |alias| {
            self.in_place(&mut in_place, alias);
            Ok(())
        });
        batch.finish(&self.locked);
    }

    fn in_place(&self, in_place: &mut InPlace<'_>, span: Span) {
        let table = self.locked.deepest(self.locked.root(), span);
        in_place.run(&self.locked, &table, span);
    }
}

/// Ends the walk at the first leaf.
struct AnyLeaf;

impl<P: Platform> LiveVisitor<P> for AnyLeaf {
    type Stop = WalkStop<Infallible>;

    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, _): (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, Self::Stop> {
        if entry.is_leaf(locked.geometry, table.level) { Err(WalkStop::Enough) } else { Ok(index + 1) }
    }
}
