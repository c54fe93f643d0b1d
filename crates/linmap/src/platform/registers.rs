//! The registers with which a CPU translates at EL1, as values. Pure.

use crate::format::{Geometry, Granule, MemoryType, OaFormat, Pa};
use crate::platform::{Features, HardwareUpdates};

/// The values of the system registers with which a CPU translates at EL1.
///
/// Table walks are cacheable and inner shareable, memory types are those of [`MemoryType`], and hardware manages neither
/// the access flag nor the dirty state, unless [`with_hardware_updates`](Self::with_hardware_updates) says so.
///
/// ```
/// use linmap::cpu::{Features, Registers};
/// use linmap::{Geometry, Granule, OaFormat, Pa};
///
/// let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let cpu = Features { mmfr0: 0x1124, ..Features::default() }; // Cortex-A72
/// let registers = Registers::new(&cpu, (geometry, Pa(0x4010_0000)), (geometry, Pa(0x4010_1000)))?;
/// assert_eq!((registers.ttbr0, registers.ttbr1), (0x4010_0000, 0x4010_1000));
/// assert_eq!(registers.tcr, 0x4_b510_3510);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// TTBR0_EL1: the root of the lower half.
    pub ttbr0: u64,
    /// TTBR1_EL1: the root of the upper half.
    pub ttbr1: u64,
    /// TCR_EL1.
    pub tcr: u64,
    /// MAIR_EL1.
    pub mair: u64,
    /// SCTLR_EL1, with the MMU and the caches on.
    pub sctlr: u64,
    /// TCR2_EL1, if the CPU has it: 0, so that descriptors mean what the library takes them for.
    pub tcr2: Option<u64>,
}

/// The reason why a CPU cannot use some tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistersError {
    /// The halves have different granules or address formats. TCR_EL1.DS applies to both.
    #[error("the two halves have different granules or address formats; give them the same")]
    Halves,
    /// The CPU does not support the granule.
    #[error("the CPU does not support the {granule} granule; `Features::has` tells which it supports")]
    Granule {
        /// The granule that was asked for.
        granule: Granule,
    },
    /// The CPU does not have LPA2, or does not support VAs of that size.
    #[error("the CPU does not support {va_bits} VA bits in the format {format:?} with the {granule} granule")]
    Large {
        /// The granule.
        granule: Granule,
        /// The VA size in bits of the larger half.
        va_bits: u32,
        /// The format of output addresses.
        format: OaFormat,
    },
}

impl Registers {
    /// Returns the registers of a CPU with these features, for the geometry and the root table of each half.
    ///
    /// Compute them for each CPU, since physical address sizes differ.
    ///
    /// # Errors
    ///
    /// Halves of different granules or address formats; a granule, a format or a VA size that the CPU does not support.
    pub const fn new(
        cpu: &Features,
        (lower, root0): (Geometry, Pa),
        (upper, root1): (Geometry, Pa),
    ) -> Result<Self, RegistersError> {
        let (granule, format) = (upper.granule(), upper.oa_format());
        if lower.page_shift() != upper.page_shift() || lower.oa_format() as u8 != format as u8 {
            return Err(RegistersError::Halves);
        }
        if !cpu.has(granule) {
            return Err(RegistersError::Granule { granule });
        }
        let va_bits = if lower.va_bits() > upper.va_bits() { lower.va_bits() } else { upper.va_bits() };
        let large = va_bits > 48 || matches!(format, OaFormat::Lpa2);
        if large && !cpu.has_large_va(granule) {
            return Err(RegistersError::Large { granule, va_bits, format });
        }
        let pa_bits = if cpu.pa_bits() < upper.oa_bits() { cpu.pa_bits() } else { upper.oa_bits() };
        Ok(Self {
            ttbr0: Self::ttbr(root0, format),
            ttbr1: Self::ttbr(root1, format),
            tcr: Self::tcr(granule, format, lower.va_bits(), upper.va_bits()) | Self::ips(pa_bits),
            mair: MemoryType::mair(cpu.has_tags()),
            sctlr: Self::SCTLR_ON,
            tcr2: if cpu.has_tcr2() { Some(0) } else { None },
        })
    }

