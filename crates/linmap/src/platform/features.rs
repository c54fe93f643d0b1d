//! The translation features of a CPU, from its ID registers. Pure: the caller provides the register values.

use crate::format::Granule;
use crate::platform::cache::CacheType;
use crate::platform::extensions::HardwareUpdates;
use crate::platform::midr::{BbmPromise, Midr};

/// The ID registers that decide how a CPU can translate (Arm ARM D24.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// MIDR_EL1.
    pub midr: u64,
    /// ID_AA64ISAR0_EL1: TLB invalidation by range.
    pub isar0: u64,
    /// ID_AA64MMFR0_EL1: granules and physical address size.
    pub mmfr0: u64,
    /// ID_AA64MMFR1_EL1: hardware updates of the access flag and the dirty state.
    pub mmfr1: u64,
    /// ID_AA64MMFR2_EL1: break-before-make level.
    pub mmfr2: u64,
    /// ID_AA64MMFR3_EL1: TCR2_EL1, and what it can turn on.
    pub mmfr3: u64,
    /// ID_AA64PFR1_EL1: memory tagging.
    pub pfr1: u64,
    /// ID_AA64DFR0_EL1: performance counters.
    pub dfr0: u64,
    /// CTR_EL0: cache lines, and the cache maintenance that is not needed.
    pub ctr: u64,
}

const fn field(register: u64, low_bit: u32) -> u64 {
    (register >> low_bit) & 0xf
}

impl Features {
    /// Returns true if the CPU supports this granule at stage 1.
    pub const fn has(&self, granule: Granule) -> bool {
        match granule {
            // TGran4: 0 yes, 1 with LPA2, 0xf no.
            Granule::K4 => field(self.mmfr0, 28) < 8,
            // TGran16: 0 no, 1 yes, 2 with LPA2.
            Granule::K16 => field(self.mmfr0, 20) != 0,
            // TGran64: 0 yes, 0xf no.
            Granule::K64 => field(self.mmfr0, 24) < 8,
        }
    }

    /// Returns true if the CPU supports VA sizes above 48 bits with this granule at stage 1: by FEAT_LPA2 (4K, 16K),
    /// which includes 52-bit output addresses, or by FEAT_LVA (64K).
    pub const fn has_large_va(&self, granule: Granule) -> bool {
        match granule {
            Granule::K4 => field(self.mmfr0, 28) == 1,
            Granule::K16 => field(self.mmfr0, 20) == 2,
            // VARange: 1 is 52 bits with the 64K granule, 2 is 56.
            Granule::K64 => field(self.mmfr2, 16) >= 1,
        }
    }

    /// Returns the size of physical addresses in bits (PARange).
    pub const fn pa_bits(&self) -> u32 {
        match field(self.mmfr0, 0) {
            0 => 32,
            1 => 36,
            2 => 40,
            3 => 42,
            4 => 44,
            5 => 48,
            6 => 52,
            _ => 56,
        }
    }

    /// Returns what walkers can write into the tables (HAFDBS). CPUs that share tables may differ in it: each leaf has its
    /// access flag, and none is writable-clean.
    pub const fn hardware_updates(&self) -> HardwareUpdates {
        HardwareUpdates::of(field(self.mmfr1, 0))
    }

    /// Returns true if there is TCR2_EL1 (TCRX). What it turns on is refused by name
    /// ([`Tcr2::check`](crate::cpu::Tcr2::check)), so a kernel writes 0 to it before it turns the MMU on.
    pub const fn has_tcr2(&self) -> bool {
        field(self.mmfr3, 0) != 0
    }

    /// Returns true if permissions can be indices (FEAT_S1PIE).
    pub const fn has_indirect_permissions(&self) -> bool {
        field(self.mmfr3, 8) != 0
    }

    /// Returns true if overlays can take permissions away (FEAT_S1POE).
    pub const fn has_overlays(&self) -> bool {
        field(self.mmfr3, 16) != 0
    }

    /// Returns true if descriptors can have 128 bits (FEAT_D128).
    pub const fn has_128_bit_descriptors(&self) -> bool {
        field(self.mmfr3, 32) != 0
    }

    /// Returns true if memory can hold allocation tags (MTE of 2 or more).
    pub const fn has_tags(&self) -> bool {
        field(self.pfr1, 8) >= 2
    }

