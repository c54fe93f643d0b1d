//! A change of an area and of its aliases with more entries than a hold may have: under a claim, hold by hold.
//!
//! First everything that can fail, without a claim: a survey of both sides, and the cuts of the leaves that contain ends of
//! extents, with translations as they are. Nobody merges them again before the change ends. Then the area is claimed together
//! with its aliases, and surveyed again: others may have changed it meanwhile, and a claim has no addresses but these. If
//! there is something to cut, or there are other aliases, the claim is dropped, and all of this repeated: nobody waits, or takes
//! a page, while he has a claim.
//!
//! After that nothing can fail. Each side is changed piece by piece, and its translations are invalidated before the other
//! side begins. An area of more aliases than can be claimed together is changed part by part, one side after the other.

use core::iter::once;

use crate::alias::alias_survey::AliasSurvey;
use crate::alias::budget::Budget;
use crate::alias::cuts::Cuts;
use crate::alias::extents::Extents;
use crate::alias::sides::{Side, Sides};
use crate::format::{LeafChange, Span};
use crate::live::{Call, ChangeError, GIGABYTE, InPlace, LockSet, Locked, Stop, Survey, TOGETHER, TlbBatch};
use crate::platform::Platform;

/// The number of extents that are noted in one hold.
const NOTED: usize = 8;

/// The most aliases that are claimed together with their area.
const MOST: usize = TOGETHER - 1;

/// Changes both sides in this order, or does nothing.
///
/// # Errors
///
/// The change is refused; out of frames; CPUs that do not park, after some leaves may have been split; a claim in the way. If
/// another caller changes an area of many aliases meanwhile, a part of it may have changed.
#[cold]
pub(crate) fn long<P: Platform>(
    call: &mut Call<'_, P>,
    sides: &Sides,
    order: [Side; 2],
) -> Result<(), ChangeError> {
    let _kept = call.state.attention.keeps_cuts();
    let mut all = Long { call, sides };
    let found = all.claim()?;
    if !found.are_many() {
        return order.into_iter().try_for_each(|side| all.change_side(side, &found));
    }
    all.call.unclaim();
    for side in order {
        let mut first = Some(sides.span.first);
        while let Some(from) = first {
            let span = all.part(Span { first: from, ..sides.span })?;
            let mut part = Long { call: &mut *all.call, sides: &Sides { span, ..*sides } };
            let found = part.claim()?;
            // Otherwise another caller has changed it, and it is another part now.
            if !found.are_many() {
                part.change_side(side, &found)?;
                first = (span.last < sides.span.last).then(|| span.last + 1);
            }
            all.call.unclaim();
        }
    }
    Ok(())
}

/// A change under way.
pub(crate) struct Long<'l, 'c, P: Platform> {
    pub(crate) call: &'l mut Call<'c, P>,
    pub(crate) sides: &'l Sides,
}

/// The findings of a survey of both sides.
#[derive(Default)]
pub(crate) struct Findings {
    /// The aliases that are mapped, in the order of the area, as far as there is room.
    aliases: [Span; MOST],
    /// Their number.
    count: usize,
    /// True if an alias begins before the end of the previous one, so that they may share pages.
    overlap: bool,
    area: Survey,
    alias_survey: Survey,
    pub(crate) refused: Option<ChangeError>,
}

impl Findings {
    /// Returns true if there are more aliases than can be claimed together.
    pub(crate) const fn are_many(&self) -> bool {
        self.count > MOST
    }

    /// Returns the aliases, or none if there are many.
    pub(crate) fn aliases(&self) -> &[Span] {
        self.aliases.get(..self.count).unwrap_or_default()
    }

    fn add(&mut self, alias: Span, survey: &Survey) {
        let before = self.count.checked_sub(1).and_then(|n| self.aliases.get(n));
        self.overlap |= before.is_some_and(|before| alias.first <= before.last);
        if let Some(place) = self.aliases.get_mut(self.count) {
            *place = alias;
        }
        self.count += 1;
        self.alias_survey.include(survey);
    }

    /// Returns the first leaf in use that has to change its size.
    fn in_use(&self) -> Option<u64> {
        self.alias_survey.resizes.or(self.area.resizes)
    }

