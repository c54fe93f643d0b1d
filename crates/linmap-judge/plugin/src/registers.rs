//! The registers of the CPU that calls the plugin.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr;
use std::sync::OnceLock;

use crate::qemu::Opaque;

/// GLib's arrays: of registers, and of bytes.
#[repr(C)]
struct Array {
    data: *mut u8,
    len: c_uint,
}

/// The beginning of a register's description. It has as many bytes as the array's elements.
#[repr(C)]
struct Description {
    handle: *mut Opaque,
    name: *const c_char,
}

unsafe extern "C" {
    fn qemu_plugin_get_registers() -> *mut Array;
    fn qemu_plugin_read_register(register: *mut Opaque, bytes: *mut Array) -> c_int;
    fn g_array_get_element_size(array: *mut Array) -> c_uint;
    fn g_array_unref(array: *mut Array);
    fn g_byte_array_new() -> *mut Array;
    fn g_byte_array_unref(bytes: *mut Array);
}

/// QEMU's handles of the registers that are read. All CPUs have the same ones.
struct Handles {
    general: [Option<Handle>; 31],
    pstate: Option<Handle>,
    spsr: Option<Handle>,
}

#[derive(Clone, Copy)]
struct Handle(*mut Opaque);

// SAFETY: QEMU's handles are numbers of registers, valid in all threads for as long as QEMU runs.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Returns the handles, and looks them up the first time.
fn handles() -> &'static Handles {
    static HANDLES: OnceLock<Handles> = OnceLock::new();
    HANDLES.get_or_init(|| {
        let all = list();
        let of =
            |names: &[&str]| all.iter().find(|(name, _)| names.contains(&name.as_str())).map(|(_, h)| *h);
        Handles {
            general: std::array::from_fn(|n| of(&[&format!("x{n}")])),
            pstate: of(&["cpsr"]),
            spsr: of(&["SPSR_EL1", "SPSR"]),
        }
    })
}

/// Returns the names of all registers, each with its handle.
fn list() -> Vec<(String, Handle)> {
    // SAFETY: QEMU calls the plugin on the thread of a CPU. The array is the plugin's own until it gives it back; its elements begin
    // with a `Description`, whose strings live as long as QEMU.
    unsafe {
        let array = qemu_plugin_get_registers();
        if array.is_null() {
            return Vec::new();
        }
        let size = g_array_get_element_size(array) as usize;
        let element = |n: usize| ptr::read_unaligned((*array).data.add(n * size).cast::<Description>());
        let named =
            |d: Description| (CStr::from_ptr(d.name).to_string_lossy().into_owned(), Handle(d.handle));
        let all = (0..(*array).len as usize).map(|n| named(element(n))).collect();
        g_array_unref(array);
        all
    }
}

/// Reads a register of up to 8 bytes of this CPU.
fn read(handle: Option<Handle>) -> Option<u64> {
    let handle = handle?;
    // SAFETY: QEMU calls the plugin on the thread of a CPU, with leave to read registers. The bytes are the plugin's own.
    unsafe {
        let bytes: *mut Array = g_byte_array_new();
        qemu_plugin_read_register(handle.0, bytes);
        let mut value = [0; 8];
        let count = ((*bytes).len as usize).min(8);
        ptr::copy_nonoverlapping((*bytes).data, value.as_mut_ptr(), count);
        g_byte_array_unref(bytes);
        (count != 0).then(|| u64::from_le_bytes(value))
    }
}

/// Returns a general register; 31 is zero.
pub(crate) fn general(number: u8) -> u64 {
    handles().general.get(usize::from(number)).and_then(|handle| read(*handle)).unwrap_or_default()
}

/// Returns the exception level of a value of PSTATE or SPSR, or `None` in AArch32.
const fn level(state: u64) -> Option<u8> {
    if state >> 4 & 1 == 1 { None } else { Some((state >> 2 & 3) as u8) }
}

/// Returns the exception level of this CPU.
pub(crate) fn current_level() -> Option<u8> {
    level(read(handles().pstate)?)
}

/// Where an exception return from EL1 goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lower {
    /// It stays at EL1.
    No,
    /// EL0.
    El0,
    /// EL0 in AArch32.
    AArch32,
}

/// Returns where an exception return from EL1 goes; `None` if that is not known.
pub(crate) fn returns_to() -> Option<Lower> {
    let state = read(handles().spsr)?;
    Some(match state & 0x1f {
        0 => Lower::El0,
        0x10 => Lower::AArch32,
        _ => Lower::No,
    })
}
