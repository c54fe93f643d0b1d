//! The operations of an address space as values, and what each must do, by rules over ranges.

use linmap::error::{ChangeError, RemakeError, RepaintError, Unaligned};
use linmap::{
    Attributes, Change, ChangeFlags, Form, Geometry, Half, Hotplug, Layout, Live, MemoryType, Pa, Platform,
    Policy, Promise, SharedSpace, Space, Va,
};

use crate::aliased::{self, Set};
use crate::flat::{self, Flat, Mapped, Seen, Walked};
use crate::remade::{self, Remade};

/// Why an operation of any kind did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Change(ChangeError),
    /// A repaint of a part of an entry of the root.
    PartOfEntry {
        va: Va,
    },
    /// A second repaint at once.
    UnderWay,
    /// The step of a remake failed.
    Step {
        va: Va,
        pages: u64,
    },
}

impl From<RemakeError<()>> for Refused {
    fn from(error: RemakeError<()>) -> Self {
        match error {
            RemakeError::Refused(error) => Self::Change(error),
            RemakeError::Step { va, pages, error: () } => Self::Step { va, pages },
            other => panic!("{other:?}"),
        }
    }
}

impl From<ChangeError> for Refused {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

impl From<RepaintError> for Refused {
    fn from(error: RepaintError) -> Self {
        Self::Change(match error {
            RepaintError::OutOfFrames { taken } => ChangeError::OutOfFrames { taken },
            RepaintError::OutsideHalf { va, pages } => ChangeError::OutsideHalf { va, pages },
            RepaintError::CannotPark => ChangeError::CannotPark,
            RepaintError::NotUnderstood { va } => ChangeError::NotUnderstood { va },
            RepaintError::PartOfEntry { va } => return Self::PartOfEntry { va },
            RepaintError::UnderWay => return Self::UnderWay,
            other => panic!("{other}"),
        })
    }
}

/// An operation on `pages` pages from `va` on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Operation {
    pub(crate) what: What,
    pub(crate) va: u64,
    pub(crate) pages: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum What {
    Protect(Change),
    SetValid(bool),
    /// Of one page, for later.
    SetPageValid(bool),
    /// Of permissions and validity, in a manner.
    Change(Change, ChangeFlags),
    /// The same for a list of pages.
    ChangePages(Change, ChangeFlags, List),
    /// Of what was left for later.
    Flush,
    Map(u64, Attributes),
    Unmap,
    /// Of RAM that is mapped at this offset from its physical address.
    HotRemove(u64),
    SplitToPages,
    Collapse,
    /// Of whole entries of the root; leaves from the first of these addresses to the second keep their size.
    Repaint(Option<(u64, u64)>),
    /// With the aliases in the linear map, which has physical memory at this offset.
    Aliased(Set, u64),
    /// By break-before-make, perhaps with aliases.
    Remake(Remade),
    /// To tags or from tags.
    SetTagged(bool),
}

/// A list of pages: each so many pages after the last one, from the first or from the last on, perhaps followed by all
/// of them from the first on once more.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct List {
    pub(crate) stride: u64,
    pub(crate) reverse: bool,
    pub(crate) twice: bool,
}

/// The circumstances that decide besides the map.
#[derive(Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) half: Half,
    pub(crate) policy: Policy,
    pub(crate) promise: Promise,
    pub(crate) write_execute: bool,
    pub(crate) parkable: bool,
}

impl Circumstances {
    /// Returns the error of an operation for which a leaf in use has to change its size.
    pub(crate) fn may_resize(&self, va: u64) -> Result<(), ChangeError> {
        let live = self.policy == Policy::Live && self.promise.never_aborts;
        match self.policy {
            Policy::Park if self.parkable => Ok(()),
            Policy::Park => Err(ChangeError::CannotPark),
            _ if live => Ok(()),
            policy => Err(ChangeError::NeedsResize { va: Va(va), policy }),
        }
    }
}

/// The required outcome of an operation, if there are enough table pages.
pub(crate) struct Prediction {
    pub(crate) result: Result<(), Refused>,
    /// The map afterwards.
    pub(crate) flat: Flat,
}

impl Prediction {
    /// Returns true if nothing is wrong, or leaves cannot change their sizes.
    pub(crate) fn is_about_sizes(&self) -> bool {
        use ChangeError::{CannotPark, NeedsResize};
        matches!(self.result, Ok(()) | Err(Refused::Change(CannotPark | NeedsResize { .. })))
    }
}

