//! A change of an area and of its aliases in the linear map, in one hold of the locks of both.
//!
//! Three steps. *Survey*: find the aliases, in the longest possible extents, and check that everything is mapped and
//! may change. Nothing is stored. *Cut*: split the leaves that contain ends of extents (`cuts.rs`). Table allocation or
//! parking can fail here, before anything is stored. *Change* in place, each side in one batch of invalidations. This
//! cannot fail. If only one alias is cut, and changes first, the tables that replace its leaves are built with the change.
//!
//! If there are too many entries for one hold, nothing is stored, and the change takes another way (`long.rs`).

use core::cell::Cell;

use crate::alias::budget::Budget;
use crate::alias::cuts::Cuts;
use crate::alias::extents::Extents;
use crate::alias::sides::{Reach, Side, Sides};
use crate::format::{LeafChange, Level, Span};
use crate::live::{Ends, InPlace, LockSet, Locked, Needs, Stop, Survey, Surveyor, TlbBatch};
use crate::platform::Platform;
use crate::read::Table;

/// A change of both sides in one hold.
pub(crate) struct BothSides<'a, P: Platform> {
    pub(crate) locked: &'a Locked<'a, P>,
    pub(crate) sides: &'a Sides,
    /// True until an attempt has said how many table pages it wishes for.
    pub(crate) wishes: &'a Cell<bool>,
    /// The deepest table that translates all of the area.
    pub(crate) way: Table,
}

/// The findings of a survey of both sides.
#[derive(Default)]
pub(crate) struct Findings {
    /// The number of extents that have an alias, and the last alias, with the deepest table that translates all of it. Other aliases
    /// are looked up again each time.
    extents: usize,
    alias: Option<(Span, Table)>,
    /// The number of table pages to split leaves, at the most, for an attempt that may wish for them.
    frames: u64,
    /// True if an alias begins before the end of the previous one, so that they may share pages.
    overlap: bool,
    /// True if an alias is in the area without being all of it: pages of the area change with the aliases.
    within: bool,
    area: Survey,
    aliases: Survey,
}

impl Findings {
    /// Returns the first leaf in use that has to change its size.
    fn in_use(&self) -> Option<u64> {
        self.aliases.resizes.or(self.area.resizes)
    }

    /// Returns true if only leaves of the one alias are cut, which maps no part of the area.
    fn cuts_one_alias(&self) -> bool {
        self.extents == 1 && self.aliases.splits() && !self.area.splits() && !self.within
    }
}

