//! The vmalloc area, between the linear map and the other CPUs' stacks: pages mapped by any CPU.
//!
//! The tables alone say which memory an allocation has; there is no other list. When it is freed, its runs of physical
//! memory are linked through their own first words. An allocation with changed permissions is unmapped at once: first
//! in the area, then its alias becomes writable again. Others may wait and be unmapped together.

use core::fmt;
use core::ops::{ControlFlow, Range};

use arrayvec::ArrayVec;
use kernel::addresses::{Addresses, Allocation, Bounds, Like};
use linmap::arch::Entry;
use linmap::error::ChangeError;
use linmap::layout::linear_range;
use linmap::{Aliased, Attributes, Change, Pa, Reason, Rodata, Va};

use crate::lock::Guarded;
use crate::parking;
use crate::system::System;
use crate::virtual_addresses::STACKS;

/// The most allocations, and bytes, that wait to be unmapped.
const WAITING: usize = 32;
const WAITING_BYTES: u64 = 32 << 20;

/// The most runs of memory that one visit of the tables collects.
const RUNS: usize = 32;

/// The addresses that are taken.
static TAKEN: Guarded<Addresses> = Guarded::new(Addresses::new(), parking::answer_if_asked);

/// The reason why something cannot be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Error {
    /// No RAM is left.
    Frames,
    /// No addresses are left, or too many allocations exist.
    Addresses,
    /// The library refused.
    Map(ChangeError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames => f.write_str("no RAM is left"),
            Self::Addresses => f.write_str("no addresses are left in the vmalloc area"),
            Self::Map(e) => e.fmt(f),
        }
    }
}

impl From<ChangeError> for Error {
    fn from(e: ChangeError) -> Self {
        Self::Map(e)
    }
}

/// The area of a system.
#[derive(Clone, Copy)]
pub(crate) struct Area<'a> {
    pub(crate) system: &'a System<'a>,
    /// By which the leaves that [`change`](Self::change) splits are counted.
    reason: Reason,
}

impl<'a> Area<'a> {
    pub(crate) const fn of(system: &'a System<'a>) -> Self {
        Self { system, reason: Reason::NONE }
    }

