//! A change that takes break-before-make (Arm ARM D8.17.1), as a value: memory type, bits of the output address, another
//! output address.

use crate::format::address::Pa;
use crate::format::address_format::{encode_oa, high_field, in_place};
use crate::format::attributes::{Attributes, MemoryType};
use crate::format::descriptor::Descriptor;
use crate::format::geometry::{Geometry, Level};
use crate::format::span::Span;

/// A change of the leaves of a range by way of invalid ones: of the memory type, of where they lead, or of both. Permissions
/// and all other bits stay.
///
/// ```
/// use linmap::{MemoryType, Remake};
///
/// // A buffer that a realm shares with its host, not cacheable: the highest bit of an intermediate address of 48 bits.
/// let shared = Remake::memory_type(MemoryType::NORMAL_NC).and(Remake::address_bits(1 << 47, 0));
/// let back = Remake::memory_type(MemoryType::NORMAL).and(Remake::address_bits(0, 1 << 47));
/// assert_eq!(shared.and(back), back);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remake {
    /// Attributes that are cleared, and those that are set after that.
    clear: u64,
    set: u64,
    leads: Leads,
}

/// Where leaves lead afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leads {
    /// To their addresses, with these bits cleared, and these set, none of which is cleared.
    Same { clear: u64, set: u64 },
    /// To consecutive memory from here on, from the start of the range on.
    To(Pa),
}

impl Remake {
    /// No change: a range that a failed step has left invalid becomes valid again, as it was.
    pub const NONE: Self = Self { clear: 0, set: 0, leads: Leads::Same { clear: 0, set: 0 } };

    /// Returns the change to a memory type.
    ///
    /// Memory that is write-back at one address is not to be of another type at another address meanwhile (B2.11): all
    /// mappings of it change together ([`Aliased::remake`](crate::Aliased::remake)).
    pub const fn memory_type(memory_type: MemoryType) -> Self {
        let set = (memory_type.index() as u64) << 2u32;
        Self { clear: Attributes::MEMORY_TYPE.bits(), set, ..Self::NONE }
    }

    /// Returns the change to the Non-secure address space or to the Secure or Realm one, by the bit NS of each leaf, where
    /// the translation regime has that bit (D8.17.1 IWZRHR: another address space counts as another address).
    pub const fn non_secure(non_secure: bool) -> Self {
        let bit = Attributes::NON_SECURE.bits();
        Self { clear: bit, set: if non_secure { bit } else { 0 }, ..Self::NONE }
    }

    /// Returns the change that sets and clears bits of output addresses, such as the one by which a platform tells shared
    /// memory from memory of its own; `set` wins. They are bits of the address, wherever a descriptor has them.
    pub const fn address_bits(set: u64, clear: u64) -> Self {
        Self { leads: Leads::Same { clear: clear & !set, set }, ..Self::NONE }
    }

    /// Returns the change to other memory: the range leads to consecutive memory from `pa` on.
    pub const fn to(pa: Pa) -> Self {
        Self { leads: Leads::To(pa), ..Self::NONE }
    }

    /// Returns both changes as one. Where they conflict, `next` wins.
    #[must_use]
    pub const fn and(self, next: Self) -> Self {
        let (clear, set) = (self.clear | next.clear, self.set & !next.clear | next.set);
        let leads = match (self.leads, next.leads) {
            (Leads::Same { clear, set }, Leads::Same { clear: gone, set: added }) => {
                Leads::Same { clear: clear & !added | gone, set: set & !gone | added }
            }
            // The bits of an address that it is known.
            (Leads::To(pa), Leads::Same { clear, set }) => Leads::To(Pa(pa.0 & !clear | set)),
            (_, to) => to,
        };
        Self { clear, set, leads }
    }

    /// Returns the address bits that it may change, if leaves lead to the same memory otherwise.
    pub(crate) const fn bits(self) -> Option<u64> {
        match self.leads {
            Leads::Same { clear, set } => Some(clear | set),
            Leads::To(_) => None,
        }
    }

    /// Returns the address to which the start of the range leads afterwards, if all of it leads elsewhere.
    pub(crate) const fn target(self) -> Option<Pa> {
        match self.leads {
            Leads::Same { .. } => None,
            Leads::To(pa) => Some(pa),
        }
    }

    /// Returns the same for a range that starts at an address.
    pub(crate) const fn of(self, start: u64, geometry: Geometry) -> Remade {
        Remade { clear: self.clear, set: self.set, leads: self.leads, start, geometry }
    }
}

/// A remake of one range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remade {
    /// Attributes that are cleared, and those that are set after that.
    clear: u64,
    set: u64,
    leads: Leads,
    /// The first address of the range.
    start: u64,
    geometry: Geometry,
}

impl Remade {
    /// Returns the leaf that takes the place of another one, which translates addresses from `va` on. It is valid.
    #[inline(always)]
    pub(crate) const fn leaf(&self, old: Descriptor, va: u64, level: Level) -> Descriptor {
        let (g, field) = (self.geometry, self.address_field(level));
        let to = encode_oa(self.address(va, old.oa(g, level)), g.oa_format());
        Descriptor(old.0 & !(field | self.clear) | to & field | self.set).with_validity(true, level)
    }

    /// Returns where an address leads afterwards that leads to `oa`.
    const fn address(&self, va: u64, oa: Pa) -> Pa {
        match self.leads {
            Leads::Same { clear, set } => Pa(oa.0 & !clear | set),
            Leads::To(pa) => Pa(pa.0.wrapping_add(va.wrapping_sub(self.start))),
        }
    }

