//! A leaf as a TLB holds it, and the reasons why it may not hold two of them together.

use linmap::arch::{Leaf, Level};
use linmap::{Attributes, Geometry, MemoryType};

use crate::stage2;

/// A leaf as a TLB holds it.
///
/// A member of a contiguous run stands for the whole run: the TLB may use any member for the addresses of all (D8.7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cached {
    /// The first address of the leaf, or of the run.
    pub(crate) first: u64,
    /// The output address of the first address.
    pub(crate) oa: u64,
    pub(crate) level: Level,
    pub(crate) contiguous: bool,
    /// The attributes that a TLB holds.
    pub(crate) attributes: Attributes,
    /// log2 of the bytes of one descriptor.
    pub(crate) shift: u32,
    /// The number of descriptors: 1, or those of the run.
    pub(crate) members: u32,
}

/// The reason why two entries may not be held together, and by which CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Clash {
    /// Only a CPU that never aborts may hold both.
    Size(&'static str),
    /// No CPU may hold both.
    Forbidden(&'static str),
}

impl Cached {
    /// Returns the entry that a TLB may hold of a leaf that starts at `va`; `None` if the leaf faults.
    pub(crate) fn new(va: u64, leaf: Leaf, level: Level, g: Geometry) -> Option<Self> {
        // An entry whose use faults is never cached (D8.17 IWZCBG).
        if !leaf.valid || !leaf.attributes.contains(Attributes::ACCESSED) {
            return None;
        }
        let shift = g.level_shift(level);
        let members = if leaf.contiguous { g.contiguous_entries(level) as u32 } else { 1 };
        let below = (u64::from(members) << shift) - 1;
        let within = va & below;
        Some(Self {
            first: va - within,
            oa: leaf.oa.0.wrapping_sub(within),
            level,
            contiguous: members > 1,
            attributes: leaf.attributes - (Attributes::SOFTWARE | Attributes::TAKEN_OUT),
            shift,
            members,
        })
    }

    pub(crate) const fn last(&self) -> u64 {
        self.first + (((self.members as u64) << self.shift) - 1)
    }

    /// Returns true if an access by it may have the XS attribute: only what is cacheable as write-back by the values
    /// of MAIR that `linmap` gives it has not (D8.7.4).
    pub(crate) fn has_xs(&self) -> bool {
        // At stage 2 that depends on stage 1.
        stage2::is_of_stage_2(self.attributes)
            || ![MemoryType::NORMAL, MemoryType::NORMAL_TAGGED].contains(&self.attributes.memory_type())
    }

    /// Returns true if it is for all ASIDs, or of stage 2, which has none.
    pub(crate) const fn is_global(&self) -> bool {
        stage2::is_of_stage_2(self.attributes) || !self.attributes.contains(Attributes::NOT_GLOBAL)
    }

    /// Returns the output address of one of its addresses.
    pub(crate) const fn oa_at(&self, va: u64) -> u64 {
        self.oa.wrapping_add(va.wrapping_sub(self.first))
    }

    pub(crate) const fn overlaps(&self, first: u64, last: u64) -> bool {
        self.first <= last && first <= self.last()
    }

    /// Returns the members that translate addresses from `first` to `last`, as bits.
    pub(crate) fn members_in(&self, first: u64, last: u64) -> u128 {
        if !self.overlaps(first, last) {
            return 0;
        }
        let low = (first.max(self.first) - self.first) >> self.shift;
        let high = (last.min(self.last()) - self.first) >> self.shift;
        (u128::MAX >> (127 - (high - low))) << low
    }

    /// Returns all members, as bits.
    pub(crate) const fn all_members(&self) -> u128 {
        u128::MAX >> (128 - self.members)
    }

    /// Returns the reason why a TLB may not hold `self` and the later `new` together, which have an address in common.
    pub(crate) fn clash(&self, new: &Self) -> Option<Clash> {
        let va = self.first.max(new.first);
        let changed = self.attributes ^ new.attributes;
        if self.oa_at(va) != new.oa_at(va) {
            return Some(Clash::Forbidden("the output address changes"));
        }
        let normal =
            |c: &Self| [MemoryType::NORMAL, MemoryType::NORMAL_TAGGED].contains(&c.attributes.memory_type());
        let of_stage_2 = stage2::is_of_stage_2(self.attributes);
        let other_type = if of_stage_2 {
            stage2::type_changes(changed)
        } else {
            changed.intersects(Attributes::MEMORY_TYPE) && !(normal(self) && normal(new))
        };
        if other_type {
            return Some(Clash::Forbidden("the memory type changes"));
        }
        if changed.intersects(Attributes::INNER_SHAREABLE) {
            return Some(Clash::Forbidden("the shareability changes"));
        }
        if !of_stage_2
            && changed.contains(Attributes::NOT_GLOBAL)
            && self.attributes.contains(Attributes::NOT_GLOBAL)
        {
            return Some(Clash::Forbidden("an entry that is not global becomes global"));
        }
        if self.level != new.level {
            return Some(Clash::Size("the level of the leaf changes"));
        }
        if self.contiguous != new.contiguous {
            return Some(Clash::Size("the contiguous bit changes"));
        }
        None
    }

    /// Describes it in words.
    pub(crate) fn describe(&self) -> String {
        let size = 1u64 << self.shift;
        let (count, unit) = match size {
            s if s >= 1 << 30u32 => (s >> 30u32, "G"),
            s if s >= 1 << 20u32 => (s >> 20u32, "M"),
            s => (s >> 10u32, "K"),
        };
        let run = if self.contiguous { format!(" run of {}", self.members) } else { String::new() };
        let a = self.attributes;
        if stage2::is_of_stage_2(a) {
            let (level, says) = (self.level.number(), stage2::describe(a));
            return format!(
                "IPA {:#x} -> {:#x}, level {level}, {count}{unit}{run}, {says}",
                self.first, self.oa
            );
        }
        let write = if a.is_writable() { "writable" } else { "read-only" };
        let execute = if a.is_executable() { ", executable" } else { "" };
        format!(
            "{:#x} -> {:#x}, level {}, {count}{unit}{run}, {write}{execute}, type {}",
            self.first,
            self.oa,
            self.level.number(),
            a.memory_type().index()
        )
    }
}
