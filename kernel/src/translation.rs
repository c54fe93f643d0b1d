//! The translation regime as system registers have it, where the CPUs of one system have something in common.

use aarch64_cpu::registers::{Readable, TCR_EL1, TTBR1_EL1};
use kernel_plan::choice;
use linmap::{Features, Geometry, MemoryType, OaFormat, Pa, Registers};

/// Returns TCR_EL1 of the CPU that runs this, with the physical address size of another one.
pub(crate) fn tcr_for(geometry: Geometry, cpu: &Features) -> u64 {
    TCR_EL1.get() & !(7 << 32) | Registers::ips(choice::pa_bits(cpu, geometry))
}

/// Returns the root table of the upper half of the CPU that runs this.
pub(crate) fn root(geometry: Geometry) -> Pa {
    let ttbr = TTBR1_EL1.get();
    match geometry.oa_format() {
        OaFormat::Bits48 => Pa(ttbr & ((1 << 48) - 1)),
        // Bits 5:2 are those of the address from 48 on.
        OaFormat::Lpa | OaFormat::Lpa2 => Pa(ttbr & ((1 << 48) - (1 << 6)) | (ttbr >> 2 & 0xf) << 48),
    }
}

/// Returns MAIR_EL1 for all CPUs of a system whose boot CPU has these features.
pub(crate) const fn mair(features: &Features) -> u64 {
    MemoryType::mair(features.has_tags())
}
