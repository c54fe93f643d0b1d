//! The translation regime as system registers have it, where the CPUs of one system have something in common.

use aarch64_cpu::registers::{Readable, TCR_EL1, TTBR1_EL1};
use kernel_plan::choice;
use linmap::cpu::{Features, HardwareUpdates, Registers};
use linmap::{Geometry, MemoryType, OaFormat, Pa};

/// Returns TCR_EL1 of the CPU that runs this, with the physical address size of another one, and what its walkers write.
pub(crate) fn tcr_for(geometry: Geometry, cpu: &Features) -> u64 {
    let own = 7 << 32u32 | HardwareUpdates::Tables.tcr();
    TCR_EL1.get() & !own | Registers::ips(choice::pa_bits(cpu, geometry)) | updates(cpu)
}

/// Returns the bits of TCR_EL1 by which walkers set the access flag and manage the dirty state, as user space wants it. The
/// flag in table descriptors (HAFT) is left alone.
pub(crate) fn updates(cpu: &Features) -> u64 {
    cpu.hardware_updates().min(HardwareUpdates::DirtyState).tcr()
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
