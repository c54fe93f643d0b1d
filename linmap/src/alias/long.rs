//! A change of an area and of its aliases with more entries than a hold may have: under a claim, hold by hold.
//!
//! Both sides are claimed together: the area, and the hull of its aliases, which is everything from the first to the
//! last. What the hull is, and how many table pages it takes, only a survey tells. So the first survey is without a claim,
//! and counts for nothing but these two. Then pages are taken, both sides are claimed, and surveyed again. If the
//! area has changed meanwhile, so that more has to be claimed or taken, the claim is dropped, and all of this repeated:
//! nobody waits, or takes a page, while he has a claim.
//!
//! A survey under the claim is final. If it refuses nothing, the leaves that contain ends are split, extent by extent,
//! with translations as they are. After that nothing can fail. Each side is changed piece by piece, and its
//! translations are invalidated before the other side begins.

use crate::alias::alias_survey::AliasSurvey;
use crate::alias::budget::Budget;
use crate::alias::cuts::Cuts;
use crate::alias::extents::Extents;
use crate::alias::sides::{Side, Sides};
use crate::alias::tables_needed::TablesNeeded;
use crate::format::{LeafChange, Span};
use crate::live::{Call, ChangeError, GIGABYTE, InPlace, LockSet, Locked, Stop, Survey, TlbBatch};
use crate::platform::Platform;

/// The number of extents that are noted in one hold.
const NOTED: usize = 8;

/// Changes both sides in this order, or does nothing.
///
/// # Errors
///
/// The change is refused; out of frames; CPUs that do not park, after some leaves may have been split; a claim in the way.
#[cold]
pub(crate) fn long<P: Platform>(
    call: &mut Call<'_, P>,
    sides: &Sides,
    order: [Side; 2],
) -> Result<(), ChangeError> {
    let mut long = Long { call, sides };
    let found = long.claim()?;
    long.cut(&found)?;
    for side in order {
        match side {
            Side::Area => long.change_area(&found)?,
            Side::Aliases => long.change_aliases(&found)?,
        }
    }
    Ok(())
}

