//! The kernel's virtual addresses outside the linear map: image, registers, stacks of the other CPUs.

use kernel_plan::cpus;
use linmap::{Geometry, Va};

/// The address that the image is linked at; the same number is in `image.ld`.
pub(crate) const KERNEL_VA: u64 = 0xffff_ffff_8000_0000;
/// The page of the console's registers, above any image.
pub(crate) const DEVICE_VA: u64 = KERNEL_VA + (256 << 20);
/// The page of the fallback console beside the one in use, for when that one faults.
pub(crate) const EMERGENCY_UART: Va = Va(DEVICE_VA + (1 << 20));
/// The first address for registers of other devices.
pub(crate) const REGISTERS_VA: u64 = EMERGENCY_UART.0 + (64 << 10);

/// The first address for stacks of the other CPUs: the upper end of the vmalloc area.
pub(crate) const STACKS: u64 = KERNEL_VA - (1 << 30);
/// The bytes of such a stack, if a page has no more.
pub(crate) const STACK: u64 = 64 << 10;

/// Returns true for a register of the console in use.
pub(crate) const fn is_console(va: Va) -> bool {
    va.0 >= DEVICE_VA && va.0 < EMERGENCY_UART.0
}

/// Returns the bytes of the stack of a CPU other than the boot CPU.
pub(crate) fn stack_bytes(geometry: Geometry) -> u64 {
    STACK.max(geometry.page_size())
}

/// Returns the lowest address of a CPU's stack. Below it, as many bytes are not mapped.
pub(crate) fn stack_start(cpu: usize, geometry: Geometry) -> Va {
    Va(STACKS + (2 * cpu as u64 + 1) * stack_bytes(geometry))
}

/// Returns the page below the stack of a CPU other than the boot CPU, which is not mapped.
pub(crate) fn stack_guard(cpu: usize, geometry: Geometry) -> Va {
    Va(stack_start(cpu, geometry).0 - geometry.page_size())
}

/// Returns true for an address in the page below one of these stacks.
pub(crate) fn is_stack_guard(va: Va, geometry: Geometry) -> bool {
    let page = Va(va.0 & !(geometry.page_size() - 1));
    (1..cpus::MAX).any(|cpu| stack_guard(cpu, geometry) == page)
}
