//! TLB invalidation: the operations, their encoding, and the operations that cover a range of pages.
//!
//! Pure: an invalidation is a value; [`Hardware::tlbi`](crate::Hardware::tlbi) issues it. All are broadcast to the
//! inner shareable domain. Invalidations by address match every ASID: one that matches a single ASID can miss a cached
//! table descriptor, which need not be global (Arm ARM D8.17.5.4, RVMSWQ).
//!
//! No invalidation has a level hint. TTL is 0, "any level" (tables D8-123 and D8-124): after a split the old block may
//! still be cached, and an invalidation with a wrong hint has no effect (RSQXYZ).

use crate::format::address::Va;
use crate::format::geometry::{Geometry, OaFormat};

/// The cached entries of an address that an invalidation drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The leaf alone. Sufficient where no table descriptor changed.
    LastLevel,
    /// The leaf and every table descriptor on the path to it. Required before a table page is freed.
    AnyLevel,
}

/// A TLB invalidation, on all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tlbi {
    /// All entries of EL1 (VMALLE1IS).
    All,
    /// The entry that translates this address, whatever its size (VAAE1IS, VAALE1IS).
    ///
    /// The members of a contiguous run may be separate entries: issue one invalidation for each.
    Page(Va, Scope),
    /// The entries that translate any page of a range (RVAAE1IS, RVAALE1IS; FEAT_TLBIRANGE).
    Range {
        /// The first page. With [`OaFormat::Lpa2`] it should be aligned to 64K; otherwise the range starts at the 64K
        /// boundary below.
        from: Va,
        /// The number of pages.
        pages: RangePages,
        /// The cached entries that are dropped for each page.
        scope: Scope,
    },
    /// An invalidation of no particular address (VALE1IS of address 0 and ASID 0), issued for the DSB that follows it:
    /// see [`Features::needs_repeated_tlbi`](crate::cpu::Features::needs_repeated_tlbi).
    Repeat,
}

/// The TLBI instructions, by the names of their operations (C5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// TLBI VMALLE1IS, which takes no operand.
    Vmalle1is,
    /// TLBI VAAE1IS.
    Vaae1is,
    /// TLBI VAALE1IS.
    Vaale1is,
    /// TLBI RVAAE1IS.
    Rvaae1is,
    /// TLBI RVAALE1IS.
    Rvaale1is,
    /// TLBI VALE1IS.
    Vale1is,
}

/// A number of pages that one [`Tlbi::Range`] can express: (NUM + 1) * 2^(5 * SCALE + 1), with NUM up to 31 and SCALE
/// up to 3 (D8.17.5.2). These are 2 to 64 in steps of 2, up to 2048 in steps of 64, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangePages {
    num: u8,
    scale: u8,
}

impl RangePages {
    /// The largest such number.
    const MOST: u64 = Self { num: 31, scale: 3 }.count();

    /// Returns the largest such number that is at most `pages`, or `None` if `pages` is below 2.
    pub const fn at_most(pages: u64) -> Option<Self> {
        let pairs = pages / 2;
        if pairs == 0 {
            return None;
        }
        let digit = pairs.ilog2() / 5;
        let scale = if digit > 3 { 3 } else { digit };
        let times = pairs >> (5 * scale);
        let num = if times > 32 { 31 } else { times - 1 };
        Some(Self { num: num as u8, scale: scale as u8 })
    }

    /// Returns the number of pages.
    pub const fn count(self) -> u64 {
        (self.num as u64 + 1) << (5 * self.scale + 1)
    }
}

/// Bits 43:0 of an operand: VA\[55:12\], for every granule (IZVNJG).
const VA: u64 = (1 << 44) - 1;
/// Bits 36:0 of the operand of a range: BaseADDR (IQPHNP).
const BASE: u64 = (1 << 37) - 1;

/// The alignment of the start of a range with LPA2, in bytes.
const LPA2_ALIGNMENT: u64 = 64 << 10;

impl Tlbi {
    /// The largest number of invalidations that cover a range. A range that needs more is covered by [`Tlbi::All`].
    ///
    /// It counts invalidations, not pages: each is a message to all CPUs, whatever it covers. Linux has the same limit
    /// with 4K pages (MAX_DVM_OPS is 512, the first number that is too large). The limit bounds the time that a batch
    /// takes; it is not derived from a measurement.
    pub const BREAK_EVEN: usize = 511;

