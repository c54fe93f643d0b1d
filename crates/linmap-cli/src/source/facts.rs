//! Facts about a kernel and its CPUs.

use linmap::Geometry;

use super::vmcoreinfo::VmcoreInfo;

/// Facts about a kernel.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Kernel {
    /// Its VMCOREINFO, if it was found.
    pub(crate) info: Option<VmcoreInfo>,
    /// Its command line, if the source shows it: of a live machine, or from the device tree of a guest.
    pub(crate) command_line: Option<String>,
}

/// Facts about the CPUs: `None` or empty if the source does not show them.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Cpu {
    /// TCR_EL1, or TCR_EL2 of a kernel that runs at EL2.
    pub(crate) tcr: Option<u64>,
    /// MIDR_EL1 of each CPU.
    pub(crate) midrs: Vec<u64>,
    /// ID_AA64MMFR0_EL1 of the CPU whose registers were read.
    pub(crate) mmfr0: Option<u64>,
    /// ID_AA64MMFR2_EL1: break-before-make level.
    pub(crate) mmfr2: Option<u64>,
    /// MAIR_EL1, or MAIR_EL2 of a kernel that runs at EL2.
    pub(crate) mair: Option<u64>,
}

impl Kernel {
    /// Returns VA minus PA in the linear map, wrapping, from VMCOREINFO.
    pub(crate) fn linear_offset(&self, geometry: Geometry) -> Option<u64> {
        let info = self.info.as_ref()?;
        let va_bits = info.number("VA_BITS").unwrap_or(geometry.va_bits().into());
        let start = u64::MAX.checked_shl(u32::try_from(va_bits).ok()?)?;
        Some(start.wrapping_sub(info.number("PHYS_OFFSET")?))
    }

    /// Returns VA minus PA in the mapping of the kernel image, wrapping.
    pub(crate) fn image_offset(&self) -> Option<u64> {
        self.info.as_ref()?.number("kimage_voffset")
    }
}