/// The work for each alias that is mapped.
type EachMapped<'e, P> = &'e mut dyn FnMut(&mut Call<'_, P>, Span) -> Result<(), ChangeError>;

/// A change under way.
pub(crate) struct Long<'l, 'c, P: Platform> {
    pub(crate) call: &'l mut Call<'c, P>,
    pub(crate) sides: &'l Sides,
}

/// The findings of a survey of both sides.
#[derive(Default)]
pub(crate) struct Findings {
    /// Everything from the first alias to the last.
    pub(crate) hull: Option<Span>,
    /// The end of the alias before.
    last: Option<u64>,
    /// True if an alias begins before the end of the previous one, so that they may share pages.
    overlap: bool,
    /// The table pages that it takes to split leaves.
    area_tables: TablesNeeded,
    alias_tables: TablesNeeded,
    area: Survey,
    aliases: Survey,
    pub(crate) refused: Option<ChangeError>,
}

impl Findings {
    /// Returns the first leaf in use that has to change its size.
    fn in_use(&self) -> Option<u64> {
        self.aliases.resizes.or(self.area.resizes)
    }
}

impl<P: Platform> Long<'_, '_, P> {
    /// Claims both sides and takes table pages. Returns the survey under the claim.
    pub(crate) fn claim(&mut self) -> Result<Findings, ChangeError> {
        let mut found = self.survey();
        let mut hull = None;
        loop {
            hull = join(hull, found.hull);
            let frames = self.frames(&found);
            self.call.unclaim();
            self.call.frames(frames)?;
            let spans = [self.sides.span, hull.unwrap_or(self.sides.span)];
            self.call.claim_all(&spans[..1 + usize::from(hull.is_some())])?;
            found = self.survey();
            if join(hull, found.hull) == hull && self.frames(&found) <= self.call.reserve.count() {
                return found.refused.map_or(Ok(found), Err);
            }
        }
    }

    /// Returns the number of table pages that it takes.
    fn frames(&self, found: &Findings) -> u64 {
        if found.refused.is_some() {
            return 0;
        }
        let g = self.call.state.geometry();
        let of_aliases = found.hull.map_or(0, |hull| found.alias_tables.within(g, hull));
        of_aliases + found.area_tables.within(g, self.sides.span)
    }

    /// Finds aliases and checks every failure except allocation and parking. Stores nothing, and waits for nobody.
    pub(crate) fn survey(&mut self) -> Findings {
        let mut found = Findings::default();
        found.refused = self.survey_to(&mut found).err();
        found
    }

    fn survey_to(&mut self, found: &mut Findings) -> Result<(), ChangeError> {
        let span = self.sides.span;
        found.area = self.extents(self.sides.area, &mut |long, extent| long.survey_alias(extent, found))?;
        if found.area.splits {
            self.cut_at(span, &mut found.area_tables)?;
        }
        let locked = self.call.locked(LockSet::of::<P>(span));
        locked.may_resize(locked.policy, found.in_use())
    }

    /// Surveys the alias of an extent, if it has one.
    fn survey_alias(&mut self, extent: Span, found: &mut Findings) -> Result<(), ChangeError> {
        let Some(reach) = self.sides.reach(extent) else { return Ok(()) };
        let mut survey = AliasSurvey::new(self.sides.aliases, &reach);
        let alias = reach.alias;
        let mut surveyed = Ok(());
        while let (Ok(()), Some(first)) = (surveyed, survey.next()) {
            surveyed = self.look(Span { first, last: alias.last }, |locked, part, budget| {
                survey.go_on(locked, part, budget)
            });
        }
        if !survey.is_mapped() {
            return Ok(());
        }
        found.hull = join(found.hull, Some(alias));
        surveyed?;
        found.overlap |= found.last.replace(alias.last).is_some_and(|last| alias.first <= last);
        found.aliases.include(&survey.found);
        if survey.found.splits { self.cut_at(alias, &mut found.alias_tables) } else { Ok(()) }
    }

    /// Adds the tables for the ends of a span.
    ///
    /// # Errors
    ///
    /// A leaf or run there is not all of this map.
    fn cut_at(&mut self, span: Span, needed: &mut TablesNeeded) -> Result<(), ChangeError> {
        // After the highest address comes 0.
        for (va, cut) in [(span.first, span.first), (span.last, span.last.wrapping_add(1))] {
            self.look(Span { first: va, last: va }, |locked, _, _| {
                let (table, index) = locked.entry_of(va);
                let members = locked.run(&table, locked.load(&table, index)).unwrap_or(1);
                // Before any leaf is cut.
                locked.state.owns(table.run_of(index, members))?;
                needed.cut(locked.geometry, table.level, cut);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Looks at entries in one hold: from the start of a span on, within a gigabyte.
    fn look(
        &mut self,
        span: Span,
        mut work: impl FnMut(&Locked<'_, P>, Span, &Budget) -> Result<(), Stop>,
    ) -> Result<(), ChangeError> {
        let part = Span { last: span.last.min(span.first | ((1 << GIGABYTE) - 1)), ..span };
        let budget = Budget::new(P::HOLD.max(1));
        self.call.looks(part, |locked| {
            // Also where nothing will change: an alias that is read-only must not be writable in a TLB.
            locked.settle(part);
            match work(locked, part, &budget) {
                Err(Stop::TooLong) => Ok(()),
                other => other,
            }
        })
    }

    /// Calls `each` for every extent of the area, without a lock. Returns the survey of the area for a change.
    fn extents(
        &mut self,
        change: LeafChange,
        each: &mut dyn FnMut(&mut Self, Span) -> Result<(), ChangeError>,
    ) -> Result<Survey, ChangeError> {
        let span = self.sides.span;
        let mut walk = Extents::new(change, span);
        while let Some(first) = walk.next() {
            let (mut noted, mut used) = ([None; NOTED], 0);
            let looked = self.look(Span { first, ..span }, |locked, part, budget| {
                walk.go_on(locked, part, budget, &mut |extent| {
                    noted[used] = Some(extent);
                    used += 1;
                    if used == NOTED {
                        budget.end();
                    }
                    Ok(())
                })
            });
            noted.into_iter().flatten().try_for_each(|extent| each(self, extent))?;
            looked?;
        }
        walk.last().map_or(Ok(()), |extent| each(self, extent))?;
        Ok(walk.found)
    }

    /// Calls `each` for every alias, and for linear addresses of the hull at which nothing is mapped.
    fn aliases(
        &mut self,
        found: &Findings,
        each: &mut dyn FnMut(&mut Self, Span) -> Result<(), ChangeError>,
    ) -> Result<(), ChangeError> {
        let sides = self.sides;
        let mut of = |long: &mut Self, extent| match sides.reach(extent) {
            Some(reach) if join(found.hull, Some(reach.alias)) == found.hull => each(long, reach.alias),
            _ => Ok(()),
        };
        self.extents(LeafChange::NONE, &mut of).map(|_| ())
    }

    /// Calls `each` for every alias of which the linear map has all.
    pub(crate) fn mapped_aliases(
        &mut self,
        found: &Findings,
        each: EachMapped<'_, P>,
    ) -> Result<(), ChangeError> {
        self.aliases(found, &mut |long, alias| {
            let mut mapped = false;
            let first = Span { last: alias.first, ..alias };
            long.look(first, |locked, part, _| {
                mapped = is_mapped(locked, part.first);
                Ok(())
            })?;
            if mapped { each(long.call, alias) } else { Ok(()) }
        })
    }

    /// Splits leaves at the ends of the extents, with translations as they are.
    ///
    /// # Errors
    ///
    /// CPUs do not park, or the policy is another one now.
    pub(crate) fn cut(&mut self, found: &Findings) -> Result<(), ChangeError> {
        let (sides, in_use) = (self.sides, found.in_use());
        if found.aliases.splits {
            self.aliases(found, &mut |long, alias| long.cut_ends((sides.aliases, alias), in_use))?;
        }
        if found.area.splits {
            self.cut_ends((sides.area, sides.span), in_use)?;
        }
        Ok(())
    }

    /// Splits the leaves at the ends of one span, in a hold.
    fn cut_ends(
        &mut self,
        (change, span): (LeafChange, Span),
        in_use: Option<u64>,
    ) -> Result<(), ChangeError> {
        let end = |va| LockSet::of::<P>(Span { first: va, last: va });
        let changes = [self.sides.area, self.sides.aliases];
        let cut = self.call.attempts_with(end(span.first).and(end(span.last)), span, |locked| {
            if !is_mapped(locked, span.first) {
                return Ok(());
            }
            locked.may_resize(locked.policy, in_use)?;
            let mut cuts = Cuts::new(locked, changes);
            cuts.add(change, span).inspect_err(|_| cuts.undo())?;
            cuts.carry_out((locked.policy, in_use.is_some()))?;
            // The next holder may change something below these tables.
            locked.publish_barrier();
            Ok(())
        });
        cut.map(|_| ())
    }

    /// Changes the aliases, in one batch.
    fn change_aliases(&mut self, found: &Findings) -> Result<(), ChangeError> {
        let Some(hull) = found.hull.filter(|_| found.aliases.changes()) else { return Ok(()) };
        let mut batch = TlbBatch::new();
        let alike = found.aliases.is_alike() && !found.overlap;
        let change = (self.sides.aliases, alike);
        self.aliases(found, &mut |long, alias| long.change(change, alias, &mut batch))?;
        self.call.last_hold(hull, |locked| batch.finish(locked))
    }

    /// Changes the area, in one batch.
    fn change_area(&mut self, found: &Findings) -> Result<(), ChangeError> {
        let span = self.sides.span;
        if !found.area.changes() {
            return Ok(());
        }
        let mut batch = TlbBatch::new();
        // An area in the linear map may have changed with the aliases.
        let apart = found.hull.is_none_or(|hull| hull.last < span.first || span.last < hull.first);
        let alike = found.area.is_alike() && apart;
        self.change((self.sides.area, alike), span, &mut batch)?;
        self.call.last_hold(span, |locked| batch.finish(locked))
    }

    /// Changes all of a span in place, or nothing of it if nothing is mapped there.
    fn change(
        &mut self,
        (change, alike): (LeafChange, bool),
        span: Span,
        batch: &mut TlbBatch,
    ) -> Result<(), ChangeError> {
        self.call.pieces(span, |locked, piece| {
            if is_mapped(locked, piece.first) {
                let table = locked.deepest(locked.root(), piece);
                InPlace::new(change, alike, batch).run(locked, &table, piece);
                locked.publish_barrier();
            }
            Ok(())
        })
    }
}

fn is_mapped<P: Platform>(locked: &Locked<'_, P>, va: u64) -> bool {
    let (table, index) = locked.entry_of(va);
    locked.load(&table, index).is_leaf(locked.geometry, table.level)
}

/// Returns the smallest span that has both.
fn join(one: Option<Span>, other: Option<Span>) -> Option<Span> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    Some(Span { first: a.first.min(b.first), last: a.last.max(b.last) })
}