    /// Returns the instruction and its operand.
    ///
    /// ```
    /// use linmap::arch::{Instruction, Scope, Tlbi};
    /// use linmap::{Geometry, Granule, OaFormat, Va};
    ///
    /// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
    /// let page = Tlbi::Page(Va(0xffff_8000_1234_5000), Scope::LastLevel);
    /// assert_eq!(page.encode(g), (Instruction::Vaale1is, 0x0ff8_0001_2345));
    /// # Ok::<(), linmap::error::GeometryError>(())
    /// ```
    #[inline]
    pub const fn encode(self, geometry: Geometry) -> (Instruction, u64) {
        match self {
            Self::All => (Instruction::Vmalle1is, 0),
            Self::Page(va, scope) => {
                let instruction = match scope {
                    Scope::LastLevel => Instruction::Vaale1is,
                    Scope::AnyLevel => Instruction::Vaae1is,
                };
                // Hardware takes bits 63:56 from bit 55 (RJGGKN); in the operand that field holds a TTL.
                (instruction, (va.0 & !(geometry.page_size() - 1)) >> 12 & VA)
            }
            Self::Range { from, pages, scope } => {
                let instruction = match scope {
                    Scope::LastLevel => Instruction::Rvaale1is,
                    Scope::AnyLevel => Instruction::Rvaae1is,
                };
                // 1 for 4K, 2 for 16K, 3 for 64K: computed, as this stands where each range is issued.
                let granule = (geometry.page_shift() as u64 - 10) / 2;
                let base = match geometry.oa_format() {
                    OaFormat::Lpa2 => from.0 / LPA2_ALIGNMENT,
                    OaFormat::Bits48 | OaFormat::Lpa => from.0 >> geometry.page_shift(),
                };
                let RangePages { num, scale } = pages;
                (instruction, granule << 46 | (scale as u64) << 44 | (num as u64) << 39 | base & BASE)
            }
            Self::Repeat => (Instruction::Vale1is, 0),
        }
    }

    /// Returns the only invalidation that [`cover`](Self::cover) returns, if it names exactly these pages, or all of them are in one
    /// entry. There is at least one page, none is beyond the end of the address space, and no entry is smaller than a page.
    #[inline(always)]
    pub(crate) fn single(
        geometry: Geometry,
        first: Va,
        pages: u64,
        entry_shift: u32,
        scope: Scope,
        range_tlbi: bool,
    ) -> Option<Self> {
        let last = first.0 + ((pages << geometry.page_shift()) - 1);
        if (first.0 ^ last) >> entry_shift == 0 {
            return Some(Self::Page(first, scope));
        }
        let may_start = geometry.oa_format() != OaFormat::Lpa2 || first.0.is_multiple_of(LPA2_ALIGNMENT);
        let pages = RangePages::at_most(pages).filter(|range| range.count() == pages)?;
        (range_tlbi && may_start).then_some(Self::Range { from: first, pages, scope })
    }

    /// Returns the invalidations that cover `pages` pages from `first` on, or one [`Tlbi::All`] if there would be more
    /// than [`Tlbi::BREAK_EVEN`].
    ///
    /// `entry_shift` is log2 of the size in bytes of the smallest entry that a TLB can hold for the range. When a block
    /// was split or pages became a block, that is the smaller of the old and the new size; in a contiguous run, the
    /// size of a member ([`LeafSize::entry_shift`](crate::arch::LeafSize::entry_shift)). A size below the page size counts as
    /// the page size.
    ///
    /// Without range instructions there is one invalidation for each entry. With them (`range_tlbi`) each covers as
    /// many pages as possible, up to 2M pages, followed by at most 4 more, the last for an odd page. With
    /// [`OaFormat::Lpa2`], single pages come first, up to a multiple of 64K.
    ///
    /// No invalidation names an address outside the range or beyond the end of the address space.
    #[inline(always)]
    pub fn cover(
        geometry: Geometry,
        first: Va,
        pages: u64,
        entry_shift: u32,
        scope: Scope,
        range_tlbi: bool,
    ) -> impl Iterator<Item = Self> + Clone {
        let page_shift = geometry.page_shift();
        let at = first.0 >> page_shift;
        let end = at.saturating_add(pages).min(1 << (64 - page_shift));
        let entry_pages = 1 << (entry_shift.clamp(page_shift, 63) - page_shift);
        let mut each = Each { geometry, at, end, entry_pages, scope, range_tlbi };
        let all = each.is_long().then_some(Self::All);
        if all.is_some() {
            each.at = each.end;
        }
        all.into_iter().chain(each)
    }
}

/// Iterator over the invalidations of a range, without an upper limit on their number.
#[derive(Clone)]
struct Each {
    geometry: Geometry,
    /// The number of the first page that is not yet covered.
    at: u64,
    /// The number of the page after the last.
    end: u64,
    /// The number of pages of each entry, a power of 2.
    entry_pages: u64,
    scope: Scope,
    range_tlbi: bool,
}

