//! Break-before-make of an area as one operation: it goes out with its aliases, the caller's step is done, and both come back as
//! something else.
//!
//! Both are claimed together, from the survey until they are back. So nobody else changes them meanwhile, and no repaint switches to a copy
//! of them. No lock is held during the step. What can fail comes before the first leaf goes out: the survey, table pages, and the leaves
//! that reach beyond either side, which are cut and translate as before (`long.rs`).
//!
//! What becomes of a leaf depends on that leaf alone, so an alias that is found twice, or within the area, comes back as it
//! shall, too.
//!
//! Of an area with more aliases than can be claimed together the area alone is claimed. Its aliases go out and come back hold by
//! hold, and each hold invalidates what it has stored, so it leaves nothing to others.
//!
//! A fault handler asks about an address without a lock: the leaf says that a remake has taken it out, and a claim that the remake is under way.

use crate::alias::long::{Part, claim, each_aliases, survey};
use crate::alias::sides::Sides;
use crate::edit::{Call, ChangeError, Form, Guard, Live, OutOrBack, RemakeError, look, store};
use crate::format::{Remade, Remake, Span, Va};
use crate::platform::Platform;
use crate::share::Hold;

/// Why an address is invalid ([`Live::remaking`](crate::Live::remaking)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remaking {
    /// A remake is under way there, and its caller has yet to bring it back.
    UnderWay,
    /// The step of a remake failed there, which left it invalid.
    Failed,
}

impl<G: Form> Live<'_, G> {
    /// Changes the memory type of `pages` pages from `va` on, bits of their output addresses, or where they lead, by way of
    /// break-before-make (Arm ARM D8.17.1). Afterwards all of them are valid.
    ///
    /// Leaves that reach beyond the range are split. All of the range becomes present-invalid, and no TLB has it. Then `step`
    /// is called, without any lock: cache maintenance at another address, a realm's call to its monitor. Then the range
    /// comes back, each leaf by one store. A range that is already so costs its survey, and `step` is not called.
    ///
    /// Until this returns the range is claimed: others who change a part of it wait or are told [`ChangeError::Busy`], and so
    /// are `step`'s own changes there, in vain. Readers see present-invalid leaves. A fault handler asks
    /// [`remaking`](Live::remaking).
    ///
    /// # Errors
    ///
    /// [`RemakeError::Refused`]: a hole in the range; a range that is unaligned, outside the half, or not all of this map's;
    /// memory that would be both writable and executable; address bits within a leaf ([`ChangeError::Misfit`]), which
    /// [`split_to_pages`](Self::split_to_pages) remedies; address bits below the page size or beyond the descriptors' bits; out
    /// of frames; a leaf in use that would have to change its size although the policy or the CPUs do not permit it. Nothing
    /// has changed then, although leaves may have been split. [`RemakeError::Step`]: the step failed, and the range stays
    /// invalid.
    ///
    /// # Safety
    ///
    /// No CPU relies on these addresses until this returns: an access faults. The memory may be accessed as its new type and
    /// at its new address, and as all other addresses that map it have it: there are no mismatched memory types (B2.11).
    /// The platform is that of the tables, and `step` does not need the range.
    pub unsafe fn remake<E>(
        &mut self,
        va: Va,
        pages: u64,
        remake: Remake,
        step: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), RemakeError<E>> {
        let tables = self.tables();
        let Some(span) = tables.remade_span(va, pages, remake)? else { return Ok(()) };
        let remade = remake.of(span.first, tables.geometry());
        remake_both(&mut Call::new(self.caller), &Sides::alone(span), &remade, step)
    }
}

