//! The functions of QEMU and GLib that this plugin calls, as QEMU 10.0 and 11.1 have them.
//!
//! QEMU 10.0 takes plugins of version 4, and 11.1 those of version 7. Between the two, callbacks without user data got some, as the last
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

/// GLib's arrays: of registers, and of bytes.
#[repr(C)]
pub(crate) struct Array {
    pub(crate) data: *mut u8,
    pub(crate) len: c_uint,
}

/// The beginning of a register's description. It has as many bytes as the array's elements.
#[repr(C)]
pub(crate) struct Description {
    pub(crate) handle: *mut Opaque,
    pub(crate) name: *const c_char,
}

/// A callback needs no registers; it reads some.
pub(crate) const NO_REGISTERS: c_int = 0;
pub(crate) const READS_REGISTERS: c_int = 1;
/// A callback is for stores.
pub(crate) const STORES: c_int = 2;

/// A callback when an instruction is executed.
pub(crate) type Executed = extern "C" fn(cpu: c_uint, data: *mut c_void);
/// A callback after an access to memory.
pub(crate) type Accessed = extern "C" fn(cpu: c_uint, access: u32, va: u64, data: *mut c_void);

#[cfg(not(feature = "api-7"))]
mod version {
    use super::{Id, Opaque, c_void};

    pub(crate) const VERSION: i32 = 4;
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
    pub(crate) fn qemu_plugin_insn_data(instruction: *const Opaque, to: *mut c_void, bytes: usize) -> usize;
    pub(crate) fn qemu_plugin_mem_size_shift(access: u32) -> c_uint;
    pub(crate) fn qemu_plugin_get_hwaddr(access: u32, va: u64) -> *mut Opaque;
    pub(crate) fn qemu_plugin_hwaddr_is_io(address: *const Opaque) -> bool;
    pub(crate) fn qemu_plugin_hwaddr_phys_addr(address: *const Opaque) -> u64;
    pub(crate) fn qemu_plugin_get_registers() -> *mut Array;
    pub(crate) fn qemu_plugin_read_register(register: *mut Opaque, bytes: *mut Array) -> c_int;
    pub(crate) fn g_array_get_element_size(array: *mut Array) -> c_uint;
    pub(crate) fn g_array_unref(array: *mut Array);
    pub(crate) fn g_byte_array_new() -> *mut Array;
    pub(crate) fn g_byte_array_unref(bytes: *mut Array);
}