    /// Returns these registers with walkers that write what this CPU can, up to `most`. The address space has to know
    /// ([`expect_hardware_updates`](crate::Tables::expect_hardware_updates)).
    #[must_use]
    pub const fn with_hardware_updates(self, cpu: &Features, most: HardwareUpdates) -> Self {
        let has = cpu.hardware_updates();
        let updates = if (has as u8) < most as u8 { has } else { most };
        let tcr2 = match self.tcr2 {
            Some(tcr2) => Some(tcr2 | updates.tcr2()),
            None => None,
        };
        Self { tcr: self.tcr | updates.tcr(), tcr2, ..self }
    }

    /// SCTLR_EL1 with the MMU off: the bits that are RES1 or that keep the behaviour of CPUs without newer features
    /// (LSMAOE, nTLSMD, SPAN, EIS, TSCXT, EOS; SED and ITD, which are RES1 where EL0 has no AArch32).
    pub const SCTLR_OFF: u64 = 1 << 29 | 1 << 28 | 1 << 23 | 1 << 22 | 1 << 20 | 1 << 11 | 1 << 8 | 1 << 7;
    /// SCTLR_EL1 with the MMU, both caches and the stack alignment check on.
    pub const SCTLR_ON: u64 = Self::SCTLR_OFF | 1 << 12 | 1 << 3 | 1 << 2 | 1;

    /// Returns the address of a root table in the format of TTBR0_EL1 and TTBR1_EL1 (D8.2.3): with 52-bit addresses,
    /// bits 51:48 are in bits 5:2.
    pub const fn ttbr(root: Pa, format: OaFormat) -> u64 {
        match format {
            OaFormat::Bits48 => root.0,
            OaFormat::Lpa | OaFormat::Lpa2 => (root.0 & ((1 << 48) - 1)) | ((root.0 >> 48) & 0xf) << 2,
        }
    }

    /// Returns TCR_EL1 without the physical address size, for VA sizes in bits. Both halves have one granule; walks are
    /// cacheable and inner shareable.
    pub const fn tcr(granule: Granule, format: OaFormat, lower_bits: u32, upper_bits: u32) -> u64 {
        let (tg0, tg1) = match granule {
            Granule::K4 => (0, 2),
            Granule::K16 => (2, 1),
            Granule::K64 => (1, 3),
        };
        // IRGN and ORGN write-back, SH inner shareable.
        let walks = 1 | 1 << 2u32 | 3 << 4u32;
        let lower = 64u32.saturating_sub(lower_bits) as u64 | walks << 8u32 | tg0 << 14u32;
        let upper = 64u32.saturating_sub(upper_bits) as u64 | walks << 8u32 | tg1 << 14u32;
        let ds = matches!(format, OaFormat::Lpa2) as u64;
        lower | upper << 16 | ds << 59
    }

