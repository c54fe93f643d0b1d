//! Table pages in host memory: for one thread, with hardware that does nothing, and for several threads. For planning,
//! tests and benchmarks.
//!
//! Physical addresses are invented. Only this library walks the tables.

mod pages;
mod shared;
mod single;
mod threads;

pub use pages::unshared_addresses;
pub use shared::SharedMemory;
pub use single::{Host, HostHeld, HostMemory, NoHardware};
pub use threads::{Threads, ThreadsHeld};