    /// Returns true if there are performance counters of the Arm architecture (PMUVer).
    pub const fn has_counters(&self) -> bool {
        !matches!(field(self.dfr0, 8), 0 | 0xf)
    }

    /// Returns true if there are TLB invalidations by range (FEAT_TLBIRANGE; the field TLB is 2 or more).
    pub const fn has_range_tlbi(&self) -> bool {
        field(self.isar0, 56) >= 2
    }

    /// Returns true if each batch of TLB invalidations, after the DSB that ends it, needs one
    /// [`Tlbi::Repeat`](crate::arch::Tlbi::Repeat) and another DSB (CVE-2025-10263 and older errata). It is decided by MIDR;
    /// [`Midr::repeated_tlbi`] returns the erratum.
    ///
    /// If any CPU that shares the tables needs it, all CPUs must do it.
    pub fn needs_repeated_tlbi(&self) -> bool {
        Midr(self.midr).needs_repeated_tlbi()
    }

    /// Returns the cache maintenance that new code requires on this CPU.
    pub const fn cache_type(&self) -> CacheType {
        CacheType::of(self.ctr)
    }

    /// Returns the CPU's promise about live changes of size.
    pub fn bbm_promise(&self) -> BbmPromise {
        BbmPromise::of(Midr(self.midr), self.mmfr2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn granules_have_three_encodings() {
        let f = |mmfr0| Features { mmfr0, ..Features::default() };
        let has = |mmfr0| Granule::ALL.map(|g| f(mmfr0).has(g));
        // Cortex-A72: 4K and 64K. Neoverse N1: all. QEMU's max: all, with LPA2.
        assert_eq!(has(0x0000_1124), [true, false, true]);
        assert_eq!(has(0x0010_1125), [true, true, true]);
        assert_eq!(has(0x1020_1126), [true, true, true]);
        assert_eq!(has(0xff00_1125), [false, false, false]);
        assert_eq!(Granule::ALL.map(|g| f(0x1020_1126).has_large_va(g)), [true, true, false]);
        assert_eq!(Granule::ALL.map(|g| f(0x0010_1126).has_large_va(g)), [false; 3]);
        let lva = Features { mmfr2: 1 << 16, ..f(0x1124) };
        assert_eq!(Granule::ALL.map(|g| lva.has_large_va(g)), [false, false, true]);
        assert_eq!((f(0x1124).pa_bits(), f(0x1125).pa_bits(), f(0x1126).pa_bits()), (44, 48, 52));
    }

    /// TGran4 and TGran64 are signed: 8 and more are negative, and mean no.
    #[test]
    fn fields_of_granules_are_signed() {
        for n in 0..16 {
            let f = Features { mmfr0: n << 28 | n << 24 | n << 20, ..Features::default() };
            assert_eq!(Granule::ALL.map(|g| f.has(g)), [n < 8, n != 0, n < 8], "{n}");
        }
    }

    #[test]
    fn extensions_have_their_fields() {
        let f = |mmfr3| Features { mmfr3, ..Features::default() };
        let has = |f: Features| {
            [f.has_tcr2(), f.has_indirect_permissions(), f.has_overlays(), f.has_128_bit_descriptors()]
        };
        assert_eq!(
            [1, 1 << 8, 1 << 16, 1 << 32].map(|mmfr3| has(f(mmfr3)).iter().position(|&h| h)),
            [0, 1, 2, 3].map(Some)
        );
        assert_eq!(has(f(!(0xf | 0xf << 8 | 0xf << 16 | 0xf << 32))), [false; 4]);
        let updates = |mmfr1| Features { mmfr1, ..f(0) }.hardware_updates();
        assert_eq!((updates(0xf0), updates(0x12)), (HardwareUpdates::None, HardwareUpdates::DirtyState));
    }

    #[test]
    fn invalidation_by_range_and_its_repetition() {
        let f = |tlb: u64| Features { isar0: tlb << 56 | 0xf0ff_ffff_ffff_ffff, ..Features::default() };
        assert_eq!([0, 1, 2, 3].map(|tlb| f(tlb).has_range_tlbi()), [false, false, true, true]);
        assert!(!f(2).needs_repeated_tlbi());
        assert!(Features { midr: 0x410f_d0c1, ..f(0) }.needs_repeated_tlbi());
    }
}