impl Operation {
    pub(crate) fn name(&self) -> &'static str {
        match self.what {
            What::Protect(_) => "protect",
            What::SetValid(true) => "set valid",
            What::SetValid(false) => "set invalid",
            What::SetPageValid(true) => "set page valid",
            What::SetPageValid(false) => "set page invalid",
            What::Change(..) => "change",
            What::ChangePages(..) => "change pages",
            What::Flush => "flush",
            What::Map(..) => "map",
            What::Unmap => "unmap",
            What::HotRemove(_) => "hot-remove",
            What::SplitToPages => "split to pages",
            What::Collapse => "collapse",
            What::Repaint(_) => "repaint",
            What::Aliased(set, _) => set.name(),
            What::Remake(_) => "remake",
            What::SetTagged(_) => "set tagged",
        }
    }

    /// All that the linear map may take in, in pages.
    pub(crate) fn repaint(g: Geometry, half: Half) -> Self {
        let pages = 1 << (g.va_bits() - 1 - g.page_shift());
        Self { what: What::Repaint(None), va: g.base(half), pages }
    }

    /// The last address, of a range that has one.
    pub(crate) fn last(&self, g: Geometry) -> u64 {
        let stride = if let What::ChangePages(_, _, list) = self.what { list.stride } else { 1 };
        self.va + (((self.pages - 1) * stride + 1) * g.page_size() - 1)
    }

    /// The pages of a list.
    fn listed(&self, list: List, g: Geometry) -> Vec<Va> {
        let page = |n| Va(self.va.wrapping_add(n * list.stride * g.page_size()));
        let mut pages: Vec<Va> = (0..self.pages).map(page).collect();
        if list.reverse {
            pages.reverse();
        }
        if list.twice {
            pages.extend((0..self.pages).map(page));
        }
        pages
    }

    /// The ranges that it names, with their pages, in its order.
    fn named(&self, g: Geometry) -> Vec<(u64, u64)> {
        let What::ChangePages(_, _, list) = self.what else { return vec![(self.va, self.pages)] };
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for va in self.listed(list, g) {
            match ranges.last_mut() {
                Some((first, pages)) if first.wrapping_add(*pages * g.page_size()) == va.0 => *pages += 1,
                _ => ranges.push((va.0, 1)),
            }
        }
        ranges
    }

    /// The same as first and last addresses.
    fn spans(&self, g: Geometry) -> Vec<(u64, u64)> {
        self.named(g).into_iter().map(|(va, pages)| (va, va + (pages * g.page_size() - 1))).collect()
    }

    /// Returns true if it leaves its invalidations for later.
    pub(crate) fn is_later(&self) -> bool {
        match self.what {
            What::Change(_, flags) | What::ChangePages(_, flags, _) => flags.contains(ChangeFlags::LATER),
            What::SetPageValid(_) => true,
            _ => false,
        }
    }

    fn skips_holes(&self) -> bool {
        matches!(self.what, What::Change(_, flags) | What::ChangePages(_, flags, _) if flags.contains(ChangeFlags::SKIP_HOLES))
    }

    /// The ranges that it may change.
    pub(crate) fn ranges(&self, flat: &Flat, g: Geometry) -> Vec<(u64, u64)> {
        let area = (self.va, self.last(g));
        match self.what {
            What::Aliased(_, offset) => aliased::ranges(flat, area, offset, g),
            What::Remake(remade) => remade.ranges(flat, area, g),
            What::ChangePages(..) => {
                // Each page once, in ascending order.
                let mut spans = self.spans(g);
                spans.sort_unstable();
                let mut once: Vec<(u64, u64)> = Vec::new();
                for span in spans {
                    match once.last_mut().filter(|last| span.0 <= last.1) {
                        Some(last) => last.1 = last.1.max(span.1),
                        None => once.push(span),
                    }
                }
                once
            }
            _ => vec![area],
        }
    }

    /// Returns the changes, as they are announced to the model.
    pub(crate) fn changes(&self, flat: &Flat, g: Geometry) -> Vec<linmap_model::Expected> {
        let changes = self.ranges(flat, g).into_iter().flat_map(|range| flat::changes(flat, range));
        let promised = |c: linmap_model::Expected| {
            let c = if self.is_later() { c.invalidated_later() } else { c };
            if self.is_nowhere_writable(c.va, g) { c.nowhere_writable() } else { c }
        };
        changes.map(promised).collect()
    }

    /// Returns true if the operation leaves a page of its area read-only, and so must no other address make it writable.
    fn is_nowhere_writable(&self, va: u64, g: Geometry) -> bool {
        let read_only = matches!(self.what, What::Aliased(Set::ReadOnly | Set::Code, _));
        read_only && self.va <= va && va <= self.last(g)
    }

    /// Returns the same without anything left for later.
    pub(crate) fn at_once(&self) -> Self {
        let what = match self.what {
            What::Change(change, flags) => What::Change(change, flags - ChangeFlags::LATER),
            What::ChangePages(change, flags, list) => {
                What::ChangePages(change, flags - ChangeFlags::LATER, list)
            }
            what => what,
        };
        Self { what, ..*self }
    }

    /// Returns true if an exclusive space has it.
    pub(crate) fn is_of_both_forms(&self) -> bool {
        let is_of_one = match self.what {
            What::SetPageValid(_)
            | What::Flush
            | What::HotRemove(_)
            | What::Repaint(_)
            | What::Aliased(..) => true,
            What::Remake(remade) => remade.linear.is_some(),
            _ => false,
        };
        !is_of_one
    }

    /// Invalidates what it has left for later.
    fn flush_later(&self, g: Geometry, live: &mut Live<'_, impl Form>) -> Result<(), Refused> {
        let later = if self.is_later() { self.named(g) } else { Vec::new() };
        Ok(later.into_iter().try_for_each(|(va, pages)| live.flush(Va(va), pages))?)
    }

    /// Does it if both forms of an address space have it. Returns false if not.
    fn run_on(
        &self,
        g: Geometry,
        live: &mut Live<'_, impl Form>,
        step: &mut dyn FnMut(),
    ) -> Result<bool, Refused> {
        let (va, pages) = (Va(self.va), self.pages);
        // SAFETY: these are tables of a model: no CPU uses the addresses, and the model judges the rest.
        unsafe {
            match self.what {
                What::Protect(change) => live.protect(va, pages, change)?,
                What::SetValid(valid) => live.set_valid(va, pages, valid)?,
                What::SetPageValid(valid) => {
                    assert_eq!(pages, 1, "it is of one page");
                    live.change(va, 1, Change::of_validity(valid), ChangeFlags::LATER)?;
                }
                What::Change(change, flags) => live.change(va, pages, change, flags)?,
                What::ChangePages(change, flags, list) => {
                    live.change_pages(self.listed(list, g).iter().copied(), change, flags)?;
                }
                What::Flush => live.flush(va, pages)?,
                What::Map(oa, attributes) => live.map(va, pages, Pa(oa), attributes)?,
                What::Unmap => live.unmap(va, pages)?,
                What::SplitToPages => live.split_to_pages(va, pages)?,
                What::Collapse => live.collapse(va, pages)?,
                What::SetTagged(tagged) => live.set_tagged(va, pages, tagged)?,
                What::Remake(remade) if remade.linear.is_none() => {
                    live.remake(va, pages, remade.remake(), || remade.step(step))?;
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Does it in an exclusive space, which has it, and then invalidates what it has left for later.
    pub(crate) fn run_alone<P: Platform>(
        &self,
        space: &mut Space,
        platform: &P,
        step: &mut dyn FnMut(),
    ) -> Result<(), Refused> {
        let g = space.geometry();
        assert!(self.run_on(g, &mut space.on(platform), step)?, "{:?} is of the shared form", self.what);
        self.flush_later(g, &mut space.on(platform))
    }

    /// Does it in a space for this operation, and then invalidates what it has left for later.
    pub(crate) fn run_at_once<P: Platform, const LOCKS: usize>(
        &self,
        space: &SharedSpace<LOCKS>,
        platform: &P,
        step: &mut dyn FnMut(),
    ) -> Result<(), Refused> {
        self.run(space, platform, step)?;
        self.flush_later(space.geometry(), &mut space.on(platform))
    }

    /// Does it. `step` is called where a remake calls its own.
    pub(crate) fn run<P: Platform, const LOCKS: usize>(
        &self,
        space: &SharedSpace<LOCKS>,
        platform: &P,
        step: &mut dyn FnMut(),
    ) -> Result<(), Refused> {
        let (va, pages, g) = (Va(self.va), self.pages, space.geometry());
        if self.run_on(g, &mut space.on(platform), step)? {
            return Ok(());
        }
        match self.what {
            What::Aliased(set, offset) => set.run(space, platform, offset, (va, pages))?,
            What::HotRemove(offset) => {
                let pa = |va: u64| Pa(va.wrapping_sub(offset));
                let mut page = [pa(self.va)..Pa(pa(self.va).0 + g.page_size())];
                let layout = Layout::of_ram(g, &mut page).and_then(|layout| layout.at(offset));
                let mut hotplug = Hotplug::new(space.on(platform), &layout.expect("RAM that is reached"));
                // SAFETY: as in `run_on`.
                unsafe { hotplug.remove(pa(self.va)..Pa(pa(self.last(g)).0 + 1))? };
            }
            What::Repaint(keep) => {
                let keep = keep.map(|(first, last)| (Va(first), Va(last)));
                _ = space.on(platform).repaint((va, Va(self.last(g))), keep.as_slice())?;
            }
            What::Remake(remade) => {
                let offset = remade.linear.expect("without aliases it is of both forms");
                // SAFETY: as in `run_on`.
                unsafe { remade.run(space, platform, (va, pages, offset), step)? };
            }
            other => unreachable!("{other:?} has been done"),
        }
        Ok(())
    }

    /// Returns the new mapping of a page.
    fn of(&self, va: u64, old: Option<Mapped>, g: Geometry) -> Option<Mapped> {
        let new = match self.what {
            What::Protect(change) | What::Change(change, _) | What::ChangePages(change, ..) => {
                old.map(|m| Mapped {
                    attributes: change.of(m.attributes),
                    valid: change.validity().unwrap_or(m.valid),
                    ..m
                })
            }
            What::SetValid(valid) | What::SetPageValid(valid) => old.map(|m| Mapped { valid, ..m }),
            What::Map(oa, attributes) => Some(Mapped { pa: oa + (va - self.va), attributes, valid: true }),
            What::Unmap | What::HotRemove(_) => None,
            What::SetTagged(tagged) => old.map(|m| Mapped { attributes: tags(m.attributes, tagged), ..m }),
            What::SplitToPages | What::Collapse | What::Repaint(_) | What::Aliased(..) | What::Flush => old,
            What::Remake(_) => unreachable!("it has its own prediction"),
        };
        new.map(|m| flat::kept(m, g))
    }

    /// Returns the error that the arguments alone cause.
    fn arguments(&self, g: Geometry, now: Circumstances) -> Result<(), Refused> {
        for (va, pages) in self.named(g) {
            Operation { va, pages, ..*self }.range(g, now)?;
        }
        Ok(())
    }

    /// Does the same for one range.
    fn range(&self, g: Geometry, now: Circumstances) -> Result<(), Refused> {
        let (va, pages) = (Va(self.va), self.pages);
        let page = g.page_size();
        let repaint = matches!(self.what, What::Repaint(_));
        if !self.va.is_multiple_of(page) && !repaint {
            return Err(Refused::Change(ChangeError::Unaligned(Unaligned::Va(va))));
        }
        if pages == 0 {
            return Ok(());
        }
        let base = u128::from(g.base(now.half));
        let start = u128::from(self.va);
        let end = start + u128::from(pages) * u128::from(page);
        if start < base || end > base + (1u128 << g.va_bits()) {
            return Err(Refused::Change(ChangeError::OutsideHalf { va, pages }));
        }
        let whole = g.level_size(g.root()) * g.contiguous_entries(g.root()) as u64;
        if repaint && !(self.va - g.base(now.half)).is_multiple_of(whole) {
            return Err(Refused::PartOfEntry { va });
        }
        if repaint && !(self.last(g) - g.base(now.half)).wrapping_add(1).is_multiple_of(whole) {
            return Err(Refused::PartOfEntry { va: Va(self.last(g)) });
        }
        let What::Map(oa, attributes) = self.what else { return Ok(()) };
        if !oa.is_multiple_of(page) {
            return Err(Refused::Change(ChangeError::Unaligned(Unaligned::Pa(Pa(oa)))));
        }
        if u128::from(oa) + u128::from(pages) * u128::from(page) > 1u128 << g.oa_bits() {
            return Err(Refused::Change(ChangeError::OutputAddress { oa: Pa(oa), pages, bits: g.oa_bits() }));
        }
        if attributes.is_writable() && attributes.is_executable() && !now.write_execute {
            return Err(Refused::Change(ChangeError::WriteExecute { va }));
        }
        Ok(())
    }

    /// Returns the error that the pages of the range cause.
    fn contents(&self, flat: &Flat, g: Geometry, now: Circumstances) -> Result<(), Refused> {
        let spans = self.spans(g);
        for (first, _, old) in spans.into_iter().flat_map(|(first, last)| flat.within(first, last)) {
            let va = Va(first);
            match (self.what, old) {
                (What::Map(..), Some(_)) => return Err(Refused::Change(ChangeError::Occupied { va })),
                (What::Map(..) | What::Collapse | What::Repaint(_) | What::Flush, _) => {}
                (_, None) if self.skips_holes() => {}
                (_, None) => return Err(Refused::Change(ChangeError::Hole { va })),
                (What::HotRemove(offset), Some(old)) => {
                    let pa = first.wrapping_sub(offset);
                    // RAM that was added in pages stays in pages.
                    let stays = old.attributes.intersection(Attributes::STAYS_SPLIT);
                    let attributes = Attributes::RAM.union(stays);
                    if old != flat::kept(Mapped { pa, attributes, valid: true }, g) {
                        return Err(Refused::Change(ChangeError::NotRam { va }));
                    }
                }
                (
                    What::Protect(_)
                    | What::SetValid(true)
                    | What::SetPageValid(true)
                    | What::Change(..)
                    | What::ChangePages(..)
                    | What::SetTagged(_),
                    Some(m),
                ) => {
                    let new = self.of(first, old, g).expect("it is mapped");
                    let a = new.attributes;
                    if new.valid && a.is_writable() && a.is_executable() && !now.write_execute {
                        return Err(Refused::Change(ChangeError::WriteExecute { va }));
                    }
                    if matches!(self.what, What::SetTagged(_)) && !is_normal(m.attributes) {
                        return Err(Refused::Change(ChangeError::NotNormal { va }));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The first leaf in use that has to change its size.
    fn resized(&self, walked: &Walked, g: Geometry) -> Option<Seen> {
        self.spans(g).into_iter().find_map(|span| self.resized_by(span, walked, g))
    }

    fn resized_by(&self, (first, last): (u64, u64), walked: &Walked, g: Geometry) -> Option<Seen> {
        let changes = |seen: &&Seen| {
            let leaf = seen.leaf;
            let (start, end) = seen.whole(g);
            let large = (start, end) != (seen.va, seen.va + (g.page_size() - 1));
            let old = Mapped { pa: leaf.oa.0, attributes: leaf.attributes, valid: leaf.valid };
            let resized = match self.what {
                What::Map(..) | What::Collapse | What::Repaint(_) | What::Flush => false,
                What::SplitToPages => large,
                _ => (start < first || last < end) && self.of(seen.va, Some(old), g) != Some(old),
            };
            leaf.valid && resized
        };
        walked.within(first, last, g).iter().find(changes).copied()
    }

    /// Predicts the outcome, if there are enough table pages.
    pub(crate) fn predict(
        &self,
        flat: &Flat,
        walked: &Walked,
        g: Geometry,
        now: Circumstances,
    ) -> Prediction {
        let refused = |error| Prediction { result: Err(error), flat: flat.clone() };
        if let Err(error) = self.arguments(g, now) {
            return refused(error);
        }
        if self.pages == 0 {
            return Prediction { result: Ok(()), flat: flat.clone() };
        }
        if let What::Aliased(set, offset) = self.what {
            return aliased::predict(self, (set, offset), (flat, walked), g, now);
        }
        if let What::Remake(remade) = self.what {
            return remade::predict(self, &remade, (flat, walked), g, now);
        }
        if let Err(error) = self.contents(flat, g, now) {
            return refused(error);
        }
        if let Err(error) = self.resized(walked, g).map_or(Ok(()), |seen| now.may_resize(seen.va)) {
            return refused(error.into());
        }
        // It is the upper half that CPUs are parked off.
        if matches!(self.what, What::Repaint(_)) && (!now.parkable || now.half == Half::Lower) {
            return refused(Refused::Change(ChangeError::CannotPark));
        }
        let flat = match self.what {
            What::SplitToPages | What::Collapse | What::Repaint(_) | What::Flush => flat.clone(),
            _ => {
                let change =
                    |flat: Flat, (first, last)| flat.with(first, last, |va, old| self.of(va, old, g));
                self.spans(g).into_iter().fold(flat.clone(), change)
            }
        };
        Prediction { result: Ok(()), flat }
    }
}

fn is_normal(a: Attributes) -> bool {
    [MemoryType::NORMAL, MemoryType::NORMAL_TAGGED].contains(&a.memory_type())
}

fn tags(a: Attributes, tagged: bool) -> Attributes {
    a.of_type(if tagged { MemoryType::NORMAL_TAGGED } else { MemoryType::NORMAL })
}
