//! linmap, copied and patched by the build script: a mistake can be switched on for the whole process.

#![no_std]
#![allow(warnings, clippy::all)] // linted where it comes from

/// The mistakes in this copy of the library.
pub mod mistakes {
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

    include!("patch.rs");

    /// The patch that is switched on, counted from 1; 0 for none.
    static SWITCHED_ON: AtomicU8 = AtomicU8::new(0);

    /// Switches one mistake on, and all others off.
    pub fn switch_on(patch: Option<Patch>) {
        SWITCHED_ON.store(patch.map_or(0, |patch| patch as u8 + 1), Relaxed);
    }

    /// True while that mistake is switched on: what `FAULT` stands for in a patch.
    pub(crate) fn is_on(patch: Patch) -> bool {
        SWITCHED_ON.load(Relaxed) == patch as u8 + 1
    }
}

include!(concat!(env!("OUT_DIR"), "/linmap/lib.rs"));
