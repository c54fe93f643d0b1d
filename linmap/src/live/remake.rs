//! Break-before-make of a range as one operation: it goes out, the caller's step is done, and it comes back as something else.
//!
//! The range is claimed from its survey until it is back, so that nobody else changes it meanwhile, and no repaint switches
//! to a copy of it. No lock is held during the step. What can fail comes before the first leaf goes out: the survey, table
//! pages, and the leaves that reach beyond the range, which are cut and translate as before. Then the leaves become
//! present-invalid, each by one store, and TLBs drop them (D8.17.1 RDDMVT). They come back by one store each: nothing is
//! invalidated then, since no TLB holds what faults (D8.17, IWZCBG).

use core::convert::Infallible;

use crate::format::{Descriptor, LeafChange, Remade, Span, Va};
use crate::live::attempt::Call;
use crate::live::ends::Ends;
use crate::live::error::{ChangeError, RemakeError};
use crate::live::lock_set::LockSet;
use crate::live::locked::{LeafVisitor, LiveVisitor, Locked};
use crate::live::map_state::MapState;
use crate::live::stop::Stop;
use crate::live::survey::Survey;
use crate::live::tlb_batch::TlbBatch;
use crate::platform::Platform;
use crate::read::{Table, visit_span};

/// Remakes a span, or does nothing; or, if the step fails, leaves it invalid.
///
/// # Errors
///
/// The remake is refused; a claim in the way; the step's error.
pub(crate) fn remake<P: Platform, E>(
    state: &MapState,
    platform: &P,
    (remade, span): (&Remade, Span),
    step: impl FnOnce() -> Result<(), E>,
) -> Result<(), RemakeError<E>> {
    let mut call = Call::new(state, platform);
    // The first survey, without a claim, tells whether there is anything to claim, and table pages to take.
    let found = survey(&mut call, remade, span)?;
    if !found.changes {
        return Ok(());
    }
    if found.leaves.splits {
        _ = call.frames(state.most_tables());
    }
    call.claim_all(&[span])?;
    let found = survey(&mut call, remade, span)?;
    cut(&mut call, span, &found.leaves)?;
    fits(&mut call, remade, span)?;
    let under_way = state.remakes.begin(platform, &[span]);
    let mut batch = TlbBatch::new();
    take_out(&mut call, span, &mut batch)?;
    call.last_hold(span, |locked| batch.finish(locked))?;
    if let Err(error) = step() {
        let pages = ((span.last - span.first) >> state.geometry().page_shift()) + 1;
        return Err(RemakeError::Step { va: Va(span.first), pages, error });
    }
    put_back(&mut call, remade, span)?;
    call.last_hold(span, |locked| TlbBatch::new().finish(locked))?;
    under_way.end();
    Ok(())
}

/// The findings of a survey.
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    /// True if some leaf is not yet what it shall be.
    pub(crate) changes: bool,
    /// The leaves that reach beyond the range.
    pub(crate) leaves: Survey,
}

/// Surveys a span: all of it must be mapped, and none may become both writable and executable.
///
/// # Errors
///
/// That is not so.
pub(crate) fn survey<P: Platform>(
    call: &mut Call<'_, P>,
    remade: &Remade,
    span: Span,
) -> Result<Found, ChangeError> {
    let mut surveyor = Surveyor { remade, span, found: Found::default() };
    call.pieces(span, |locked, piece| locked.visit_leaves(&locked.table_of(piece), piece, &mut surveyor))?;
    Ok(surveyor.found)
}

struct Surveyor<'r> {
    remade: &'r Remade,
    span: Span,
    found: Found,
}

impl<P: Platform> LeafVisitor<P> for Surveyor<'_> {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        let end = locked.alike(table, index, old, last);
        let Found { changes, leaves } = &mut self.found;
        // All of them go out, whatever they are. Refused are those that are no leaves.
        leaves.leaves(locked, (LeafChange::REMOVE, self.span), (table, index, end - 1), old)?;
        let new = |index: usize| {
            let old = locked.load(table, index);
            (old, self.remade.leaf(old, table.va(index), table.level))
        };
        let (first, made) = new(index);
        let refuses =
            LeafChange { refuse_write_execute: !locked.state.allows_write_execute(), ..LeafChange::NONE };
        if locked.refuses(refuses, made, table.va(index)) {
            let va = Va(table.va(index).max(self.span.first));
            return Err(ChangeError::WriteExecute { va }.into());
        }
        *changes = *changes || made != first || (index + 1..end).map(new).any(|(old, made)| made != old);
        Ok(end)
    }
}