impl<P: Platform> BothSides<'_, P> {
    /// Finds aliases and checks every failure except allocation and parking. Stores nothing.
    ///
    /// # Errors
    ///
    /// The area or an alias must not change in this way, it takes more locks, or it is too long for one hold.
    pub(crate) fn survey(&self, found: &mut Findings) -> Result<(), Stop> {
        let (locked, &Sides { span, area, .. }) = (self.locked, self.sides);
        let (mut locks, mut any, budget) = (locked.locks, false, Budget::new(P::HOLD));
        found.area = Extents::visit(locked, &self.way, (area, span), &budget, &mut |extent| {
            // What the first one costs is in every hold.
            if core::mem::replace(&mut any, true) {
                budget.take(Budget::EXTENT)?;
            }
            let Some(reach) = self.sides.reach(extent) else { return Ok(()) };
            let needed = LockSet::of::<P>(reach.alias);
            if !locked.locks.has(needed) {
                // All that are missing are taken at once.
                locks = locks.and(needed);
                return Ok(());
            }
            self.survey_alias(&reach, found, &budget)
        })?;
        if locks != locked.locks { Err(Needs::Locks(locks).into()) } else { Ok(()) }
    }

    /// Does so for one alias, if the linear map has any of it.
    fn survey_alias(&self, reach: &Reach, found: &mut Findings, budget: &Budget) -> Result<(), Stop> {
        let (locked, alias, span) = (self.locked, reach.alias, self.sides.span);
        if locked.is_claimed(alias) {
            return Err(Needs::Patience.into());
        }
        let way = locked.deepest(locked.root(), alias);
        let mut surveyor = Surveyor::new(self.sides.aliases, budget.left());
        surveyor.add(locked, &way, (alias, alias))?;
        budget.keep(surveyor.left());
        let survey = surveyor.found();
        if !reach.is_mapped(survey)? {
            return Ok(());
        }
        // Also where it does not change: an alias that is read-only must not be writable in a TLB.
        locked.settle(alias);
        found.overlap |= found.alias.is_some_and(|(before, _)| alias.first <= before.last);
        found.within |= alias != span && alias.first <= span.last && span.first <= alias.last;
        (found.extents, found.alias) = (found.extents + 1, Some((alias, way)));
        if survey.changes() {
            locked.mark(alias);
        }
        if survey.splits() && self.wishes.get() {
            // Those for the first alias have been taken before, as far as they could be told.
            let had = if found.extents == 1 { locked.reserve.count() } else { 0 };
            found.frames += if had == 0 { Cuts::frames(locked, self.sides.aliases, alias) } else { had };
        }
        // The tables that replace leaves at its ends.
        if survey.splits() && found.extents > 1 {
            budget.take(locked.geometry.entries(Level::PAGE) / 8)?;
        }
        found.aliases.include(survey);
        Ok(())
    }

    /// Splits leaves at the ends of the extents: all that need it, or none.
    ///
    /// # Errors
    ///
    /// CPUs that do not park, it takes more locks or table pages, or these are too many for one hold.
    fn cut(&self, found: &Findings) -> Result<(), Stop> {
        let (locked, policy) = (self.locked, self.locked.policy);
        locked.may_resize(policy, found.in_use())?;
        if !found.aliases.splits() && !found.area.splits() {
            return Ok(());
        }
        let had = locked.reserve.count();
        if self.wishes.take() && found.frames > had {
            let wish = found.frames + u64::from(found.area.splits());
            return Err(Needs::MoreFrames { least: had.max(1), wish }.into());
        }
        let mut cuts = Cuts::new(locked, [self.sides.area, self.sides.aliases]);
        match self.add_to(&mut cuts, found) {
            Ok(()) => cuts.carry_out((policy, found.in_use().is_some())),
            Err(error) => Err(cuts.undone(error)),
        }
    }

    fn add_to(&self, cuts: &mut Cuts<'_, P>, found: &Findings) -> Result<(), Stop> {
        if found.aliases.splits() {
            self.each_alias(found, &mut |alias, _| cuts.add(self.sides.aliases, alias))?;
        }
        if found.area.splits() {
            cuts.add(self.sides.area, self.sides.span)?;
        }
        Ok(())
    }

    /// Calls `each` for every alias, with a table that translates all of it.
    fn each_alias(
        &self,
        found: &Findings,
        each: &mut dyn FnMut(Span, &Table) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if let (1, Some((alias, way))) = (found.extents, &found.alias) {
            return each(*alias, way);
        }
        // They were counted by the survey.
        let (locked, all) = (self.locked, Budget::new(usize::MAX));
        let mut of = |extent| {
            let Some(reach) = self.sides.reach(extent) else { return Ok(()) };
            let way = locked.deepest(locked.root(), reach.alias);
            let first = Span { last: reach.alias.first, ..reach.alias };
            let table = locked.deepest(way, first);
            // All of it is mapped, or nothing.
            let is_mapped =
                locked.load(&table, table.index_of(first.first)).is_leaf(locked.geometry, table.level);
            if is_mapped { each(reach.alias, &way) } else { Ok(()) }
        };
        Extents::visit(locked, &self.way, (LeafChange::NONE, self.sides.span), &all, &mut of).map(|_| ())
    }

    /// Changes both sides in this order.
    ///
    /// # Errors
    ///
    /// As for [`cut`](Self::cut). Nothing has changed.
    pub(crate) fn change_both(&self, [first, second]: [Side; 2], found: &Findings) -> Result<(), Stop> {
        match (first, found.alias) {
            (Side::Aliases, Some((alias, way))) if found.cuts_one_alias() => {
                self.cut_and_change((alias, &way), found)?;
            }
            _ => {
                self.cut(found)?;
                self.change(first, found);
            }
        }
        self.change(second, found);
        Ok(())
    }

    /// Changes the one alias, with the change in the tables that replace the leaves at its ends.
    ///
    /// # Errors
    ///
    /// As for [`cut`](Self::cut).
    fn cut_and_change(&self, (alias, way): (Span, &Table), found: &Findings) -> Result<(), Stop> {
        let (mut batch, change) = (TlbBatch::new(), &self.sides.aliases);
        Ends::new(self.locked, change, (way, alias)).resize(found.aliases.resizes, &mut batch)?;
        if found.aliases.in_place {
            InPlace::new(*change, found.aliases.is_alike(), &mut batch).run(self.locked, way, alias);
        }
        batch.finish(self.locked);
        Ok(())
    }

    /// Changes one side.
    fn change(&self, side: Side, found: &Findings) {
        match side {
            Side::Area => self.change_area(found),
            Side::Aliases => self.change_aliases(found),
        }
    }

    /// Changes the area, in one batch.
    fn change_area(&self, found: &Findings) {
        if found.area.changes() {
            let mut batch = TlbBatch::new();
            let alike = found.area.is_alike() && !found.within;
            InPlace::new(self.sides.area, alike, &mut batch).run(self.locked, &self.way, self.sides.span);
            batch.finish(self.locked);
        }
    }

    /// Changes the aliases, in one batch.
    fn change_aliases(&self, found: &Findings) {
        if !found.aliases.changes() {
            return;
        }
        let alike = found.aliases.is_alike() && !found.overlap && !found.within;
        let mut batch = TlbBatch::new();
        let mut in_place = InPlace::new(self.sides.aliases, alike, &mut batch);
        _ = self.each_alias(found, &mut |alias, way| {
            in_place.run(self.locked, way, alias);
            Ok(())
        });
        batch.finish(self.locked);
    }
}
