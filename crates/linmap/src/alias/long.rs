//! A change of an area and of its aliases with more entries than a hold may have: under a claim, hold by hold.
//!
//! First everything that can fail, without a claim: a survey of both sides, and the cuts of the leaves that contain ends of
//! extents, with translations as they are. Nobody merges them again before the change ends. Then the area is claimed together
//! with its aliases, and surveyed again: others may have changed it meanwhile, and a claim has no addresses but these. If
//! there is something to cut, or there are other aliases, the claim is dropped, and it is tried again with what this survey has found:
//! nobody waits, or takes a page, while he has a claim.
//!
//! After that nothing can fail. Each side is changed piece by piece, and its translations are invalidated before the other
//! side begins. An area of more aliases than can be claimed together is changed part by part, one side after the other.

use core::iter::once;
use core::slice::from_ref;

use crate::alias::extents::{Budget, Extents};
use crate::alias::sides::{Reach, Side, Sides};
use crate::edit::{Call, ChangeError, Guard, InPlaceChange, Stop, Survey, TOGETHER, cut, store, surveyed};
use crate::format::Span;
use crate::plan::Policy;

/// The most aliases that are claimed together with their area.
const MOST: usize = TOGETHER - 1;

/// A part of an area that has no more aliases than can be claimed with it.
pub(crate) struct Part {
    pub(crate) area: Span,
    /// The aliases that are mapped, in the order of the area.
    aliases: [Span; MOST],
    count: usize,
    /// True if an alias begins before the end of the previous one, so that they may share pages.
    overlap: bool,
    area_survey: Survey,
    alias_survey: Survey,
}

impl Part {
    pub(crate) fn aliases(&self) -> &[Span] {
        &self.aliases[..self.count]
    }

    fn add(&mut self, alias: Span, survey: &Survey) {
        self.overlap |= self.aliases().last().is_some_and(|before| alias.first <= before.last);
        self.aliases[self.count] = alias;
        self.count += 1;
        self.alias_survey.include(survey);
    }
}

/// Changes both sides in this order, or does nothing.
///
/// # Errors
///
/// The change is refused; out of frames; CPUs that do not park, after some leaves may have been split; a claim in the way. If
/// another caller changes an area of many aliases meanwhile, a part of it may have changed.
#[cold]
pub(crate) fn long<G: Guard>(
    call: &mut Call<'_, G>,
    sides: &Sides,
    order: [Side; 2],
) -> Result<(), ChangeError> {
    let _kept = call.guard.keeps_cuts();
    let seen = survey(call, sides)?;
    let whole = claim(call, sides, seen)?;
    if whole.area == sides.span {
        return order.into_iter().try_for_each(|side| change_side(call, sides, side, &whole));
    }
    call.unclaim();
    for side in order {
        each_part(call, sides, |call, part| {
            let mut area = part.area;
            loop {
                let sides = Sides { span: area, ..*sides };
                let seen = survey(call, &sides)?;
                let claimed = claim(call, &sides, seen)?;
                if claimed.area == area {
                    change_side(call, &sides, side, &claimed)?;
                    call.unclaim();
                    return Ok(area);
                }
                // Another caller has changed it: it has more aliases now.
                call.unclaim();
                area = claimed.area;
            }
        })?;
    }
    Ok(())
}