impl Each {
    /// Returns the number of the first page after the entry that contains `page`.
    fn behind_entry(&self, page: u64) -> u64 {
        (page | (self.entry_pages - 1)) + 1
    }

    /// Returns true if there are more than [`Tlbi::BREAK_EVEN`].
    #[inline]
    fn is_long(&self) -> bool {
        if self.range_tlbi {
            // Single pages up to a multiple of 64K, and one range for each digit of their number.
            return self.end - self.at > RangePages::MOST && self.clone().nth(Tlbi::BREAK_EVEN).is_some();
        }
        let entries = self.entry_pages.trailing_zeros();
        self.at < self.end && ((self.end - 1) >> entries) - (self.at >> entries) >= Tlbi::BREAK_EVEN as u64
    }

    /// Returns the range that starts here. Returns `None` if no range may start here or only one entry is left.
    fn range(&self) -> Option<RangePages> {
        let from = self.at << self.geometry.page_shift();
        let aligned = self.geometry.oa_format() != OaFormat::Lpa2 || from.is_multiple_of(LPA2_ALIGNMENT);
        let several = self.behind_entry(self.at) < self.end;
        if self.range_tlbi && aligned && several { RangePages::at_most(self.end - self.at) } else { None }
    }
}

impl Iterator for Each {
    type Item = Tlbi;

