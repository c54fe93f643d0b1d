//! The QEMU plugin of `linmap judge`, and one that counts lines of memory for `make counts`.
//!
//! A build is one of the two, for one version of QEMU's plugins; features choose.
//!
//! - `qemu`: QEMU's functions.
//! - `judge`: shows what a guest does to the judge. `registers`: the registers of the CPU that calls it.
//! - `lines`: with the feature of this name, counts lines of memory between marks. `between`: what it counts.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

#[cfg(feature = "lines")]
mod between;
#[cfg(not(feature = "lines"))]
mod judge;
#[cfg(feature = "lines")]
mod lines;
mod qemu;
#[cfg(not(feature = "lines"))]
mod registers;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;

#[cfg(not(feature = "lines"))]
use crate::judge as mode;
#[cfg(feature = "lines")]
use crate::lines as mode;
use crate::qemu::{Id, Info, Opaque, VERSION, on_translation, qemu_plugin_register_atexit_cb};

/// The version of plugins that this one is; QEMU reads it.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = VERSION;

/// QEMU calls this when it has loaded the plugin. Returns 0, or -1 if the plugin cannot work.
///
/// # Safety
///
/// `info` and `argc` pointers to C strings at `argv` can be read: QEMU's contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: by the contract.
    let arguments: Vec<String> = (0..argc as usize)
        .map(|n| unsafe { CStr::from_ptr(*argv.add(n)) }.to_string_lossy().into_owned())
        .collect();
    // SAFETY: by the contract.
    let info = unsafe { &*info };
    // SAFETY: by the contract.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    let begun = match target.to_bytes() == b"aarch64" && info.system_emulation {
        true => mode::begin(info, &arguments),
        false => Err("the plugin is for qemu-system-aarch64".into()),
    };
    if let Err(why) = begun {
        let _ = writeln!(std::io::stderr(), "linmap {}: {why}", mode::NAME);
        return -1;
    }
    // SAFETY: QEMU has just called this, with the plugin's number. The callbacks stay loaded.
    unsafe {
        on_translation(id, translated);
        qemu_plugin_register_atexit_cb(id, ended, std::ptr::null_mut());
    }
    0
}

#[cfg(not(feature = "api-7"))]
extern "C" fn translated(_: Id, block: *mut Opaque) {
    mode::instrument(block);
}

#[cfg(feature = "api-7")]
extern "C" fn translated(block: *mut Opaque, _: *mut c_void) {
    mode::instrument(block);
}

#[cfg(not(feature = "api-7"))]
extern "C" fn ended(_: Id, _: *mut c_void) {
    mode::finish();
}

#[cfg(feature = "api-7")]
extern "C" fn ended(_: *mut c_void) {
    mode::finish();
}
