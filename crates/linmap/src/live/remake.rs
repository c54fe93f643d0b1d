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
    if found.leaves.splits() {
        _ = call.frames(state.most_tables());
    }
    call.claim_all([span].into_iter())?;
    let found = survey(&mut call, remade, span)?;
    cut(&mut call, span, &found.leaves)?;
    fits(&mut call, remade, span)?;
    let mut batch = TlbBatch::new();
    take_out(&mut call, (span, true), &mut batch)?;
    call.last_hold(span, |locked| batch.finish(locked))?;
    if let Err(error) = step() {
        let pages = ((span.last - span.first) >> state.geometry().page_shift()) + 1;
        return Err(RemakeError::Step { va: Va(span.first), pages, error });
    }
    put_back(&mut call, remade, span)?;
    call.last_hold(span, |locked| TlbBatch::new().finish(locked))?;
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
        let end = locked.slots(table).alike((index, last), old);
        let Found { changes, leaves } = &mut self.found;
        // All of them go out, whatever they are. Refused are those that are no leaves.
        leaves.leaves(locked, (LeafChange::REMOVE, self.span), (table, index, end - 1), old)?;
        let made = self.remade.leaf(old, table.va(index), table.level);
        let refuses =
            LeafChange { refuse_write_execute: !locked.state.allows_write_execute(), ..LeafChange::NONE };
        if locked.refuses(refuses, made, table.va(index)) {
            let va = Va(table.va(index).max(self.span.first));
            return Err(ChangeError::WriteExecute { va }.into());
        }
        let is_made = |index: usize| {
            let leaf = table.span_of(index);
            let part = Span { first: leaf.first.max(self.span.first), last: leaf.last.min(self.span.last) };
            self.remade.is_made(locked.load(table, index), table.level, leaf, part)
        };
        *changes = *changes || !(index..end).all(is_made);
        Ok(end)
    }
}