/// Cuts the leaves that contain an end of a span, which translate as before. Takes an upper bound of table pages.
///
/// # Errors
///
/// The policy or the CPUs do not permit it; out of frames. Nothing has changed.
fn cut<P: Platform>(call: &mut Call<'_, P>, span: Span, found: &Survey) -> Result<(), ChangeError> {
    if !found.splits {
        return Ok(());
    }
    let end = |va| LockSet::of::<P>(Span { first: va, last: va });
    let cut = call.attempts_with(end(span.first).and(end(span.last)), span, |locked| {
        // What TLBs hold translates as before, and goes when the leaves in its place go out.
        Ends::cutting(locked, &LeafChange::REMOVE, (&locked.root(), span))
            .resize(found.resizes, &mut TlbBatch::new())?;
        // The next holder changes what is left of these leaves.
        locked.publish_barrier();
        Ok(())
    });
    cut.map(|_| ())
}

/// Checks that each leaf and run of a span, none of which reaches beyond it, can lead where it shall.
///
/// # Errors
///
/// One cannot, because of its size.
pub(crate) fn fits<P: Platform>(
    call: &mut Call<'_, P>,
    remade: &Remade,
    span: Span,
) -> Result<(), ChangeError> {
    if remade.fits_all_within(span) {
        return Ok(());
    }
    call.pieces(span, |locked, piece| {
        locked.visit_leaves(&locked.table_of(piece), piece, &mut Fits { remade })
    })
}

struct Fits<'r> {
    remade: &'r Remade,
}

impl<P: Platform> LeafVisitor<P> for Fits<'_> {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        let end = locked.alike(table, index, old, last);
        let leaf = table.run_of(index, locked.run(table, old).unwrap_or(1));
        match self.remade.misfit(leaf) {
            None => Ok(end),
            Some(oa) => {
                let (va, bytes) = (Va(leaf.first), leaf.last - leaf.first + 1);
                Err(ChangeError::Misfit { va, bytes, oa }.into())
            }
        }
    }
}

/// Makes the valid leaves of a span invalid, none of which reaches beyond it.
///
/// # Errors
///
/// None, since the span is claimed.
pub(crate) fn take_out<P: Platform>(
    call: &mut Call<'_, P>,
    span: Span,
    batch: &mut TlbBatch,
) -> Result<(), ChangeError> {
    call.pieces(span, |locked, piece| {
        let table = locked.table_of(piece);
        let Ok(()) = visit_span(locked, &table, piece, &mut Out { batch });
        locked.publish_barrier();
        Ok(())
    })
}

struct Out<'b> {
    batch: &'b mut TlbBatch,
}

impl<P: Platform> LiveVisitor<P> for Out<'_> {
    type Stop = Infallible;

    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Infallible> {
        let end = locked.alike(table, index, old, last);
        if old.is_valid() {
            // The same bits in all of them, which differ only in their addresses.
            let bits = old.0 ^ old.with_validity(false, table.level).0;
            for at in index..end {
                locked.store(table, at, Descriptor(locked.load(table, at).0 ^ bits));
            }
            self.batch.add(table.va(index), table.span_of(end - 1).last, table.shift);
        }
        Ok(end)
    }
}

/// Makes the leaves of a span valid as what they shall be. None of them is in a TLB.
///
/// # Errors
///
/// None, since the span is claimed.
pub(crate) fn put_back<P: Platform>(
    call: &mut Call<'_, P>,
    remade: &Remade,
    span: Span,
) -> Result<(), ChangeError> {
    call.pieces(span, |locked, piece| {
        let table = locked.table_of(piece);
        let Ok(()) = visit_span(locked, &table, piece, &mut Back { remade });
        locked.publish_barrier();
        Ok(())
    })
}

struct Back<'r> {
    remade: &'r Remade,
}