    /// Returns TCR_EL1.IPS for a physical address size in bits.
    pub const fn ips(pa_bits: u32) -> u64 {
        let field = match pa_bits {
            ..=32 => 0,
            33..=36 => 1,
            37..=40 => 2,
            41..=42 => 3,
            43..=44 => 4,
            45..=48 => 5,
            _ => 6,
        };
        field << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::geometries;

    /// QEMU's `max`: all granules, with LPA2 and LVA, 52 bits of physical address.
    const MAX: Features = Features {
        midr: 0,
        isar0: 0,
        mmfr0: 0x1000_1026 | 2 << 20,
        mmfr1: 3,
        mmfr2: 1 << 16,
        mmfr3: 1,
        pfr1: 3 << 8,
        dfr0: 0,
        ctr: 0,
    };

    fn of(cpu: &Features, lower: Geometry, upper: Geometry) -> Result<Registers, RegistersError> {
        Registers::new(cpu, (lower, Pa(0x4000_0000)), (upper, Pa(0x5_0000_4001_0000)))
    }

    /// The fields of TCR_EL1, decoded by the positions in the manual (D24.2.197).
    #[test]
    fn each_geometry_is_read_back() {
        let granules = |tg0, tg1| match (tg0, tg1) {
            (0, 2) => Granule::K4,
            (2, 1) => Granule::K16,
            (1, 3) => Granule::K64,
            other => panic!("{other:?} are not of one granule"),
        };
        for g in geometries() {
            let r = of(&MAX, g, g).expect("a CPU that has all");
            let field = |low: u32, bits: u32| r.tcr >> low & ((1 << bits) - 1);
            assert_eq!(
                (field(0, 6), field(16, 6)),
                (64 - u64::from(g.va_bits()), 64 - u64::from(g.va_bits()))
            );
            assert_eq!(granules(field(14, 2), field(30, 2)), g.granule(), "{g:?}");
            // Write-back, inner shareable walks in both halves; both halves on; HA and HD off.
            assert_eq!((field(8, 6), field(24, 6), field(7, 1), field(23, 1)), (0b11_0101, 0b11_0101, 0, 0));
            assert_eq!((field(39, 2), field(59, 1) == 1), (0, g.oa_format() == OaFormat::Lpa2));
            assert_eq!(field(32, 3), if g.oa_bits() == 52 { 6 } else { 5 }, "{g:?}");
            let high = if g.oa_bits() == 52 { 5 << 2 | 0x4001_0000 } else { 0x5_0000_4001_0000 };
            assert_eq!((r.ttbr0, r.ttbr1), (0x4000_0000, high));
            assert_eq!((r.mair, r.sctlr & 1, r.tcr2), (MemoryType::mair(true), 1, Some(0)));
            let with = |most| r.with_hardware_updates(&MAX, most);
            use HardwareUpdates::{DirtyState, Tables};
            assert_eq!((with(DirtyState).tcr ^ r.tcr, with(DirtyState).tcr2), (3 << 39, Some(0)));
            assert_eq!((with(Tables).tcr ^ r.tcr, with(Tables).tcr2), (3 << 39, Some(1 << 11)));
            let old = Features { mmfr1: 1, mmfr3: 0, ..MAX };
            let of_old = of(&old, g, g).map(|r| r.with_hardware_updates(&old, Tables));
            assert_eq!(of_old.map(|old| (old.tcr ^ r.tcr, old.tcr2)), Ok((1 << 39, None)));
        }
    }

    /// The bits of SCTLR_EL1 that are set, each with its name in the manual.
    #[test]
    fn sctlr_has_these_bits() {
        let names = [("LSMAOE", 29), ("nTLSMD", 28), ("SPAN", 23), ("EIS", 22), ("TSCXT", 20), ("EOS", 11)];
        let names = names.into_iter().chain([("SED", 8), ("ITD", 7)]);
        let off = names.fold(0, |bits, (_, bit)| bits | 1 << bit);
        assert_eq!(Registers::SCTLR_OFF, off);
        let on = [("I", 12), ("SA", 3), ("C", 2), ("M", 0)]
            .into_iter()
            .fold(off, |bits, (_, bit)| bits | 1 << bit);
        assert_eq!(Registers::SCTLR_ON, on);
    }

    #[test]
    fn what_a_cpu_does_not_have_is_refused() {
        let g = |granule, va_bits, format| Geometry::new(granule, va_bits, format).expect("a geometry");
        let a72 = Features { mmfr0: 0x1124, ..Features::default() };
        for one in geometries() {
            let large = one.va_bits() > 48 || one.oa_format() == OaFormat::Lpa2;
            let has = one.granule() != Granule::K16 && !large;
            assert_eq!(of(&a72, one, one).is_ok(), has, "{one:?}");
        }
        if Granule::BUILT.len() == 3 {
            let (k4, k16) = (g(Granule::K4, 48, OaFormat::Bits48), g(Granule::K16, 48, OaFormat::Bits48));
            assert_eq!(of(&MAX, k4, k16), Err(RegistersError::Halves));
            assert_eq!(of(&MAX, k4, g(Granule::K4, 48, OaFormat::Lpa2)), Err(RegistersError::Halves));
            assert_eq!(of(&a72, k16, k16), Err(RegistersError::Granule { granule: Granule::K16 }));
            // The halves may differ in size.
            let small = g(Granule::K4, 39, OaFormat::Bits48);
            assert_eq!(of(&a72, small, k4).map(|r| (r.tcr & 63, r.tcr >> 16 & 63)), Ok((25, 16)));
        }
    }

    #[test]
    fn physical_addresses_are_those_of_the_cpu_and_the_format() {
        for g in geometries().into_iter().filter(|g| g.oa_format() == OaFormat::Bits48 && g.va_bits() <= 48) {
            let ips = [0, 1, 2, 3, 4, 5, 6, 7].map(|pa_range| {
                let cpu = Features { mmfr0: 1 << 20 | pa_range, ..Features::default() };
                of(&cpu, g, g).map(|r| r.tcr >> 32 & 7)
            });
            assert_eq!(ips, [0, 1, 2, 3, 4, 5, 5, 5].map(Ok), "{g:?}");
        }
    }
}
