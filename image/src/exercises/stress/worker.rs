//! The work of one CPU: operation by operation, each compared with what the model says of its pages.

use core::fmt;
use core::ops::{ControlFlow, Range};
use core::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst, fence};

use kernel::stress::Random;
use kernel::stress::model::{Change, Mapped, Page, Refusal};
use kernel::stress::step::{Operation, Step};
use linmap::arch::{Entry, Level};
use linmap::error::ChangeError;
use linmap::read::MarkedRange;
use linmap::{Attributes, Policy, Va};

use super::state::{At, Counts, MOST_WRONG, Stress};
use crate::cpu::{self, relax};
use crate::exercises::hotplug::hotplug;
use crate::leaf::Leaf;
use crate::parking;

/// The numbers of pages that are probed: of those that an operation changes, and of others.
const OWN: usize = 3;
const FOREIGN: usize = 3;

/// The expected result of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Done,
    /// Refused at this page.
    Refused(usize, Refusal),
    /// The policy does not let a leaf in use change its size.
    NeedsResize,
}

/// A writer to nowhere.
struct Nowhere;

impl fmt::Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

impl Stress<'_> {
    /// Does this CPU's part of one half of the operations, the first or the second.
    pub(super) fn work(&self, cpu: usize, operations: u64, half: u64) {
        let (cpus, place) = (cpu::running().count() as u64, cpu::running().take_while(|c| *c != cpu).count());
        let own = operations / cpus + u64::from((place as u64) < operations % cpus);
        let numbers = if half == 0 { 0..own / 2 } else { own / 2..own };
        let mut seen = [0; FOREIGN];
        for number in numbers {
            if self.tally.wrong() >= MOST_WRONG {
                return;
            }
            self.step(At { cpu, number }, &mut seen);
        }
    }

    /// Does one operation, with probes before and after it. `seen` are pages that were probed after the last one.
    fn step(&self, at: At, seen: &mut [usize; FOREIGN]) {
        let step = Step::number(self.seed, at.cpu, at.number, &self.pages);
        let mut random = Random::from(step.probes);
        let pages = step.pages.clone();
        let own: [usize; OWN] = core::array::from_fn(|n| match n {
            0 => pages.start,
            1 => pages.end - 1,
            _ => pages.start + random.below(pages.len()),
        });
        let turn = self.turns.take(pages.clone(), || {
            parking::answer_if_asked();
            relax();
        });
        own.iter().for_each(|page| self.probe(at, *page));
        self.counts[at.cpu].digest((pages.start as u64) << 32 | pages.len() as u64);
        self.carry_out(at, &step);
        own.iter().for_each(|page| self.probe(at, *page));
        drop(turn);
        seen.iter().for_each(|page| self.probe_foreign(at, *page));
        *seen = core::array::from_fn(|n| match n {
            0 => pages.start.saturating_sub(1),
            1 => pages.end.min(self.pages.all() - 1),
            _ => random.below(self.pages.all()),
        });
        seen.iter().for_each(|page| self.probe_foreign(at, *page));
    }

    fn carry_out(&self, at: At, step: &Step) {
        let pages = step.pages.clone();
        match step.what {
            Operation::Change(change) if step.fits => {
                _ = self.change(at, change, self.model.fitting(pages, change));
            }
            Operation::Change(change) => _ = self.change(at, change, pages),
            Operation::Split => self.split(at, pages),
            Operation::Collapse => self.collapse(at, &pages),
            Operation::Restore => {
                if self.change(at, Change::Data, pages.clone()) {
                    self.change(at, Change::Valid, pages.clone());
                }
                self.collapse(at, &pages);
            }
            Operation::Renew { skewed } => {
                if self.unmap_all(at, pages.clone()) {
                    self.change(at, Change::Map { skewed }, pages);
                }
            }
            Operation::Remake { skewed } => self.remake(at, &pages, skewed),
            Operation::Hotplug => {
                let pages = self.model.fitting(pages, Change::Removed);
                if self.change(at, Change::Removed, pages.clone()) {
                    self.change(at, Change::Added, pages);
                }
            }
            Operation::Look => self.look(at),
            Operation::Walk => self.walk(at, &pages),
            Operation::Probe => {}
        }
    }

    /// Unmaps what is mapped. Returns true if all of it is unmapped.
    pub(super) fn unmap_all(&self, at: At, mut pages: Range<usize>) -> bool {
        let mut gone = true;
        while !pages.is_empty() {
            let run = self.model.like_the_first(pages.clone());
            pages.start = run.end;
            if self.model.at(run.start) != Page::Hole {
                gone &= self.change(at, Change::Unmap, run);
            }
        }
        gone
    }

    /// Changes pages that this CPU owns. Returns true if that succeeded.
    pub(super) fn change(&self, at: At, change: Change, pages: Range<usize>) -> bool {
        let expected = match self.model.refusal(pages.clone(), change) {
            Some((page, why)) => Expected::Refused(page, why),
            None if self.is_cut(&pages, change) => Expected::NeedsResize,
            None => Expected::Done,
        };
        let begun = !matches!(expected, Expected::Refused(..));
        if begun {
            self.model.begin(pages.clone(), change);
            fence(SeqCst);
        }
        // Where CPUs run in turns, another one gets its turn here.
        relax();
        let result = parking::again(|| self.call(change, &pages));
        relax();
        if begun {
            self.model.end(pages.clone(), result.is_ok());
        }
        self.judge_call(at, (&change, &pages), expected, result);
        result.is_ok()
    }

    fn call(&self, change: Change, pages: &Range<usize>) -> Result<(), ChangeError> {
        let (space, platform) = (&self.system.space, self.system.platform());
        let (va, count) = (self.va(pages.start), pages.len() as u64);
        // SAFETY: the addresses are this test's, whose CPUs expect faults there; the memory has no owner, and has one
        // memory type wherever it is mapped.
        unsafe {
            match change {
                Change::Valid | Change::Invalid => self.set_valid(pages, matches!(change, Change::Valid)),
                Change::Unmap => space.on(&platform).unmap(va, count),
                Change::Map { skewed } => {
                    space.on(&platform).map(va, count, self.oa(pages.start, skewed), Attributes::RAM)
                }
                Change::Removed => hotplug(self.system, &platform).remove(self.ram(pages)),
                Change::Added => hotplug(self.system, &platform).add(self.ram(pages)),
                change => match change.permissions() {
                    Some(permissions) => space.on(&platform).protect(va, count, permissions),
                    None => Ok(()),
                },
            }
        }
    }

    pub(super) fn judge_call(
        &self,
        at: At,
        what: (&dyn fmt::Debug, &Range<usize>),
        expected: Expected,
        result: Result<(), ChangeError>,
    ) {
        let counts = &self.counts[at.cpu];
        let outcome = match (expected, result) {
            (Expected::Done, Ok(())) => Some(0),
            (Expected::Done, Err(ChangeError::OutOfFrames { .. })) if self.scarce.load(Relaxed) => {
                Counts::add(&counts.no_frames, 1);
                Some(1)
            }
            (Expected::NeedsResize, Err(ChangeError::NeedsResize { policy: Policy::Fixed, .. })) => {
                Counts::add(&counts.needs_resize, 1);
                Some(2)
            }
            (Expected::Refused(page, why), Err(e)) => {
                let told = match e {
                    ChangeError::Hole { va } => Some((va, Refusal::Hole)),
                    ChangeError::Occupied { va } => Some((va, Refusal::Occupied)),
                    ChangeError::WriteExecute { va } => Some((va, Refusal::WriteExecute)),
                    ChangeError::NotRam { va } => Some((va, Refusal::NotRam)),
                    _ => None,
                };
                (told == Some((self.va(page), why))).then_some(3)
            }
            _ => None,
        };
        counts.digest(outcome.unwrap_or(4));
        if outcome.is_none() {
            let ((what, pages), first) = (what, self.va(what.1.start));
            self.found_wrong(
                at,
                format_args!(
                    "{what:?} of {} pages from {first} should be {expected:?}, and is {result:?}",
                    pages.len()
                ),
            );
        }
    }

    /// Returns true if the policy refuses a change, as an end of the range lies within a leaf in use that would change.
    /// No other CPU changes the size of that leaf, as none can.
    fn is_cut(&self, pages: &Range<usize>, change: Change) -> bool {
        if self.system.space.policy() != Policy::Fixed {
            return false;
        }
        let (first, last) = self.ends(pages);
        [pages.start, pages.end - 1].into_iter().any(|page| {
            let state = self.model.at(page);
            let changes =
                matches!(state, Page::Mapped(Mapped { valid: true, .. })) && state.after(change) != Ok(state);
            let leaf = Leaf::at(self.system, self.va(page)).filter(|_| changes);
            leaf.is_some_and(|l| l.va < first || l.va.0 + (l.size.bytes() - 1) > last.0)
        })
    }

    /// Splits pages that this CPU owns.
    fn split(&self, at: At, pages: Range<usize>) {
        let (space, va) = (&self.system.space, self.va(pages.start));
        let split = || space.on(&self.system.platform()).split_to_pages(va, pages.len() as u64);
        let expected = self.expected_of_split(&pages);
        let result = parking::again(split);
        self.judge_call(at, (&Operation::Split, &pages), expected, result);
    }

    /// Returns what a split of pages that this CPU owns should end in.
    pub(super) fn expected_of_split(&self, pages: &Range<usize>) -> Expected {
        match pages.clone().find(|page| self.model.at(*page) == Page::Hole) {
            Some(page) => Expected::Refused(page, Refusal::Hole),
            None if self.system.space.policy() == Policy::Fixed && self.has_large(pages) => {
                Expected::NeedsResize
            }
            None => Expected::Done,
        }
    }

    /// Returns true if a leaf in use larger than a page maps one of the pages.
    fn has_large(&self, pages: &Range<usize>) -> bool {
        let found = self.system.space.on(&self.system.platform()).read(|reader| {
            reader.visit(self.ends(pages), |&linmap::read::Visited { level, entry, .. }| match entry {
                Entry::Leaf(leaf) if leaf.valid && (leaf.contiguous || level != Level::PAGE) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            })
        });
        found.is_break()
    }

    pub(super) fn collapse(&self, at: At, pages: &Range<usize>) {
        let (space, va) = (&self.system.space, self.va(pages.start));
        let collapse = || space.on(&self.system.platform()).collapse(va, pages.len() as u64);
        let result = parking::again(collapse);
        self.judge_call(at, (&Operation::Collapse, pages), Expected::Done, result);
    }

    /// Compares the tables for pages that this CPU owns with the model, and prints and counts them.
    fn walk(&self, at: At, pages: &Range<usize>) {
        let (space, platform, g) = (&self.system.space, self.system.platform(), self.system.geometry);
        let (range, mut page, mut wrong) = (self.ends(pages), pages.start, None);
        let _ = space.on(&platform).read(|reader| {
            reader.visit(range, |&linmap::read::Visited { va, level, entry, .. }| {
                let last = va.0 + (g.level_size(level) - 1);
                let ends_here = matches!(entry, Entry::Leaf(_) | Entry::Hole);
                while ends_here && page != pages.end && self.va(page).0 <= last {
                    if self.state(page, va, entry) != self.model.at(page) {
                        wrong.get_or_insert((page, entry));
                    }
                    page += 1;
                }
                ControlFlow::Continue(())
            })
        });
        if let Some((page, entry)) = wrong {
            let (va, state) = (self.va(page), self.model.at(page));
            self.found_wrong(at, format_args!("{va} should be {state:?}, and is {entry:x?}"));
        } else if page != pages.end {
            self.found_wrong(at, format_args!("a walk ended at {}", self.va(page)));
        }
        let region = MarkedRange { range, start: "start", end: "end" };
        if space.on(&platform).read(|reader| reader.dump(region, &mut Nowhere)).is_err() {
            self.found_wrong(at, format_args!("a dump to nowhere broke off"));
        }
        let counted = space.on(&platform).read(|reader| reader.count(range)).bytes(g);
        let mapped = pages.clone().filter(|page| self.model.at(*page) != Page::Hole).count();
        if counted < self.bytes(mapped) {
            self.found_wrong(at, format_args!("{counted} bytes counted where {mapped} pages are mapped"));
        }
    }

    /// Returns the state of a page, as the entry at an address has it.
    fn state(&self, page: usize, va: Va, entry: Entry) -> Page {
        let Entry::Leaf(leaf) = entry else { return Page::Hole };
        let oa = leaf.oa.0.wrapping_add(self.va(page).0.wrapping_sub(va.0));
        let (a, skewed) = (leaf.attributes, self.oa(page, true).0 == oa);
        if !skewed && self.oa(page, false).0 != oa {
            return Page::Hole;
        }
        let executable = !a.contains(Attributes::PXN);
        Page::Mapped(Mapped { valid: leaf.valid, writable: a.is_writable(), executable, skewed })
    }
}