/// Calls `each` for an area part by part. It returns what it is done with, which may be less. Returns the first part.
///
/// # Errors
///
/// The area is not mapped, or must not change; the linear map has only a part of its memory; the first error of `each`.
fn each_part<G: Guard>(
    call: &mut Call<'_, G>,
    sides: &Sides,
    mut each: impl FnMut(&mut Call<'_, G>, &Part) -> Result<Span, ChangeError>,
) -> Result<Part, ChangeError> {
    let first = first_part(call, sides)?;
    let mut done = each(call, &first)?;
    while done.last < sides.span.last {
        let span = Span { first: done.last + 1, ..sides.span };
        let part = first_part(call, &Sides { span, ..*sides })?;
        done = each(call, &part)?;
    }
    Ok(first)
}

/// Calls `each` for the aliases that are mapped, part by part. Those of the first part are known. If it is all of the area, none has to
/// be found.
///
/// # Errors
///
/// As for [`each_part`].
pub(crate) fn each_aliases<G: Guard>(
    call: &mut Call<'_, G>,
    sides: &Sides,
    first: &Part,
    mut each: impl FnMut(&mut Call<'_, G>, &[Span]) -> Result<(), ChangeError>,
) -> Result<(), ChangeError> {
    if first.area == sides.span {
        return each(call, first.aliases());
    }
    each_part(call, sides, |call, part| {
        each(call, part.aliases())?;
        Ok(part.area)
    })
    .map(|_| ())
}

/// Cuts leaves, and claims an area with its aliases; the area alone, if it has more aliases than can be claimed with it. `before` is a survey
/// of both sides without a claim. Returns the first part as it is under the claim.
///
/// # Errors
///
/// As for [`long`].
pub(crate) fn claim<G: Guard>(
    call: &mut Call<'_, G>,
    sides: &Sides,
    mut before: Surveyed,
) -> Result<Part, ChangeError> {
    loop {
        let Surveyed { policy, part, area, aliases } = &before;
        if before.splits() {
            let in_use = aliases.resizes.or(area.resizes);
            call.editor(G::for_stores(sides.span)).may_resize(*policy, in_use)?;
        }
        if aliases.splits() {
            each_aliases(call, sides, part, |call, aliases| {
                aliases.iter().try_for_each(|alias| cut(call, (sides.aliases, &[sides.area]), *alias))
            })?;
        }
        if area.splits() {
            cut(call, (sides.area, &[sides.aliases]), sides.span)?;
        }
        let with = if part.area == sides.span { part.aliases() } else { &[] };
        call.claim_all(once(sides.span).chain(with.iter().copied()))?;
        let found = survey(call, sides)?;
        let same = (found.part.area, found.part.aliases()) == (part.area, part.aliases());
        if same && !found.splits() {
            return Ok(found.part);
        }
        call.unclaim();
        before = found;
    }
}

/// The surveys of both sides.
pub(crate) struct Surveyed {
    /// The policy before them: a repaint may switch to pages meanwhile.
    policy: Policy,
    pub(crate) part: Part,
    area: Survey,
    /// That of all aliases.
    aliases: Survey,
}

impl Surveyed {
    const fn splits(&self) -> bool {
        self.area.splits() || self.aliases.splits()
    }
}

/// Surveys both sides, and finds the first part.
///
/// # Errors
///
/// As for [`each_part`].
pub(crate) fn survey<G: Guard>(call: &mut Call<'_, G>, sides: &Sides) -> Result<Surveyed, ChangeError> {
    let (policy, [mut area, mut aliases]) = (call.tables().policy(), [Survey::default(); 2]);
    let part = each_part(call, sides, |_, part| {
        area.include(&part.area_survey);
        aliases.include(&part.alias_survey);
        Ok(part.area)
    })?;
    Ok(Surveyed { policy, part, area, aliases })
}

/// Finds and surveys as much of an area as can be claimed with its aliases, from its start on.
///
/// # Errors
///
/// As for [`each_part`].
fn first_part<G: Guard>(call: &mut Call<'_, G>, sides: &Sides) -> Result<Part, ChangeError> {
    let mut reaches = Reaches { sides, found: [const { None }; MOST], used: 0, last: None };
    let mut extents = Extents::new(sides.area, sides.span);
    let walked = call.pieces(sides.span, |editor, piece| {
        let at = (&editor.table_of(piece), piece);
        extents.go_on(editor, at, &Budget::new(usize::MAX), &mut |extent| reaches.add(extent))
    });
    if let (Ok(()), Some(last)) = (walked, extents.take_last()) {
        _ = reaches.add(last);
    }
    let area = Span { last: reaches.last.unwrap_or(sides.span.last), ..sides.span };
    let (aliases, alias_survey) = ([Span { first: 0, last: 0 }; MOST], Survey::default());
    let mut part = Part { area, aliases, count: 0, overlap: false, area_survey: extents.found, alias_survey };
    for reach in reaches.found.into_iter().flatten() {
        let survey = surveyed(call, sides.aliases, &[reach.alias])?;
        if reach.is_mapped(&survey)? {
            part.add(reach.alias, &survey);
        }
    }
    // What is wrong with these aliases comes before what is wrong behind their memory.
    walked.map(|()| part)
}

/// The linear addresses of an area's memory, as far as there is room.
struct Reaches<'s> {
    sides: &'s Sides,
    found: [Option<Reach>; MOST],
    used: usize,
    /// The last address of the area whose memory they are of.
    last: Option<u64>,
}

impl Reaches<'_> {
    /// Adds those of the extent that follows. None follows one for which there is no room.
    fn add(&mut self, extent: Span) -> Result<(), Stop> {
        if let Some(reach) = self.sides.reach(extent) {
            *self.found.get_mut(self.used).ok_or(Stop::TooLong)? = Some(reach);
            self.used += 1;
        }
        let first = self.last.map_or(self.sides.span.first, |last| last + 1);
        self.last = Some(first + (extent.last - extent.first));
        Ok(())
    }
}

/// Changes one side of a part, which the call has claimed, in one batch.
fn change_side<G: Guard>(
    call: &mut Call<'_, G>,
    sides: &Sides,
    side: Side,
    part: &Part,
) -> Result<(), ChangeError> {
    let (survey, change, spans) = match side {
        Side::Area => (&part.area_survey, sides.area, from_ref(&part.area)),
        Side::Aliases => (&part.alias_survey, sides.aliases, part.aliases()),
    };
    // Pages of an area in the linear map may have changed with the other side.
    let area = part.area;
    let apart = |alias: &Span| *alias == area || alias.last < area.first || area.last < alias.first;
    let alike = survey.is_alike() && !part.overlap && part.aliases().iter().all(apart);
    if !survey.changes() {
        return Ok(());
    }
    store(call, &mut InPlaceChange::new(change, false), spans, alike)
}
