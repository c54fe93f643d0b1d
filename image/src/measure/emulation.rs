//! Recognises an emulated CPU: its times say nothing about hardware.
//!
//! QEMU's machine for virtual machines is emulated unless a hypervisor answers that it runs there. KVM does, by a call of
//! the range for vendor-specific hypervisor services: its four words name KVM.

/// The names of QEMU's machine: the device tree's, and that of the tables of ACPI.
const QEMU: [&str; 2] = ["linux,dummy-virt", "BOCHS BXPC"];

/// The call that asks for the name of the vendor-specific hypervisor services.
pub const VENDOR_UID: u32 = 0x8600_ff01;
/// The answer of KVM.
pub const KVM: [u32; 4] = [0xb66f_b428, 0xe911_c52e, 0x564b_caa9, 0x743a_004d];

/// Returns true if the CPU with this MIDR_EL1, in this machine, is emulated: also where its implementer is 0, which is
/// reserved for software (Arm ARM D24.2.137). `uid` is the answer to [`VENDOR_UID`], if it could be asked.
pub fn is_emulated(machine: &str, midr: u64, uid: Option<[u32; 4]>) -> bool {
    uid != Some(KVM) && (QEMU.contains(&machine) || midr >> 24 & 0xff == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEOVERSE_N1: u64 = 0x413f_d0c1;

    #[test]
    fn qemu_is_emulated_unless_kvm_runs_it() {
        for qemu in QEMU {
            assert!(is_emulated(qemu, NEOVERSE_N1, None));
            assert!(is_emulated(qemu, NEOVERSE_N1, Some([u32::MAX, 0, 0, 0])));
            assert!(!is_emulated(qemu, NEOVERSE_N1, Some(KVM)));
        }
        assert!(is_emulated("other", 0x000f_0510, None));
        assert!(!is_emulated("ampere,mtjade", NEOVERSE_N1, None));
    }
}