/// Cuts the leaves that contain an end of a span, which translate as before. Takes an upper bound of table pages.
///
/// # Errors
///
/// The policy or the CPUs do not permit it; out of frames. Nothing has changed.
fn cut<P: Platform>(call: &mut Call<'_, P>, span: Span, found: &Survey) -> Result<(), ChangeError> {
    if !found.splits() {
        return Ok(());
    }
    call.attempts_at_ends(span, |locked| {
        // What TLBs hold translates as before, and goes when the leaves in its place go out.
        Ends::cutting(locked, (&LeafChange::REMOVE, &[]), (&locked.root(), span))
            .resize(found.resizes, &mut TlbBatch::new())?;
        // The next holder changes what is left of these leaves.
        locked.publish_barrier();
        Ok(())
    })
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
        let end = locked.slots(table).alike((index, last), old);
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

/// Makes the leaves of a span invalid, none of which reaches beyond it, and says in each that it was taken out. If the span is not
/// claimed, TLBs have dropped them when each hold ends: the next holder may rely on it.
///
/// # Errors
///
/// None, since the span is claimed, or claims do not count.
pub(crate) fn take_out<P: Platform>(
    call: &mut Call<'_, P>,
    (span, is_claimed): (Span, bool),
    batch: &mut TlbBatch,
) -> Result<(), ChangeError> {
    call.pieces(span, |locked, piece| {
        let table = locked.table_of(piece);
        let Ok(()) = visit_span(locked, &table, piece, &mut Out { batch });
        if is_claimed {
            locked.publish_barrier();
        } else {
            core::mem::replace(batch, TlbBatch::new()).finish(locked);
        }
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
        let end = locked.slots(table).alike((index, last), old);
        // The same bits in all of them, which differ only in their addresses.
        let bits = old.0 ^ old.taken_out().0;
        if bits != 0 && old.is_leaf(locked.geometry, table.level) {
            for at in index..end {
                locked.store(table, at, Descriptor(locked.load(table, at).0 ^ bits));
            }
        }
        if old.is_valid() {
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
        let end = locked.slots(table).alike((index, last), old);
        if old.is_leaf(locked.geometry, table.level) {
            for at in index..end {
                let new = self.remade.leaf(locked.load(table, at), table.va(at), table.level);
                locked.store(table, at, new);
            }
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Tree;
    use crate::format::{
        Attributes, Change, Entry, Geometry, Granule, Half, Level, MemoryType, OaFormat, Pa, Remake,
        Unaligned,
    };
    use crate::live::{AddressSpace, Remaking};
    use crate::plan::Policy;
    use crate::platform::host::HostMemory;
    use crate::tests::geometries;
    use test_support::prelude::*;
    extern crate std;
    use std::vec::Vec;

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

    /// A part of a block leads elsewhere within the same block, and by a bit within it.
    #[test]
    fn less_than_the_size_of_a_block_is_elsewhere() {
        let (space, memory) = map();
        let p = memory.platform();
        let mut steps = 0;
        let mut remake = |n, pages, remake| {
            let step = || {
                steps += 1;
                Ok::<(), Infallible>(())
            };
            // SAFETY: no CPU uses these tables.
            let done = unsafe { space.remake(&p, page(n), pages, remake, step) };
            (done, core::mem::take(&mut steps))
        };
        let misfit = |oa| ChangeError::Misfit { va: page(0), bytes: 2 << 20, oa: Pa(oa) };
        assert_eq!(remake(0, 512, Remake::to(Pa(0x4000_1000))), (Err(misfit(0x4000_1000).into()), 0));
        assert_eq!(remake(0, 512, Remake::address_bits(0, 1 << 13)), (Err(misfit(1 << 13).into()), 0));
        assert_eq!(remake(3, 1, Remake::to(Pa(0x4000_3000))), (Ok(()), 0), "it is there");
        assert_eq!(remake(3, 1, Remake::address_bits(3 << 12, 1 << 14)), (Ok(()), 0), "they are so");
        assert_eq!(remake(3, 1, Remake::to(Pa(0x4000_7000))), (Ok(()), 1));
        assert_eq!(leaf(&space, &memory, page(3)).0, Pa(0x4000_7000));
        assert_eq!(remake(512 + 3, 2, Remake::address_bits(0, 1 << 12)), (Ok(()), 1));
        let pages = [3, 4].map(|n| leaf(&space, &memory, page(512 + n)).0);
        assert_eq!(pages, [Pa(0x4020_2000), Pa(0x4020_4000)]);
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

    /// The steps of a property on a range of two blocks, before a remake and by it.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        /// Parts of the range that are split and merged before it.
        split: (u64, u64),
        collapse: (u64, u64),
        part: (u64, u64),
        /// The number of pages by which it leads elsewhere, if it does.
        to: Option<i64>,
        set: u64,
        clear: u64,
        memory_type: Option<MemoryType>,
    }

    fn any_case() -> impl Strategy<Value = Case> {
        let part = || (any::<u64>(), prop_oneof![1u64..20, any::<u64>()]);
        let by = prop_oneof![Just(0), -20i64..20, (-3i64..3).prop_map(|blocks| blocks << 13)];
        let bits = || prop_oneof![Just(0u64), (0u32..16).prop_map(|bit| 1 << bit), 0u64..1 << 15];
        let types = prop_oneof![Just(MemoryType::NORMAL), Just(MemoryType::NORMAL_NC)];
        let (to, memory_type) = (proptest::option::of(by), proptest::option::weighted(0.25, types));
        (part(), part(), part(), to, bits(), bits(), memory_type).prop_map(
            |(split, collapse, part, to, set, clear, memory_type)| Case {
                split,
                collapse,
                part,
                to,
                set,
                clear,
                memory_type,
            },
        )
    }

    proptest! {
        /// Each page of the range translates to where the remake says, or it was refused and nothing has changed: a larger leaf
        /// could not lead there. The step was called if any page changed, and for nothing else.
        #[test]
        fn each_page_leads_where_it_shall(which: u64, cases in proptest::collection::vec(any_case(), 1..8)) {
            let all: Vec<Geometry> = geometries().into_iter().filter(|g| g.va_bits() == 48).collect();
            let g = all[(which % all.len() as u64) as usize];
            let (shift, block) = (g.page_shift(), g.level_size(Level::new(2)));
            let (start, pages) = (g.base(Half::Upper), (2 * block) >> shift);
            let memory = HostMemory::new(g, 16);
            let p = memory.platform();
            let tree = Tree::build(&p, g, Half::Upper, core::iter::empty()).expect("a page");
            let space = AddressSpace::adopt(tree);
            space.set_policy(Policy::Live);
            let va = |n: u64| Va(start + (n << shift));
            // SAFETY: no CPU uses these tables.
            unsafe { space.map(&p, Va(start), pages, Pa(1 << 40), Attributes::RAM) }.expect("room");
            let mut expected: Vec<(u64, MemoryType)> =
                (0..pages).map(|n| ((1 << 40) + (n << shift), MemoryType::NORMAL_TAGGED)).collect();
            let part = |(first, count): (u64, u64)| (first % pages, 1 + count % (pages - first % pages));
            for case in cases {
                let (first, count) = part(case.split);
                space.split_to_pages(&p, va(first), count).expect("mapped");
                let (first, count) = part(case.collapse);
                space.collapse(&p, va(first), count).expect("mapped");
                let (first, count) = part(case.part);
                let range = first as usize..(first + count) as usize;
                let (set, clear) = (case.set << shift, case.clear << shift);
                let to = case.to.map(|by| expected[range.start].0.wrapping_add_signed(by << shift));
                let leads = to.map_or(Remake::address_bits(set, clear), |to| Remake::to(Pa(to)));
                let remake = case.memory_type.map_or(Remake::NONE, Remake::memory_type).and(leads);
                let mut after = expected.clone();
                for (n, page) in after[range.clone()].iter_mut().enumerate() {
                    let pa = to.map_or(page.0 & !clear | set, |to| to + ((n as u64) << shift));
                    *page = (pa, case.memory_type.unwrap_or(page.1));
                }
                let mut steps = 0;
                let step = || {
                    steps += 1;
                    Ok::<(), Infallible>(())
                };
                // SAFETY: no CPU uses these tables.
                match unsafe { space.remake(&p, va(first), count, remake, step) } {
                    Ok(()) => {
                        prop_assert_eq!(steps, u32::from(after != expected), "{:x?}", case);
                        expected = after;
                    }
                    Err(RemakeError::Refused(ChangeError::Misfit { va: at, bytes, .. })) => {
                        prop_assert!(steps == 0 && after != expected && bytes > g.page_size());
                        prop_assert!(at >= va(first) && at.0 + bytes <= va(first + count).0);
                        let n = ((at.0 - start) >> shift) as usize;
                        let offsets = (0..bytes >> shift).map(|page| after[n + page as usize].0.wrapping_sub(page << shift));
                        let in_a_row = offsets.clone().all(|offset| offset == after[n].0);
                        prop_assert!(!in_a_row || after[n].0 & (bytes - 1) != 0, "it would fit");
                    }
                    Err(error) => prop_assert!(false, "{:?} for {:x?}", error, case),
                }
                let found: Vec<(u64, MemoryType)> = (0..pages)
                    .map(|n| {
                        let Some((at, _, Entry::Leaf(leaf))) = space.entry(&p, va(n)) else { panic!("{n}") };
                        assert!(leaf.valid);
                        (leaf.oa.0 + (va(n).0 - at.0), leaf.attributes.memory_type())
                    })
                    .collect();
                let differs = (0..pages as usize).find(|&n| found[n] != expected[n]);
                prop_assert_eq!(differs.map(|n| (n, found[n], expected[n])), None, "{:x?}", case);
            }
        }
    }
}