    /// Returns true if leaves have to be cut.
    const fn splits(&self) -> bool {
        self.area.splits() || self.alias_survey.splits()
    }
}

impl<P: Platform> Long<'_, '_, P> {
    /// Cuts leaves, and claims both sides; the area alone, if it has many aliases. Returns the survey under the claim.
    ///
    /// # Errors
    ///
    /// As for [`long`].
    pub(crate) fn claim(&mut self) -> Result<Findings, ChangeError> {
        loop {
            let before = self.prepare()?;
            self.call.claim_all(once(self.sides.span).chain(before.aliases().iter().copied()))?;
            let found = self.survey();
            if let Some(refused) = found.refused {
                return Err(refused);
            }
            let same = (found.are_many(), found.aliases()) == (before.are_many(), before.aliases());
            if same && !found.splits() {
                return Ok(found);
            }
            self.call.unclaim();
        }
    }

    /// Surveys both sides, and cuts their leaves until none is to be cut, or the change is refused: by what others have under
    /// way, perhaps.
    fn prepare(&mut self) -> Result<Findings, ChangeError> {
        loop {
            let found = self.survey();
            if found.refused.is_some() || !found.splits() {
                return Ok(found);
            }
            self.cut(&found)?;
        }
    }

    /// Finds aliases and checks every failure except allocation and parking. Stores nothing, and waits for nobody.
    pub(crate) fn survey(&mut self) -> Findings {
        let mut found = Findings::default();
        found.refused = self.survey_to(&mut found).err();
        found
    }

    fn survey_to(&mut self, found: &mut Findings) -> Result<(), ChangeError> {
        // A repaint may switch to pages meanwhile, so what is found is judged by the policy before it.
        let policy = self.call.state.policy();
        let mut walk = Walk::new(self.sides.area, self.sides.span);
        while let Some(extent) = walk.next(self)? {
            self.survey_alias(extent, found)?;
        }
        found.area = walk.extents.found;
        let locked = self.call.locked(LockSet::of::<P>(self.sides.span));
        locked.may_resize(policy, found.in_use())
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
        if survey.is_mapped() {
            found.add(alias, &survey.found);
            surveyed?;
        }
        Ok(())
    }

    /// Returns the first part of an area, up to the extent that has one alias too many.
    fn part(&mut self, area: Span) -> Result<Span, ChangeError> {
        let (mut walk, mut count) = (Walk::new(LeafChange::NONE, area), 0);
        let mut next = area.first;
        while let Some(extent) = walk.next(self)? {
            count += usize::from(self.mapped_alias(extent)?.is_some());
            if count > MOST {
                return Ok(Span { last: next - 1, ..area });
            }
            next = next.wrapping_add(extent.last - extent.first + 1);
        }
        Ok(area)
    }

    /// Returns the alias of an extent, if the linear map has it.
    fn mapped_alias(&mut self, extent: Span) -> Result<Option<Span>, ChangeError> {
        let Some(reach) = self.sides.reach(extent) else { return Ok(None) };
        let (alias, mut mapped) = (reach.alias, false);
        self.look(Span { last: alias.first, ..alias }, |locked, part, _| {
            mapped = is_mapped(locked, part.first);
            Ok(())
        })?;
        Ok(mapped.then_some(alias))
    }