impl<P: Platform, const LOCKS: usize> Live<'_, Hold<'_, P, LOCKS>> {
    /// Returns whether an address is invalid because of a [`remake`](Self::remake): one that is under way, or one whose step
    /// failed. So a fault handler tells such a fault from others. `None` for an address that translates by now: the access may
    /// be tried again.
    ///
    /// The leaf itself says that it was taken out ([`Attributes::TAKEN_OUT`](crate::Attributes::TAKEN_OUT)), until it is valid again or unmapped. The address is
    /// looked up as readers do ([`Sharing::read`](crate::Sharing::read)), and no lock is taken besides. While a claim begins
    /// elsewhere, or a call of several groups is under way, an address whose step failed may be said to be under way.
    pub fn remaking(&self, va: Va) -> Option<Remaking> {
        let (tables, state) = (self.tables(), self.caller.owner.state);
        let look = || self.read(|reader| reader.descriptor(va));
        let (found, claimed) = state.claims.beside(&state.attention, Span { first: va.0, last: va.0 }, look);
        let (_, level, entry) = found?;
        let said = if claimed { Remaking::UnderWay } else { Remaking::Failed };
        (tables.is_leaf(entry, level) && entry.is_taken_out()).then_some(said)
    }
}

/// Remakes both sides, or does nothing; or, if the step fails, leaves both invalid.
///
/// # Errors
///
/// The remake is refused; a claim in the way; the step's error.
#[cold]
pub(crate) fn remake_both<G: Guard, E>(
    call: &mut Call<'_, G>,
    sides: &Sides,
    remade: &Remade,
    step: impl FnOnce() -> Result<(), E>,
) -> Result<(), RemakeError<E>> {
    let span = sides.span;
    // Without a claim: is there anything to take out?
    let seen = survey(call, sides)?;
    if !look_at_both(call, (sides, false), &seen.part, remade)? {
        return Ok(());
    }
    let kept = call.guard.keeps_cuts();
    let part = claim(call, sides, seen)?;
    let are_claimed = part.area == span;
    // Nobody merges what is claimed.
    let _kept = (!are_claimed).then_some(kept);
    // Another caller may have done it meanwhile.
    if !look_at_both(call, (sides, true), &part, remade)? {
        return Ok(());
    }
    let mut out = OutOrBack::out(are_claimed);
    each_aliases(call, sides, &part, |call, aliases| store(call, &mut out, aliases, false))?;
    store(call, &mut OutOrBack::out(true), &[span], false)?;
    if let Err(error) = step() {
        let pages = ((span.last - span.first) >> call.tables().geometry().page_shift()) + 1;
        return Err(RemakeError::Step { va: Va(span.first), pages, error });
    }
    let mut back = OutOrBack::back(remade);
    // The aliases first: they are found by the area.
    each_aliases(call, sides, &part, |call, aliases| store(call, &mut back, aliases, false))?;
    store(call, &mut back, &[span], false)?;
    Ok(())
}

