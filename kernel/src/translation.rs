//! The translation regime as system registers have it: TTBR, TCR_EL1, MAIR_EL1, SCTLR_EL1.

use aarch64_cpu::registers::{Readable, TCR_EL1};
use kernel_plan::choice;
use linmap::{Features, Geometry, Granule, MemoryType, OaFormat, Pa};

/// SCTLR_EL1 with the MMU off: the bits that are RES1 or keep their meaning on a CPU without newer features
/// (LSMAOE, nTLSMD, SPAN, EIS, TSCXT, EOS).
pub(crate) const SCTLR_OFF: u64 = 1 << 29 | 1 << 28 | 1 << 23 | 1 << 22 | 1 << 20 | 1 << 11;
/// SCTLR_EL1 with the MMU, both caches, and a check that the stack is aligned.
pub(crate) const SCTLR_ON: u64 = SCTLR_OFF | 1 << 12 | 1 << 3 | 1 << 2 | 1;

/// Returns TCR_EL1 without the physical address size: both halves in one granule, walks cacheable and inner
/// shareable.
pub(crate) const fn tcr(granule: Granule, format: OaFormat, lower_bits: u32, upper_bits: u32) -> u64 {
    let (tg0, tg1) = match granule {
        Granule::K4 => (0, 2),
        Granule::K16 => (2, 1),
        Granule::K64 => (1, 3),
    };
    let walks = 1 | 1 << 2 | 3 << 4;
    let lower = (64 - lower_bits) as u64 | walks << 8 | tg0 << 14;
    let upper = (64 - upper_bits) as u64 | walks << 8 | tg1 << 14;
    let ds = matches!(format, OaFormat::Lpa2) as u64;
    lower | upper << 16 | ds << 59
}

/// Returns TCR_EL1 of the CPU that runs this, with the physical address size of another one.
pub(crate) fn tcr_for(geometry: Geometry, cpu: &Features) -> u64 {
    TCR_EL1.get() & !(7 << 32) | ips(choice::pa_bits(cpu, geometry))
}

/// Returns TCR_EL1.IPS for a physical address size in bits.
pub(crate) const fn ips(pa_bits: u32) -> u64 {
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

/// Returns a root table's address as TTBR has it (D8.2.3): with 52-bit addresses, bits 51:48 are in bits 5:2.
pub(crate) const fn ttbr(root: Pa, format: OaFormat) -> u64 {
    match format {
        OaFormat::Bits48 => root.0,
        OaFormat::Lpa | OaFormat::Lpa2 => (root.0 & ((1 << 48) - 1)) | ((root.0 >> 48) & 0xf) << 2,
    }
}

/// Returns MAIR_EL1 for all CPUs of a system whose boot CPU has these features.
pub(crate) const fn mair(features: &Features) -> u64 {
    MemoryType::mair(features.has_tags())
}