impl<P: Platform> LiveVisitor<P> for Back<'_> {
    type Stop = Infallible;

    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Infallible> {
        let end = locked.alike(table, index, old, last);
        for at in index..end {
            let new = self.remade.leaf(locked.load(table, at), table.va(at), table.level);
            locked.store(table, at, new);
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Tree;
    use crate::format::{
        Attributes, Change, Entry, Geometry, Granule, Half, MemoryType, OaFormat, Pa, Remake, Unaligned,
    };
    use crate::live::{AddressSpace, Remaking};
    use crate::plan::Policy;
    use crate::platform::host::HostMemory;

    const START: Va = Va(0xffff_0000_0000_0000);
    const NOT_CACHEABLE: Remake = Remake::memory_type(MemoryType::NORMAL_NC);

    fn page(n: u64) -> Va {
        Va(START.0 + (n << 12))
    }

    fn leaf(space: &AddressSpace, memory: &HostMemory, va: Va) -> (Pa, MemoryType, bool) {
        let Some((start, _, Entry::Leaf(leaf))) = space.entry(&memory.platform(), va) else { panic!("{va}") };
        (Pa(leaf.oa.0 + (va.0 - start.0)), leaf.attributes.memory_type(), leaf.valid)
    }

    fn map() -> (AddressSpace, HostMemory) {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
        let memory = HostMemory::new(g, 16);
        let tree = Tree::build(&memory.platform(), g, Half::Upper, core::iter::empty()).expect("a page");
        let space = AddressSpace::adopt(tree);
        space.set_policy(Policy::Live);
        // SAFETY: no CPU uses these tables.
        unsafe { space.map(&memory.platform(), START, 1024, Pa(0x4000_0000), Attributes::RAM) }
            .expect("mapped");
        (space, memory)
    }

    /// Others find the range claimed while the step runs, and not what is beside it.
    #[test]
    fn the_step_has_the_range_to_itself() {
        let (space, memory) = map();
        let p = memory.platform();
        let mut steps = 0;
        let step = || {
            steps += 1;
            assert_eq!(space.remaking(&p, page(7)), Some(Remaking::UnderWay));
            assert_eq!(space.remaking(&p, page(6)), None);
            assert_eq!(leaf(&space, &memory, page(7)), (Pa(0x4000_7000), MemoryType::NORMAL_TAGGED, false));
            assert!(leaf(&space, &memory, page(6)).2 && leaf(&space, &memory, page(9)).2);
            let busy = Err(ChangeError::Busy { va: page(8) });
            // SAFETY: no CPU uses these tables.
            unsafe {
                assert_eq!(space.protect(&p, page(8), 1, Change::READ_ONLY), busy);
                assert_eq!(space.protect(&p, page(9), 1, Change::READ_ONLY), Ok(()));
                let other = space.remake(&p, page(600), 1, NOT_CACHEABLE, || Err(5));
                assert_eq!(other, Err(RemakeError::Step { va: page(600), pages: 1, error: 5 }));
            }
            Ok::<(), Infallible>(())
        };
        // SAFETY: as above.
        assert_eq!(unsafe { space.remake(&p, page(7), 2, NOT_CACHEABLE, step) }, Ok(()));
        assert_eq!(steps, 1);
        assert_eq!(leaf(&space, &memory, page(8)), (Pa(0x4000_8000), MemoryType::NORMAL_NC, true));
        assert_eq!([7, 600].map(|n| space.remaking(&p, page(n))), [None, Some(Remaking::Failed)]);
    }

    /// Refused before the step.
    #[test]
    fn what_cannot_be_is_refused() {
        let (space, memory) = map();
        let p = memory.platform();
        let remake = |va, pages, remake| {
            // SAFETY: as above.
            let done = unsafe { space.remake(&p, va, pages, remake, || Err(())) };
            match done.expect_err("refused, or its step fails") {
                RemakeError::Refused(error) => Some(error),
                RemakeError::Step { .. } => None,
            }
        };
        let misfit = |n, bytes, oa| Some(ChangeError::Misfit { va: page(n), bytes, oa: Pa(oa) });
        let bits = Remake::address_bits;
        assert_eq!(remake(page(0), 512, bits(1 << 13, 0)), misfit(0, 2 << 20, 1 << 13));
        assert_eq!(
            remake(page(0), 512, Remake::to(Pa(0x5000_0000 + (1 << 12)))),
            misfit(0, 2 << 20, 0x5000_1000)
        );
        assert_eq!(remake(page(0), 1, bits(0, 1 << 5)), Some(Unaligned::Pa(Pa(1 << 5)).into()));
        let beyond = |oa, pages| Some(ChangeError::OutputAddress { oa: Pa(oa), pages, bits: 48 });
        assert_eq!(remake(page(0), 1, bits(1 << 48, 0)), beyond(1 << 48, 1));
        assert_eq!(remake(page(0), 2, Remake::to(Pa((1 << 48) - 4096))), beyond((1 << 48) - 4096, 2));
        assert_eq!(remake(page(1023), 2, NOT_CACHEABLE), Some(ChangeError::Hole { va: page(1024) }));
        space.set_policy(Policy::Fixed);
        let policy = Policy::Fixed;
        assert_eq!(
            remake(page(513), 1, NOT_CACHEABLE),
            Some(ChangeError::NeedsResize { va: page(512), policy })
        );
        // A whole block keeps its size.
        assert_eq!(remake(page(512), 512, NOT_CACHEABLE), None);
        assert_eq!(space.remaking(&p, page(1023)), Some(Remaking::Failed));
    }

    /// Pages of a block that became pages lead anywhere.
    #[test]
    fn pages_lead_elsewhere_and_back() {
        let (space, memory) = map();
        let p = memory.platform();
        space.split_to_pages(&p, page(3), 5).expect("frames enough");
        let to = |pa| {
            let step = || Ok::<(), Infallible>(());
            // SAFETY: as above.
            unsafe { space.remake(&p, page(3), 5, Remake::to(Pa(pa)), step) }
        };
        assert_eq!(to(0x1_2345_6000), Ok(()));
        assert_eq!(leaf(&space, &memory, page(7)), (Pa(0x1_2345_a000), MemoryType::NORMAL_TAGGED, true));
        assert_eq!(leaf(&space, &memory, page(8)).0, Pa(0x4000_8000));
        assert_eq!(to(0x4000_3000), Ok(()));
        assert_eq!(space.collapse(&p, page(3), 5), Ok(()));
        assert_eq!(space.stats(&p).tables, 3);
    }
}