    fn next(&mut self) -> Option<Tlbi> {
        if self.at >= self.end {
            return None;
        }
        let (from, scope) = (Va(self.at << self.geometry.page_shift()), self.scope);
        let (op, last) = match self.range() {
            Some(pages) => (Tlbi::Range { from, pages, scope }, self.at + pages.count() - 1),
            None => (Tlbi::Page(from, scope), self.at),
        };
        // An entry is dropped as a whole, even if only a part of it is named.
        self.at = self.behind_entry(last);
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::geometry::{Granule, Half};
    use crate::tests::geometries;
    use Instruction::*;
    use test_support::prelude::*;
    extern crate std;
    use std::vec::Vec;

    /// Returns bits `high` to `low` of an operand.
    fn bits(operand: u64, high: u32, low: u32) -> u64 {
        operand << (63 - high) >> (63 - high + low)
    }

    /// Returns the address whose bits from `low` on are this field, `width` bits wide.
    fn address(field: u64, width: u32, low: u32) -> u64 {
        ((field << (64 - width)) as i64 >> (64 - width) << low) as u64
    }

    /// Decodes an invalidation as the manual describes it (D8.17.5.1, D8.17.5.2): scope, first address and number of
    /// pages.
    fn decode((instruction, operand): (Instruction, u64), g: Geometry) -> (Scope, u64, u64) {
        // No ASID.
        assert_eq!(bits(operand, 63, 48), 0, "{operand:#x}");
        let scope = match instruction {
            Vaae1is | Rvaae1is => Scope::AnyLevel,
            Vaale1is | Rvaale1is => Scope::LastLevel,
            Vmalle1is | Vale1is => panic!("{instruction:?} names no address"),
        };
        if let Vaae1is | Vaale1is = instruction {
            // No TTL; the bits below a page are RES0.
            assert_eq!(bits(operand, 47, 44), 0, "{operand:#x}");
            let va = address(bits(operand, 43, 0), 44, 12);
            assert!(va.is_multiple_of(g.page_size()), "{operand:#x}");
            return (scope, va, 1);
        }
        let granule = [None, Some(Granule::K4), Some(Granule::K16), Some(Granule::K64)];
        assert_eq!(granule[bits(operand, 47, 46) as usize], Some(g.granule()));
        assert_eq!(bits(operand, 38, 37), 0, "a level hint in {operand:#x}");
        let low = match (g.granule(), g.oa_format()) {
            (_, OaFormat::Lpa2) | (Granule::K64, _) => 16,
            (Granule::K4, _) => 12,
            (Granule::K16, _) => 14,
        };
        let (scale, num) = (bits(operand, 45, 44), bits(operand, 43, 39));
        (scope, address(bits(operand, 36, 0), 37, low), (num + 1) * 2u64.pow(5 * scale as u32 + 1))
    }

    /// Returns the number of invalidations by range that make up `pages` pages, the odd page included: one for each
    /// base-32 digit of the number of pairs of pages, and one for each 2M pages.
    fn ranges(pages: u64) -> u64 {
        let digits = [1, 6, 11].map(|low| u64::from(bits(pages, low + 4, low) != 0));
        (pages >> 16).div_ceil(32) + digits.iter().sum::<u64>() + pages % 2
    }

    #[test]
    fn operands_are_those_of_the_manual() {
        use {Granule::*, OaFormat::*, Scope::*};
        let va = Va(0xffff_8000_0020_0000);
        let range = |scope| Tlbi::Range { from: va, pages: RangePages::at_most(512).unwrap(), scope };
        let page = 0x0ff8_0000_0200;
        let rows = [
            (K4, Bits48, 0x5398_0000_0200),
            (K4, Lpa2, 0x539f_8000_0020),
            (K16, Bits48, 0x939e_0000_0080),
            (K16, Lpa2, 0x939f_8000_0020),
            (K64, Bits48, 0xd39f_8000_0020),
            (K64, Lpa, 0xd39f_8000_0020),
        ];
        for (granule, oa, operand) in rows {
            let Ok(g) = Geometry::new(granule, 48, oa) else { continue };
            assert_eq!(range(LastLevel).encode(g), (Rvaale1is, operand), "{g:?}");
            assert_eq!(range(AnyLevel).encode(g), (Rvaae1is, operand), "{g:?}");
            assert_eq!(Tlbi::Page(va, LastLevel).encode(g), (Vaale1is, page), "{g:?}");
            assert_eq!(Tlbi::Page(va, AnyLevel).encode(g), (Vaae1is, page), "{g:?}");
            assert_eq!(Tlbi::All.encode(g), (Vmalle1is, 0));
            assert_eq!(Tlbi::Repeat.encode(g), (Vale1is, 0));
        }
    }

    proptest! {
        /// A single invalidation is found without counting.
        #[test]
        fn a_single_invalidation_is_that_of_a_cover(page: u64, pages in 1_u64..5000, entry in 0_u32..40, range: bool, even: bool) {
            for g in geometries() {
                let (page_shift, all) = (g.page_shift(), 1 << (g.va_bits() - g.page_shift()));
                let pages = if even { pages.next_power_of_two() } else { pages };
                let first = Va(g.base(Half::Upper) + ((page % (all - pages)) << page_shift));
                let of = |scope| (
                    Tlbi::cover(g, first, pages, entry, scope, range).collect::<Vec<_>>(),
                    Tlbi::single(g, first, pages, entry.max(page_shift), scope, range),
                );
                let (cover, single) = of(Scope::AnyLevel);
                if let Some(single) = single {
                    prop_assert_eq!(cover, [single], "{:?} {:?} {}", g, first, pages);
                } else if entry <= page_shift {
                    prop_assert!(cover.len() > 1 || cover[0] == Tlbi::All, "{:?} {:?} {}", g, first, pages);
                }
            }
        }
    }

    #[test]
    fn a_batch_becomes_everything_past_the_break_even() {
        for g in geometries() {
            let (shift, size) = (g.page_shift(), g.page_size());
            let cover = |pages, shift, range| {
                Tlbi::cover(g, Va(0), pages, shift, Scope::LastLevel, range).collect::<Vec<_>>()
            };
            assert_eq!(cover(0, shift, false), []);
            assert_eq!(cover(0, shift, true), []);
            let break_even = Tlbi::BREAK_EVEN as u64;
            assert_eq!(cover(break_even, shift, false).len(), Tlbi::BREAK_EVEN);
            assert_eq!(cover(break_even + 1, shift, false), [Tlbi::All]);
            assert_eq!(cover(break_even << 9, shift + 9, false).len(), Tlbi::BREAK_EVEN);
            assert_eq!(cover((break_even << 9) + 1, shift + 9, false), [Tlbi::All]);
            assert_eq!(cover(break_even << 21, shift, true).len(), Tlbi::BREAK_EVEN);
            assert_eq!(cover((break_even << 21) + 1, shift, true), [Tlbi::All]);
            // A range that would go beyond the last address ends there. Odd arguments are harmless.
            let top = |va, pages, shift| {
                Tlbi::cover(g, Va(va), pages, shift, Scope::LastLevel, false).collect::<Vec<_>>()
            };
            let last = Tlbi::Page(Va(0u64.wrapping_sub(size)), Scope::LastLevel);
            for entry_shift in [0, shift, 63, 64, u32::MAX] {
                assert_eq!(top(u64::MAX, u64::MAX, entry_shift), [last]);
            }
            assert_eq!(top(0, u64::MAX, 0), [Tlbi::All]);
        }
    }

    /// A range of pages of each geometry: anywhere in a half or at its end, of any size.
    fn any_range() -> impl Strategy<Value = (u64, bool, bool, u64)> {
        let pages = prop_oneof![0..600u64, 0..1u64 << 24, 0..1u64 << 40, Just(u64::MAX)];
        (any::<u64>(), any::<bool>(), any::<bool>(), pages)
    }

    proptest! {
        /// The invalidations cover the range, in order, once, nothing else, and are as few as possible.
        #[test]
        fn the_range_is_covered_exactly(
            (at, upper, at_the_end, pages) in any_range(), size: prop::sample::Index,
            any_level: bool, range_tlbi: bool,
        ) {
            let scope = if any_level { Scope::AnyLevel } else { Scope::LastLevel };
            for g in geometries() {
                let half = if upper { Half::Upper } else { Half::Lower };
                let half_pages = 1 << (g.va_bits() - g.page_shift());
                let first = if at_the_end { half_pages - 1 - at % 600 } else { at % half_pages };
                let (base, page) = (g.base(half), g.page_size());
                let pages = if upper { pages } else { pages.min(half_pages - first) };
                let first = base + first * page;
                let entry_shift = size.get(&g.leaf_sizes()).entry_shift;
                let entry = 1u128 << entry_shift;
                let end = (u128::from(first) + u128::from(pages) * u128::from(page)).min(1 << 64);

                let ops = Tlbi::cover(g, Va(first), pages, entry_shift, scope, range_tlbi);
                let ops = ops.collect::<Vec<_>>();
                let total = ((end - u128::from(first)) >> g.page_shift()) as u64;
                let entries = if total == 0 { 0 } else { end.div_ceil(entry) - u128::from(first) / entry } as u64;
                if ops == [Tlbi::All] {
                    // All is not used too early: no range of 2M pages, nor 15 single pages, could be saved.
                    let needed = if range_tlbi { 19 + total.div_ceil(1 << 21) } else { entries };
                    prop_assert!(needed > Tlbi::BREAK_EVEN as u64);
                    continue;
                }
                let mut next = u128::from(first);
                for &op in &ops {
                    let (dropped, from, count) = decode(op.encode(g), g);
                    prop_assert_eq!((dropped, u128::from(from)), (scope, next), "{:?}", op);
                    let to = next + u128::from(count) * u128::from(page);
                    prop_assert!(to <= end, "{:?} ends at {:#x}, behind {:#x}", op, to, end);
                    next = to.next_multiple_of(entry).min(end);
                }
                prop_assert_eq!(next, end);

                if entries == 1 {
                    prop_assert_eq!(&ops, &[Tlbi::Page(Va(first), scope)]);
                }
                let n = ops.len() as u64;
                if !range_tlbi {
                    prop_assert_eq!(n, entries);
                } else if entry_shift == g.page_shift() {
                    let align = if g.oa_format() == OaFormat::Lpa2 { 1 << 16 } else { page };
                    let single = ((first.wrapping_neg() % align) / page).min(total);
                    prop_assert!(single <= 15);
                    prop_assert_eq!(n, single + ranges(total - single));
                    prop_assert!(n <= single + total.div_ceil(1 << 21) + 4);
                } else {
                    // Blocks never need more invalidations than their pages would, nor more than one for each block.
                    prop_assert!(n <= entries.min(15 + total.div_ceil(1 << 21) + 4));
                }
            }
        }

        #[test]
        fn a_range_takes_as_many_pages_as_one_can(pages in prop_oneof![0..5000u64, 0..1u64 << 22, any::<u64>()]) {
            let all = (0..4).flat_map(|scale| (0..32).map(move |num| RangePages { num, scale }));
            let most = all.map(RangePages::count).filter(|&count| count <= pages).max();
            prop_assert_eq!(RangePages::at_most(pages).map(RangePages::count), most);
        }

        /// No address of either half reaches the fields above its own; the bits below a page are clear.
        #[test]
        fn an_address_stays_in_its_field(va: u64, pages in 2u64.., any_level: bool) {
            let scope = if any_level { Scope::AnyLevel } else { Scope::LastLevel };
            for g in geometries() {
                let half = if va >> 63 == 1 { Half::Upper } else { Half::Lower };
                let va = g.base(half) | va & ((1 << g.va_bits()) - 1);
                let (dropped, from, _) = decode(Tlbi::Page(Va(va), scope).encode(g), g);
                prop_assert_eq!((dropped, from), (scope, va & !(g.page_size() - 1)));
                let pages = RangePages::at_most(pages).unwrap();
                let range = Tlbi::Range { from: Va(va), pages, scope };
                let align = if g.oa_format() == OaFormat::Lpa2 { 1 << 16 } else { g.page_size() };
                prop_assert_eq!(decode(range.encode(g), g), (scope, va & !(align - 1), pages.count()));
            }
        }
    }
}
