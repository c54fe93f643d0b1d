//! A kernel does more with its linear map than to protect it: pages go out and come back with a later flush, others are changed by
//! break-before-make, RAM comes and goes, and hidden data are looked at.

use core::cell::Cell;
use core::convert::Infallible;
use core::ops::Range;

use kernel::stress::model::{Change, Page};
use kernel::stress::step::Operation;
use linmap::error::ChangeError;
use linmap::{Change as Permissions, ChangeFlags, Pa, Remake};

use super::state::{At, Stress};
use super::worker::Expected;
use crate::parking;
use crate::probe::try_read;

/// A word of the image's data.
static HIDDEN: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0x5eed);

impl Stress<'_> {
    /// Makes pages valid or invalid: at once, or with the invalidations left to a flush.
    ///
    /// # Safety
    ///
    /// As for [`Live::set_valid`](linmap::Live::set_valid).
    pub(super) unsafe fn set_valid(&self, pages: &Range<usize>, valid: bool) -> Result<(), ChangeError> {
        let (space, platform) = (&self.system.space, self.system.platform());
        let (va, count) = (self.va(pages.start), pages.len() as u64);
        // SAFETY: the caller's promise.
        unsafe {
            match pages.start % 4 {
                0 | 1 => return space.on(&platform).set_valid(va, count, valid),
                _ => {
                    let change = Permissions::of_validity(valid);
                    space.on(&platform).change(va, count, change, ChangeFlags::LATER)?;
                }
            }
        }
        space.on(&platform).flush(va, count)
    }

    /// Returns the memory of pages in the linear map.
    pub(super) fn ram(&self, pages: &Range<usize>) -> Range<Pa> {
        self.oa(pages.start, false)..Pa(self.oa(pages.start, false).0 + self.bytes(pages.len()))
    }

    /// Leads pages that this CPU owns to their own memory, or to that after it, by break-before-make. They are pinned
    /// meanwhile, so that no leaf is too large.
    pub(super) fn remake(&self, at: At, pages: &Range<usize>, skewed: bool) {
        let (space, va, count) = (&self.system.space, self.va(pages.start), pages.len() as u64);
        let expected = self.expected_of_split(pages);
        let pinned = parking::again(|| space.on(&self.system.platform()).pin(va, count));
        self.judge_call(at, (&Operation::Split, pages), expected, pinned);
        if pinned.is_err() {
            return;
        }
        let refusal = self.model.refusal(pages.clone(), Change::Valid);
        let expected = refusal.map_or(Expected::Done, |(page, why)| Expected::Refused(page, why));
        if refusal.is_none() {
            self.model.begin(pages.clone(), Change::Invalid);
        }
        let out = Cell::new(false);
        // SAFETY: the addresses are this test's, whose CPUs expect faults there; the memory has one type wherever it is
        // mapped.
        let result = parking::again(|| unsafe {
            let to = Remake::to(self.oa(pages.start, skewed));
            space.on(&self.system.platform()).remake(va, count, to, || {
                self.model.end(pages.clone(), true);
                self.probe(at, pages.start);
                self.model.begin(pages.clone(), Change::Remade { skewed });
                out.set(true);
                Ok::<(), Infallible>(())
            })
        });
        // Without a step they were so before.
        if refusal.is_none() {
            self.model.end(pages.clone(), out.get() && result.is_ok());
        }
        self.judge_call(at, (&Change::Remade { skewed }, pages), expected, result.map_err(ChangeError::from));
        let unpinned = space.on(&self.system.platform()).unpin(va, count);
        self.judge_call(at, (&Operation::Collapse, pages), Expected::Done, unpinned);
    }

    /// Lets this test's value know that the image's data are hidden.
    pub(super) fn hide(&self) {
        // SAFETY: they are hidden already, where they are to be.
        let hidden =
            self.hidden.as_ref().map_or(Ok(()), |data| unsafe { data.hide(&self.system.platform()) });
        self.tally.done(hidden, "the data are not hidden");
    }

    /// Looks at a variable through the linear map, where the image's data are hidden.
    pub(super) fn look(&self, at: At) {
        let (Some(hidden), word) = (&self.hidden, core::ptr::from_ref(&HIDDEN) as u64) else { return };
        let alias = self.system.memory.layout.va(self.system.image.pa(word));
        let Some(alias) = alias else { return };
        // SAFETY: a variable is read.
        let seen = unsafe { hidden.shown(&self.system.platform(), || try_read(alias)) };
        if !matches!(seen, Ok(Ok(0x5eed))) {
            self.found_wrong(at, format_args!("a look at hidden data shows {seen:x?}"));
        }
    }

    /// Adds RAM that was removed, and could not be added for want of a table page.
    pub(super) fn add_missing(&self, at: At) {
        let mut page = 0;
        while let Some(start) = (page..self.pages.linear).find(|page| self.model.at(*page) == Page::Hole) {
            page = (start..self.pages.linear)
                .find(|page| self.model.at(*page) != Page::Hole)
                .unwrap_or(self.pages.linear);
            self.change(at, Change::Added, start..page);
        }
    }
}
