//! A change of an area and of its aliases in the linear map, in one hold of the locks of both.
//!
//! Three steps. *Survey*: find the aliases, in the longest possible extents, and check that everything is mapped and
//! may change. Nothing is stored. *Cut*: split the leaves that contain ends of extents (`edit/cuts.rs`). Table allocation or
//! parking can fail here, before anything is stored. *Change* in place, each side in one batch of invalidations. This
//! cannot fail. If only one alias is cut, and changes first, the tables that replace its leaves are built with the change.
//!
//! If there are too many entries for one hold, nothing is stored, and the change takes another way (`long.rs`).

use core::cell::Cell;

use crate::alias::extents::{Budget, Extents};
use crate::alias::sides::{Reach, Side, Sides};
use crate::batch::TlbBatch;
use crate::edit::{Cuts, Editor, Guard, InPlace, Needs, Resize, Stop, Survey, Surveyor, frames_at_ends};
use crate::format::{LeafChange, Level, Span};
use crate::read::Table;

/// A change of both sides in one hold.
pub(crate) struct BothSides<'a, G: Guard> {
    pub(crate) editor: &'a Editor<'a, G>,
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

impl<G: Guard> BothSides<'_, G> {
    /// Finds aliases and checks every failure except allocation and parking. Stores nothing.
    ///
    /// # Errors
    ///
    /// The area or an alias must not change in this way, it takes more locks, or it is too long for one hold.
    pub(crate) fn survey(&self, found: &mut Findings) -> Result<(), Stop> {
        let (editor, &Sides { span, area, .. }) = (self.editor, self.sides);
        let (mut cover, mut any, budget) = (editor.guard.cover(), false, Budget::new(G::HOLD));
        found.area = Extents::visit(editor, &self.way, (area, span), &budget, &mut |extent| {
            // What the first one costs is in every hold.
            if core::mem::replace(&mut any, true) {
                budget.take(Budget::EXTENT)?;
            }
            let Some(reach) = self.sides.reach(extent) else { return Ok(()) };
            let needed = G::for_stores(reach.alias);
            if !editor.guard.cover().has(needed) {
                // All that are missing are taken at once.
                cover = cover.and(needed);
                return Ok(());
            }
            self.survey_alias(&reach, found, &budget)
        })?;
        Ok(editor.has(cover)?)
    }

    /// Does so for one alias, if the linear map has any of it.
    fn survey_alias(&self, reach: &Reach, found: &mut Findings, budget: &Budget) -> Result<(), Stop> {
        let (editor, alias, span) = (self.editor, reach.alias, self.sides.span);
        if editor.guard.is_claimed(alias) {
            return Err(Needs::Patience.into());
        }
        let way = editor.deepest(editor.root(), alias);
        let mut surveyor = Surveyor::new(self.sides.aliases, budget.left());
        surveyor.add(editor, &way, (alias, alias))?;
        budget.keep(surveyor.left());
        let survey = surveyor.found();
        if !reach.is_mapped(survey)? {
            return Ok(());
        }
        // Also where it does not change: an alias that is read-only must not be writable in a TLB.
        editor.guard.settle(editor, alias);
        found.overlap |= found.alias.is_some_and(|(before, _)| alias.first <= before.last);
        found.within |= alias != span && alias.first <= span.last && span.first <= alias.last;
        (found.extents, found.alias) = (found.extents + 1, Some((alias, way)));
        if survey.changes() {
            editor.guard.mark(alias);
        }
        if survey.splits() && self.wishes.get() {
            // Those for the first alias have been taken before, as far as they could be told.
            let had = if found.extents == 1 { editor.reserve.count() } else { 0 };
            found.frames += if had == 0 { frames_at_ends(editor, self.sides.aliases, alias) } else { had };
        }
        // The tables that replace leaves at its ends.
        if survey.splits() && found.extents > 1 {
            budget.take(editor.geometry.entries(Level::PAGE) / 8)?;
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
        let (editor, policy) = (self.editor, self.editor.policy);
        editor.may_resize(policy, found.in_use())?;
        if !found.aliases.splits() && !found.area.splits() {
            return Ok(());
        }
        let had = editor.reserve.count();
        if self.wishes.take() && found.frames > had {
            let wish = found.frames + u64::from(found.area.splits());
            return Err(Needs::MoreFrames { least: had.max(1), wish }.into());
        }
        let both = [self.sides.area, self.sides.aliases];
        let mut cuts = Cuts::new(editor, LeafChange::NONE, &both);
        match self.add_to(&mut cuts, found) {
            Ok(()) => cuts.carry_out((policy, found.in_use().is_some())),
            Err(stop) => {
                cuts.discard_all();
                Err(match stop {
                    // Cuts that share a leaf share tables, so the sum is not known.
                    Stop::Needs(Needs::Frames(_)) => {
                        Needs::MoreFrames { least: had + 1, wish: 2 * had + 2 }.into()
                    }
                    other => other,
                })
            }
        }
    }

    fn add_to(&self, cuts: &mut Cuts<'_, G, { Resize::MOST }>, found: &Findings) -> Result<(), Stop> {
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
        let (editor, all) = (self.editor, Budget::new(usize::MAX));
        let mut of = |extent| {
            let Some(reach) = self.sides.reach(extent) else { return Ok(()) };
            let way = editor.deepest(editor.root(), reach.alias);
            let first = Span { last: reach.alias.first, ..reach.alias };
            let table = editor.deepest(way, first);
            // All of it is mapped, or nothing.
            let is_mapped =
                editor.load(&table, table.index_of(first.first)).is_leaf(editor.geometry, table.level);
            if is_mapped { each(reach.alias, &way) } else { Ok(()) }
        };
        Extents::visit(editor, &self.way, (LeafChange::NONE, self.sides.span), &all, &mut of).map(|_| ())
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
        let (mut batch, change) = (TlbBatch::new(), self.sides.aliases);
        Cuts::at_ends(self.editor, (change, &[], alias), found.aliases.resizes, Some(&mut batch))?;
        if found.aliases.in_place {
            InPlace::new(change, found.aliases.is_alike(), &mut batch).run(self.editor, way, alias);
        }
        batch.finish(self.editor);
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
            InPlace::new(self.sides.area, alike, &mut batch).run(self.editor, &self.way, self.sides.span);
            batch.finish(self.editor);
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
            in_place.run(self.editor, way, alias);
            Ok(())
        });
        batch.finish(self.editor);
    }
}