    /// Looks at entries in one hold: from the start of a span on, within a gigabyte.
    fn look(
        &mut self,
        span: Span,
        mut work: impl FnMut(&Locked<'_, P>, Span, &Budget) -> Result<(), Stop>,
    ) -> Result<(), ChangeError> {
        let part = Span { last: span.last.min(span.first | ((1 << GIGABYTE) - 1)), ..span };
        let budget = Budget::new(P::HOLD.max(1));
        self.call.looks(LockSet::of::<P>(part), part, |locked| {
            // Also where nothing will change: an alias that is read-only must not be writable in a TLB.
            locked.settle(part);
            match work(locked, part, &budget) {
                Err(Stop::TooLong) => Ok(()),
                other => other,
            }
        })
    }

    /// Calls `each` for every alias that is mapped.
    ///
    /// # Errors
    ///
    /// The first error of `each`.
    pub(crate) fn mapped_aliases(
        &mut self,
        mut each: impl FnMut(&mut Self, Span) -> Result<(), ChangeError>,
    ) -> Result<(), ChangeError> {
        let mut walk = Walk::new(LeafChange::NONE, self.sides.span);
        while let Some(extent) = walk.next(self)? {
            if let Some(alias) = self.mapped_alias(extent)? {
                each(self, alias)?;
            }
        }
        Ok(())
    }

    /// Splits leaves at the ends of the extents, with translations as they are.
    ///
    /// # Errors
    ///
    /// CPUs do not park, or the policy is another one now.
    fn cut(&mut self, found: &Findings) -> Result<(), ChangeError> {
        let (sides, in_use) = (self.sides, found.in_use());
        if found.alias_survey.splits() {
            self.mapped_aliases(|long, alias| long.cut_ends((sides.aliases, alias), in_use))?;
        }
        if found.area.splits() {
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
        let changes = [self.sides.area, self.sides.aliases];
        self.call.attempts_at_ends(span, |locked| {
            if !is_mapped(locked, span.first) {
                return Ok(());
            }
            // Before any table is built: to give it back would make this hold long.
            locked.has_frames(Cuts::frames(locked, change, span))?;
            let mut cuts = Cuts::new(locked, changes);
            cuts.add(change, span).map_err(|error| cuts.undone(error))?;
            if cuts.are_none() {
                return Ok(());
            }
            locked.may_resize(locked.policy, in_use).map_err(|error| cuts.undone(error.into()))?;
            cuts.carry_out((locked.policy, in_use.is_some()))?;
            // The next holder may change something below these tables.
            locked.publish_barrier();
            Ok(())
        })
    }

    /// Changes one side, in one batch.
    fn change_side(&mut self, side: Side, found: &Findings) -> Result<(), ChangeError> {
        let (own, area) = ([self.sides.span], self.sides.span);
        let (survey, change, spans) = match side {
            Side::Area => (&found.area, self.sides.area, &own[..]),
            Side::Aliases => (&found.alias_survey, self.sides.aliases, found.aliases()),
        };
        let (Some(&first), true) = (spans.first(), survey.changes()) else { return Ok(()) };
        let alike = survey.is_alike()
            && match side {
                // An area in the linear map may have changed with the aliases.
                Side::Area => found.aliases().iter().all(|a| a.last < area.first || area.last < a.first),
                Side::Aliases => !found.overlap,
            };
        let mut batch = TlbBatch::new();
        for &span in spans {
            self.call.pieces(span, |locked, piece| {
                let table = locked.deepest(locked.root(), piece);
                InPlace::new(change, alike, &mut batch).run(locked, &table, piece);
                locked.publish_barrier();
                Ok(())
            })?;
        }
        self.call.last_hold(first, |locked| batch.finish(locked))
    }
}

/// The extents of an area, one by one, without a lock between them.
struct Walk {
    extents: Extents,
    span: Span,
    /// Those that have been found, and are not returned yet.
    noted: [Option<Span>; NOTED],
    /// The end of the walk after them.
    end: Result<(), ChangeError>,
}

impl Walk {
    fn new(change: LeafChange, span: Span) -> Self {
        Self { extents: Extents::new(change, span), span, noted: [None; NOTED], end: Ok(()) }
    }

    /// Returns the next extent.
    ///
    /// # Errors
    ///
    /// The area is not mapped there, or must not change.
    fn next<P: Platform>(&mut self, long: &mut Long<'_, '_, P>) -> Result<Option<Span>, ChangeError> {
        loop {
            if let Some(extent) = self.noted.iter_mut().find_map(Option::take) {
                return Ok(Some(extent));
            }
            self.end?;
            let Self { extents, span, noted, end } = self;
            let Some(first) = extents.next() else { return Ok(extents.take_last()) };
            let mut used = 0;
            *end = long.look(Span { first, ..*span }, |locked, part, budget| {
                extents.go_on(locked, part, budget, &mut |extent| {
                    noted[used] = Some(extent);
                    used += 1;
                    if used == NOTED {
                        budget.end();
                    }
                    Ok(())
                })
            });
        }
    }
}

fn is_mapped<P: Platform>(locked: &Locked<'_, P>, va: u64) -> bool {
    let (table, index) = locked.entry_of(va);
    locked.load(&table, index).is_leaf(locked.geometry, table.level)
}