    /// Returns true if a leaf of these addresses already is what its pages of a part shall be, which is all of it or less.
    /// Pages can lead elsewhere by less than the size of the leaf that they are in.
    pub(crate) const fn is_made(&self, old: Descriptor, level: Level, leaf: Span, part: Span) -> bool {
        let oa = old.oa(self.geometry, level).0 + (part.first - leaf.first);
        let differ = match self.leads {
            // Of the bits that shall be the same in all pages, those that are not.
            Leads::Same { clear, set } if clear | set != 0 => {
                (oa ^ (oa + (part.last - part.first))) >> (clear | set).trailing_zeros()
            }
            _ => 0,
        };
        differ == 0
            && self.address(part.first, Pa(oa)).0 == oa
            && self.leaf(old, leaf.first, level).0 == old.0
    }

    /// Returns the bits that hold the address of a leaf.
    const fn address_field(&self, level: Level) -> u64 {
        let (format, mask) = (self.geometry.oa_format(), self.geometry.level_mask(level));
        let moved = match high_field(format) {
            Some((_, from, bits)) => bits << from,
            None => 0,
        };
        in_place(format) & mask | moved
    }

    /// Returns the address to which a leaf or run could not lead, because of its size.
    pub(crate) const fn misfit(&self, at: Span) -> Option<Pa> {
        let within = at.last - at.first;
        let (to, bits) = match self.leads {
            Leads::Same { clear, set } => (Pa((clear | set) & within), (clear | set) & within),
            Leads::To(_) => {
                let to = self.address(at.first, Pa(0));
                (to, to.0 & within)
            }
        };
        if bits == 0 { None } else { Some(to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Entry, Half, Leaf, OaFormat};
    use crate::tests::geometries;
    use test_support::prelude::*;
    extern crate std;

    proptest! {
        /// A leaf that is remade says what it said, with the new type and where it leads now; valid, whatever it was.
        #[test]
        fn only_what_is_asked_for_changes(oa: u64, at: u64, bits: u64, t in 0u8..8, contiguous: bool, valid: bool) {
            for g in geometries() {
                for level in (g.first_leaf_level().number()..=3).map(Level::new) {
                    let mask = ((1 << g.oa_bits()) - 1) & g.level_mask(level);
                    let attributes = Attributes::RAM | Attributes::SOFTWARE | Attributes::NOT_GLOBAL;
                    let old = Descriptor::leaf(Leaf { oa: Pa(oa & mask), attributes, contiguous, valid }, g, level);
                    let Entry::Leaf(said) = old.decode(g, level) else { panic!("{old:x?}") };
                    let base = g.base(Half::Upper);
                    let va = base + (at & ((1 << g.va_bits()) - 1) & g.level_mask(level));
                    let leaf = |remake: Remake| remake.of(base, g).leaf(old, va, level).decode(g, level);
                    let of_type = Remake::memory_type(MemoryType::new(t));
                    let typed = Leaf { attributes: said.attributes.of_type(MemoryType::new(t)), valid: true, ..said };
                    prop_assert_eq!(leaf(of_type), Entry::Leaf(typed));
                    prop_assert_eq!(leaf(Remake::NONE), Entry::Leaf(Leaf { valid: true, ..said }));
                    let bits = bits & mask;
                    let set = Leaf { oa: Pa(said.oa.0 | bits), ..typed };
                    prop_assert_eq!(leaf(of_type.and(Remake::address_bits(bits, 0))), Entry::Leaf(set));
                    let cleared = Leaf { oa: Pa(said.oa.0 & !bits), ..typed };
                    prop_assert_eq!(leaf(Remake::address_bits(0, bits).and(of_type)), Entry::Leaf(cleared));
                    let there = Leaf { oa: Pa(bits), valid: true, ..said };
                    let to = Remake::to(Pa(bits.wrapping_sub(va - base)));
                    prop_assert_eq!(leaf(to), Entry::Leaf(there));
                }
            }
        }
    }

    #[test]
    fn the_later_remake_wins() {
        let bits = |set, clear| Remake::address_bits(set, clear);
        assert_eq!(bits(0b110, 0).and(bits(0, 0b10)).bits(), Some(0b110));
        assert_eq!(bits(0b110, 0).and(bits(0, 0b10)), Remake::address_bits(0b100, 0b10));
        assert_eq!(Remake::to(Pa(5)).and(bits(8, 1)), Remake::to(Pa(12)));
        assert_eq!(bits(8, 1).and(Remake::to(Pa(5))), Remake::to(Pa(5)));
        let (nc, device) =
            (Remake::memory_type(MemoryType::NORMAL_NC), Remake::memory_type(MemoryType::DEVICE_NGNRE));
        assert_eq!(nc.and(device), device);
        assert_eq!(Remake::non_secure(true).and(Remake::non_secure(false)), Remake::non_secure(false));
        assert_eq!(Remake::NONE.and(device).and(Remake::NONE), device);
    }

    #[test]
    fn a_leaf_leads_where_its_size_permits() {
        let g = Geometry::new(crate::format::Granule::K4, 48, OaFormat::Bits48).unwrap();
        let block = Span { first: 0x20_0000, last: 0x3f_ffff };
        let misfit = |remake: Remake| remake.of(0, g).misfit(block);
        assert_eq!(misfit(Remake::address_bits(1 << 21, 1 << 47)), None);
        assert_eq!(misfit(Remake::address_bits(0, 1 << 20)), Some(Pa(1 << 20)));
        assert_eq!(misfit(Remake::to(Pa(0x4000_0000))), None);
        assert_eq!(misfit(Remake::to(Pa(0x4000_1000))), Some(Pa(0x4020_1000)));
        assert_eq!(misfit(Remake::memory_type(MemoryType::NORMAL_NC)), None);
    }
}