/// Looks at both sides. Returns true if some leaf is not yet what it shall be.
///
/// # Errors
///
/// As for [`look`].
fn look_at_both<G: Guard>(
    call: &mut Call<'_, G>,
    (sides, are_cut): (&Sides, bool),
    part: &Part,
    remade: &Remade,
) -> Result<bool, ChangeError> {
    let mut changes = look(call, remade, (sides.span, are_cut))?;
    each_aliases(call, sides, part, |call, aliases| {
        aliases.iter().try_for_each(|alias| {
            changes |= look(call, remade, (*alias, are_cut))?;
            Ok(())
        })
    })?;
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use super::*;
    use crate::build::Tree;
    use crate::format::{
        Attributes, Change, Entry, Geometry, Granule, Half, Level, MemoryType, OaFormat, Pa, Remake,
        Unaligned,
    };
    use crate::plan::Policy;
    use crate::platform::host::HostMemory;
    use crate::share::SharedSpace;
    use crate::tests::geometries;
    use test_support::prelude::*;
    extern crate std;
    use std::vec::Vec;

    const START: Va = Va(0xffff_0000_0000_0000);
    const NOT_CACHEABLE: Remake = Remake::memory_type(MemoryType::NORMAL_NC);

    fn page(n: u64) -> Va {
        Va(START.0 + (n << 12))
    }

    fn leaf(space: &SharedSpace, memory: &HostMemory, va: Va) -> (Pa, MemoryType, bool) {
        let Some((start, _, Entry::Leaf(leaf))) =
            space.on(&memory.platform()).read(|reader| reader.entry(va))
        else {
            panic!("{va}")
        };
        (Pa(leaf.oa.0 + (va.0 - start.0)), leaf.attributes.memory_type(), leaf.valid)
    }

    fn map() -> (SharedSpace, HostMemory) {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
        let memory = HostMemory::new(g, 16);
        let tree = Tree::build(&memory.platform(), g, Half::Upper, core::iter::empty()).expect("a page");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&memory.platform()).map(START, 1024, Pa(0x4000_0000), Attributes::RAM) }
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
            assert_eq!(space.on(&p).remaking(page(7)), Some(Remaking::UnderWay));
            assert_eq!(space.on(&p).remaking(page(6)), None);
            assert_eq!(leaf(&space, &memory, page(7)), (Pa(0x4000_7000), MemoryType::NORMAL_TAGGED, false));
            assert!(leaf(&space, &memory, page(6)).2 && leaf(&space, &memory, page(9)).2);
            let busy = Err(ChangeError::Busy { va: page(8) });
            // SAFETY: no CPU uses these tables.
            unsafe {
                assert_eq!(space.on(&p).protect(page(8), 1, Change::READ_ONLY), busy);
                assert_eq!(space.on(&p).protect(page(9), 1, Change::READ_ONLY), Ok(()));
                let other = space.on(&p).remake(page(600), 1, NOT_CACHEABLE, || Err(5));
                assert_eq!(other, Err(RemakeError::Step { va: page(600), pages: 1, error: 5 }));
            }
            assert_eq!(
                space.on(&p).remaking(page(600)),
                Some(Remaking::Failed),
                "although this one is under way"
            );
            Ok::<(), Infallible>(())
        };
        // SAFETY: as above.
        assert_eq!(unsafe { space.on(&p).remake(page(7), 2, NOT_CACHEABLE, step) }, Ok(()));
        assert_eq!(steps, 1);
        assert_eq!(leaf(&space, &memory, page(8)), (Pa(0x4000_8000), MemoryType::NORMAL_NC, true));
        assert_eq!([7, 600].map(|n| space.on(&p).remaking(page(n))), [None, Some(Remaking::Failed)]);
    }

    /// Refused before the step.
    #[test]
    fn what_cannot_be_is_refused() {
        let (space, memory) = map();
        let p = memory.platform();
        let remake = |va, pages, remake| {
            // SAFETY: as above.
            let done = unsafe { space.on(&p).remake(va, pages, remake, || Err(())) };
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
        assert_eq!(space.on(&p).remaking(page(1023)), Some(Remaking::Failed));
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
            let done = unsafe { space.on(&p).remake(page(n), pages, remake, step) };
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
        space.on(&p).split_to_pages(page(3), 5).expect("frames enough");
        let to = |pa| {
            let step = || Ok::<(), Infallible>(());
            // SAFETY: as above.
            unsafe { space.on(&p).remake(page(3), 5, Remake::to(Pa(pa)), step) }
        };
        assert_eq!(to(0x1_2345_6000), Ok(()));
        assert_eq!(leaf(&space, &memory, page(7)), (Pa(0x1_2345_a000), MemoryType::NORMAL_TAGGED, true));
        assert_eq!(leaf(&space, &memory, page(8)).0, Pa(0x4000_8000));
        assert_eq!(to(0x4000_3000), Ok(()));
        assert_eq!(space.on(&p).collapse(page(3), 5), Ok(()));
        assert_eq!(space.on(&p).stats().tables, 3);
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
            let space = SharedSpace::adopt(tree);
            space.set_policy(Policy::Live);
            let va = |n: u64| Va(start + (n << shift));
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&p).map(Va(start), pages, Pa(1 << 40), Attributes::RAM) }.expect("room");
            let mut expected: Vec<(u64, MemoryType)> =
                (0..pages).map(|n| ((1 << 40) + (n << shift), MemoryType::NORMAL_TAGGED)).collect();
            let part = |(first, count): (u64, u64)| (first % pages, 1 + count % (pages - first % pages));
            for case in cases {
                let (first, count) = part(case.split);
                space.on(&p).split_to_pages(va(first), count).expect("mapped");
                let (first, count) = part(case.collapse);
                space.on(&p).collapse(va(first), count).expect("mapped");
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
                match unsafe { space.on(&p).remake(va(first), count, remake, step) } {
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
                        let Some((at, _, Entry::Leaf(leaf))) = space.on(&p).read(|reader| reader.entry(va(n))) else { panic!("{n}") };
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
