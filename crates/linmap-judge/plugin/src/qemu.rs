//! The functions of QEMU that this plugin calls, as QEMU 7.2, 10.0 and 11.1 have them.
//!
//! QEMU up to 8.2 takes plugins of version 1, 10.0 those of version 4, and 11.1 those of version 7. Up to version 2 the bytes of an
//! instruction are QEMU's, and the plugin gets a pointer to them. Between 4 and 7, callbacks without user data got some, as the last
//! argument, and lost the plugin's number, which was the first.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The plugin's number.
pub(crate) type Id = u64;

/// A block that QEMU translates, an instruction in it, a store, an address, a register: QEMU's own.
pub(crate) type Opaque = c_void;

/// The beginning of what QEMU says of itself.
#[repr(C)]
pub struct Info {
    pub(crate) target_name: *const c_char,
    pub(crate) version_min: c_int,
    pub(crate) version_cur: c_int,
    pub(crate) system_emulation: bool,
    pub(crate) smp_vcpus: c_int,
    pub(crate) max_vcpus: c_int,
}

/// A callback needs no registers; it reads some.
pub(crate) const NO_REGISTERS: c_int = 0;
#[cfg(not(feature = "lines"))]
pub(crate) const READS_REGISTERS: c_int = 1;
/// A callback is for stores; for loads and stores.
#[cfg(not(feature = "lines"))]
pub(crate) const STORES: c_int = 2;
#[cfg(feature = "lines")]
pub(crate) const ACCESSES: c_int = 3;

/// A callback when an instruction is executed.
pub(crate) type Executed = extern "C" fn(cpu: c_uint, data: *mut c_void);
/// A callback after an access to memory.
pub(crate) type Accessed = extern "C" fn(cpu: c_uint, access: u32, va: u64, data: *mut c_void);

#[cfg(not(feature = "api-7"))]
mod version {
    use super::{Id, Opaque, c_void};

    pub(crate) const VERSION: i32 = if cfg!(feature = "lines") { 1 } else { 4 };
    /// A callback when a block is translated, and one when QEMU ends.
    pub(crate) type Translated = extern "C" fn(id: Id, block: *mut Opaque);
    pub(crate) type Ended = extern "C" fn(id: Id, data: *mut c_void);

    unsafe extern "C" {
        fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: Translated);
    }

    /// Has a function called for each block that is translated.
    ///
    /// # Safety
    ///
    /// QEMU has just called the plugin's `install`, with this number.
    pub(crate) unsafe fn on_translation(id: Id, callback: Translated) {
        // SAFETY: as the caller promises.
        unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, callback) };
    }
}

#[cfg(feature = "api-7")]
mod version {
    use super::{Id, Opaque, c_void};

    pub(crate) const VERSION: i32 = 7;
    /// A callback when a block is translated, and one when QEMU ends.
    pub(crate) type Translated = extern "C" fn(block: *mut Opaque, data: *mut c_void);
    pub(crate) type Ended = extern "C" fn(data: *mut c_void);

    unsafe extern "C" {
        fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: Translated, data: *mut c_void);
    }

    /// Has a function called for each block that is translated.
    ///
    /// # Safety
    ///
    /// QEMU has just called the plugin's `install`, with this number.
    pub(crate) unsafe fn on_translation(id: Id, callback: Translated) {
        // SAFETY: as the caller promises.
        unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, callback, std::ptr::null_mut()) };
    }
}

pub(crate) use version::{Ended, VERSION, on_translation};

unsafe extern "C" {
    pub(crate) fn qemu_plugin_register_atexit_cb(id: Id, callback: Ended, data: *mut c_void);
    pub(crate) fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Opaque,
        callback: Executed,
        flags: c_int,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Opaque,
        callback: Accessed,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_tb_n_insns(block: *const Opaque) -> usize;
    pub(crate) fn qemu_plugin_tb_get_insn(block: *const Opaque, at: usize) -> *mut Opaque;
    pub(crate) fn qemu_plugin_insn_vaddr(instruction: *const Opaque) -> u64;
    #[cfg(feature = "lines")]
    pub(crate) fn qemu_plugin_mem_is_store(access: u32) -> bool;
    #[cfg(feature = "lines")]
    fn qemu_plugin_insn_data(instruction: *const Opaque) -> *const [u8; 4];
    #[cfg(feature = "lines")]
    fn qemu_plugin_insn_size(instruction: *const Opaque) -> usize;
    #[cfg(not(feature = "lines"))]
    fn qemu_plugin_insn_data(instruction: *const Opaque, to: *mut c_void, bytes: usize) -> usize;
    pub(crate) fn qemu_plugin_mem_size_shift(access: u32) -> c_uint;
    fn qemu_plugin_get_hwaddr(access: u32, va: u64) -> *mut Opaque;
    fn qemu_plugin_hwaddr_is_io(address: *const Opaque) -> bool;
    fn qemu_plugin_hwaddr_phys_addr(address: *const Opaque) -> u64;
}

/// Returns an instruction, if it has 4 bytes.
///
/// # Safety
///
/// QEMU translates the block that the instruction is in.
#[cfg(feature = "lines")]
pub(crate) unsafe fn word(instruction: *const Opaque) -> Option<u32> {
    // SAFETY: as the caller promises. QEMU's pointer is good for as long, and for as many bytes as it says.
    unsafe {
        (qemu_plugin_insn_size(instruction) == 4)
            .then(|| u32::from_le_bytes(qemu_plugin_insn_data(instruction).read()))
    }
}

/// Returns an instruction, if it has 4 bytes.
///
/// # Safety
///
/// QEMU translates the block that the instruction is in.
#[cfg(not(feature = "lines"))]
pub(crate) unsafe fn word(instruction: *const Opaque) -> Option<u32> {
    let mut bytes = [0u8; 4];
    // SAFETY: as the caller promises. It writes at most 4 bytes.
    let read = unsafe { qemu_plugin_insn_data(instruction, bytes.as_mut_ptr().cast(), 4) };
    (read == 4).then(|| u32::from_le_bytes(bytes))
}

/// Returns the physical address of an access to RAM.
///
/// # Safety
///
/// QEMU calls for this access.
pub(crate) unsafe fn physical(access: u32, va: u64) -> Option<u64> {
    // SAFETY: as the caller promises; QEMU's address is good for as long.
    unsafe {
        let address = qemu_plugin_get_hwaddr(access, va);
        let is_ram = !address.is_null() && !qemu_plugin_hwaddr_is_io(address);
        is_ram.then(|| qemu_plugin_hwaddr_phys_addr(address))
    }
}
