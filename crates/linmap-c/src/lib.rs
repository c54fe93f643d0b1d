//! `linmap` for kernels in C: what `linmap.h` declares.
//!
//! A call checks its arguments, makes the library's platform of the kernel's callbacks, and returns an error as a
//! negative number. No call allocates: the state of a map is in memory of the kernel, and table pages come from it.
//! Nothing is called through a pointer, so that a kernel with control flow integrity needs no exceptions for it.
//!
//! | file | content |
//! |---|---|
//! | `types` | the structures and constants of the header |
//! | `callbacks` | the functions that the kernel provides |
//! | `errno` | which error becomes which number |
//! | `platform` | the library's memory and hardware, made of callbacks |
//! | `map` | the state of a map in memory of the kernel |
//! | `regions` | the regions of a caller as the library's |
//! | `create`, `change`, `hotplug`, `cpu` | the functions that the kernel calls |
//! | `panic` | where a panic of the library goes |
#![no_std]
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod callbacks;
mod change;
mod cpu;
mod create;
mod errno;
mod hotplug;
mod map;
#[cfg(feature = "object")]
mod panic;
mod platform;
mod regions;
mod types;

pub use change::{
    linmap_change, linmap_change_pages, linmap_collapse, linmap_flush, linmap_is_busy, linmap_map,
    linmap_promise, linmap_repaint, linmap_split, linmap_split_cost, linmap_stats, linmap_unmap,
};
pub use cpu::linmap_never_aborts;
pub use create::{
    linmap_adopt, linmap_create, linmap_init, linmap_move_tables, linmap_root, linmap_tables_needed,
};
pub use errno::{
    LINMAP_EACCES, LINMAP_EAGAIN, LINMAP_EBUSY, LINMAP_EEXIST, LINMAP_EINVAL, LINMAP_ENOENT, LINMAP_ENOMEM,
    LINMAP_EOPNOTSUPP, LINMAP_EPERM, LINMAP_ERANGE, LINMAP_ETIMEDOUT, LINMAP_EUCLEAN,
};
pub use hotplug::{linmap_add, linmap_remove};
pub use types::*;