    /// Returns the area for changes with a reason.
    pub(crate) const fn because(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    fn bounds(&self) -> Bounds {
        let page = self.system.geometry.page_size();
        let behind_linear = linear_range(self.system.geometry).1.0 + 1;
        Bounds { start: behind_linear + page, end: STACKS, page }
    }

    const fn bytes(&self, pages: u64) -> u64 {
        pages << self.system.geometry.page_shift()
    }

    /// Maps so many pages of RAM, writable, wherever there is room. Their contents are arbitrary.
    pub(crate) fn allocate(&self, pages: u64) -> Result<Va, Error> {
        match self.try_allocate(pages) {
            Err(Error::Frames | Error::Addresses) if self.purge() => self.try_allocate(pages),
            result => result,
        }
    }

    fn try_allocate(&self, pages: u64) -> Result<Va, Error> {
        let frames = self.system.frames;
        let first = frames.take_run(pages).ok_or(Error::Frames)?;
        let start = match self.take(pages, first.start) {
            Ok(start) => start,
            Err(e) => {
                // SAFETY: just taken.
                unsafe { frames.give_run(first) };
                return Err(e);
            }
        };
        let (mut mapped, mut run) = (0, Some(first));
        while mapped != pages {
            let added = match run.take().or_else(|| frames.take_run(pages - mapped)) {
                Some(run) => self.map(Va(start.0 + self.bytes(mapped)), run),
                None => Err(Error::Frames),
            };
            match added {
                Ok(added) => mapped += added,
                Err(e) => {
                    let mut chain = Chain { area: self, first: None };
                    // Nothing fails, as no permissions have changed.
                    _ = self.loosen((start, mapped), false, &mut chain);
                    self.take_down(&[(start, mapped)], chain);
                    return Err(e);
                }
            }
        }
        Ok(start)
    }

    /// Takes addresses that are congruent to physical memory, so that large leaves fit.
    fn take(&self, pages: u64, pa: Pa) -> Result<Va, Error> {
        let (bounds, page) = (self.bounds(), self.system.geometry.page_size());
        let (all, bytes) = (bounds.end - bounds.start, pages.saturating_mul(page));
        // A leaf larger than a page has 16 of them at least. Most allocations have fewer.
        let fits = (pages >= 16).then(|| self.system.geometry.leaf_sizes()).and_then(|sizes| {
            sizes.iter().map(|size| size.bytes()).find(|size| *size <= bytes && *size <= all / 64)
        });
        let like = |modulus| Like { address: pa.0, modulus };
        TAKEN
            .with(|addresses| {
                let large = fits.and_then(|size| addresses.take(&bounds, pages, like(size)));
                large.or_else(|| addresses.take(&bounds, pages, like(page)))
            })
            .ok_or(Error::Addresses)
    }

    /// Maps a run of memory, or gives it back. Returns the number of its pages.
    fn map(&self, va: Va, run: Range<Pa>) -> Result<u64, Error> {
        let System { space, geometry, frames, .. } = self.system;
        let pages = (run.end.0 - run.start.0) >> geometry.page_shift();
        // SAFETY: the memory is the caller's, and nothing but the linear map reaches it, which has the same memory
        // type; nothing writes through that.
        let mapped =
            unsafe { space.on(&self.system.platform()).map(va, pages, run.start, Attributes::KERNEL_DATA) };
        if let Err(e) = mapped {
            // SAFETY: from `take_run`, and mapped nowhere else.
            unsafe { frames.give_run(run) };
            return Err(e.into());
        }
        Ok(pages)
    }

    /// Unmaps an allocation, which nothing uses any more, and gives its memory back. Returns false if there is none.
    pub(crate) fn free(&self, start: Va) -> bool {
        let left = TAKEN.with(|addresses| addresses.leave(start));
        left.inspect(|left| _ = self.unmap(core::slice::from_ref(left))).is_some()
    }

    /// Frees an allocation, which nothing uses any more: it is unmapped now or later. Returns false if there is none.
    pub(crate) fn free_later(&self, start: Va) -> bool {
        let Some(left) = TAKEN.with(|addresses| addresses.leave(start)) else { return false };
        if left.changed {
            self.unmap(&[left]);
            return true;
        }
        let (count, pages) = TAKEN.with(|addresses| {
            addresses.wait(start);
            addresses.waiting()
        });
        if count >= WAITING || self.bytes(pages) >= WAITING_BYTES {
            self.purge();
        }
        true
    }

    /// Unmaps all allocations that wait. Returns true if that gave something back.
    pub(crate) fn purge(&self) -> bool {
        let mut given = false;
        loop {
            let mut leaving = ArrayVec::<Allocation, WAITING>::new();
            TAKEN.with(|addresses| {
                while let Some(left) = (!leaving.is_full()).then(|| addresses.leave_waiting()).flatten() {
                    leaving.push(left);
                }
            });
            let went = self.unmap(&leaving);
            given |= went;
            if !leaving.is_full() || !went {
                return given;
            }
        }
    }

    /// Unmaps allocations together, or makes those wait for which that fails. Returns true if one is gone.
    fn unmap(&self, leaving: &[Allocation]) -> bool {
        let mut ranges = ArrayVec::<(Va, u64), WAITING>::new();
        let mut chain = Chain { area: self, first: None };
        for left in leaving {
            let before = chain.first.clone();
            match self.loosen((left.start, left.pages), left.changed, &mut chain) {
                Ok(()) => ranges.push((left.start, left.pages)),
                // Out of tables, or a CPU does not park: it stays mapped and unused.
                Err(_) => {
                    chain.first = before;
                    TAKEN.with(|addresses| _ = addresses.wait(left.start));
                }
            }
        }
        self.take_down(&ranges, chain);
        !ranges.is_empty()
    }

    /// Adds the memory of pages to a chain. If permissions have changed, they become unreachable through the area before, and their
    /// alias writable.
    // Out of line, since two callers need it.
    #[inline(never)]
    fn loosen(
        &self,
        (start, pages): (Va, u64),
        changed: bool,
        chain: &mut Chain<'_>,
    ) -> Result<(), ChangeError> {
        let System { space, args, memory, .. } = self.system;
        let platform = self.system.platform();
        if changed {
            // SAFETY: nothing uses it any more.
            parking::again(|| unsafe { space.on(&platform).set_valid(start, pages, false) })?;
        }
        let tightened = changed && args.rodata == Rodata::Full;
        self.each_run((start, pages), |run| {
            if tightened {
                let pages = (run.end.0 - run.start.0) >> self.system.geometry.page_shift();
                let alias = Va(run.start.0.wrapping_add(memory.layout.offset()));
                // SAFETY: memory that nothing uses, and that is not executable anywhere.
                parking::again(|| unsafe { space.on(&platform).protect(alias, pages, Change::WRITABLE) })?;
                parking::again(|| space.on(&platform).collapse(alias, pages))?;
            }
            chain.add(run);
            Ok(())
        })
    }

    /// Unmaps pages, and gives their memory, which a chain has, and their addresses back.
    fn take_down(&self, ranges: &[(Va, u64)], chain: Chain<'_>) {
        // SAFETY: nothing uses them any more.
        let unmapped = unsafe { self.system.space.on(&self.system.platform()).unmap_all(ranges) };
        if unmapped.is_err() {
            // Never: these are whole leaves. If they stay mapped, they keep their memory.
            return;
        }
        chain.give();
        TAKEN.with(|addresses| ranges.iter().for_each(|(start, _)| addresses.give(*start)));
    }

    /// Calls `each` for the runs of memory that pages are mapped to, present-invalid ones included, in their order.
    pub(crate) fn each_run<E>(
        &self,
        (start, pages): (Va, u64),
        mut each: impl FnMut(Range<Pa>) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = start.0 + self.bytes(pages);
        let (mut runs, mut from) = (ArrayVec::new(), start.0);
        while from < end {
            let next = self.runs(&mut runs, from, end);
            for run in runs.drain(..) {
                each(run)?;
            }
            // Past a hole, should there be one.
            from = next.max(from + 1);
        }
        Ok(())
    }

    /// Collects the first runs of memory from one address to another. Returns the start of the next one.
    fn runs(&self, runs: &mut ArrayVec<Range<Pa>, RUNS>, from: u64, end: u64) -> u64 {
        let System { space, geometry, .. } = self.system;
        let mut next = end;
        let _ = space.on(&self.system.platform()).read(|reader| {
            reader.visit_series(
                (Va(from), Va(end - 1)),
                |&linmap::read::Visited { va, level, entry, .. }, entries| {
                    let Entry::Leaf(leaf) = entry else { return ControlFlow::Continue(()) };
                    let bytes = entries << geometry.level_shift(level);
                    let (first, behind) = (va.0.max(from), (va.0 + bytes).min(end));
                    let run = Pa(leaf.oa.0 + (first - va.0))..Pa(leaf.oa.0 + (behind - va.0));
                    let goes_on = runs.last_mut().filter(|last| last.end == run.start);
                    if let Some(last) = goes_on {
                        last.end = run.end;
                    } else if runs.try_push(run).is_err() {
                        next = first;
                        return ControlFlow::Break(());
                    }
                    ControlFlow::Continue(())
                },
            )
        });
        next
    }

    /// Maps a page of memory that has another owner, writable, at an address of its own, until it is
    /// [closed](Self::close).
    pub(crate) fn open(&self, pa: Pa) -> Result<Va, Error> {
        let va = self.take(1, pa)?;
        // SAFETY: memory of the same type; the caller answers for what is written to it.
        let mapped =
            unsafe { self.system.space.on(&self.system.platform()).map(va, 1, pa, Attributes::KERNEL_DATA) };
        if let Err(e) = mapped {
            TAKEN.with(|addresses| addresses.give(va));
            return Err(e.into());
        }
        Ok(va)
    }

    /// Unmaps a page that was opened.
    pub(crate) fn close(&self, va: Va) {
        // SAFETY: the caller does not use it any more. If it stays mapped, it keeps its address.
        if unsafe { self.system.space.on(&self.system.platform()).unmap(va, 1) }.is_ok() {
            TAKEN.with(|addresses| addresses.give(va));
        }
    }

    /// Returns the memory that an address is mapped to.
    pub(crate) fn backing(&self, va: Va) -> Option<Pa> {
        let mut runs = ArrayVec::new();
        self.runs(&mut runs, va.0, va.0 + 1);
        runs.first().map(|run| run.start)
    }

    /// Returns the number of allocations, those that wait included.
    pub(crate) fn taken() -> usize {
        TAKEN.with(|addresses| addresses.taken())
    }

    /// Changes permissions of a whole or a part of an allocation, and of its aliases as the library has it.
    pub(crate) fn change(&self, va: Va, pages: u64, what: Permission) -> Result<(), Error> {
        if !TAKEN.with(|addresses| addresses.change(va)) {
            return Err(Error::Map(ChangeError::Hole { va }));
        }
        let System { space, args, memory, .. } = self.system;
        let platform = self.system.platform();
        let mut aliased =
            Aliased::new(space.on(&platform).because(self.reason), memory.layout.offset(), args.rodata);
        // SAFETY: the pages are the caller's, who uses them as they become; nothing uses them by their aliases.
        parking::again(|| unsafe {
            match what {
                Permission::ReadOnly => aliased.set_memory_ro(va, pages),
                Permission::Writable => aliased.set_memory_rw(va, pages),
                Permission::Executable => aliased.set_memory_x(va, pages),
                Permission::NotExecutable => aliased.set_memory_nx(va, pages),
                Permission::Code => aliased.set_memory_rox(va, pages),
                Permission::Valid(valid) => aliased.set_memory_valid(va, pages, valid),
            }
        })
        .map_err(Error::Map)
    }
}

/// A change of permissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Permission {
    ReadOnly,
    Writable,
    Executable,
    NotExecutable,
    /// Read-only and executable at once, for code that has just been written.
    Code,
    Valid(bool),
}

/// Runs of memory to be given back, linked: each holds start and end of the next one.
struct Chain<'a> {
    area: &'a Area<'a>,
    first: Option<Range<Pa>>,
}

impl Chain<'_> {
    fn words(&self, run: &Range<Pa>) -> *mut [u64; 2] {
        core::ptr::with_exposed_provenance_mut(self.area.system.frames.reach().va(run.start).0 as usize)
    }

    fn add(&mut self, run: Range<Pa>) {
        let next = self.first.take().map_or([0; 2], |next| [next.start.0, next.end.0]);
        // SAFETY: memory that nothing uses, writable where the frame source reaches it, aligned.
        unsafe { self.words(&run).write_volatile(next) };
        self.first = Some(run);
    }

    fn give(mut self) {
        while let Some(run) = self.first.take() {
            // SAFETY: written by `add`.
            let [start, end] = unsafe { self.words(&run).read_volatile() };
            self.first = (end != 0).then_some(Pa(start)..Pa(end));
            // SAFETY: it is no longer mapped in the area, and was the area's alone.
            unsafe { self.area.system.frames.give_run(run) };
        }
    }
}
