//! Tables of real kernels, read in every way there is: Debian's, under QEMU. `make test-linux` fetches them.
//!
//! - `counts`: what the maps are known to be.  `agreement`: other CPUs, other exception levels, at random places.
//! - `advice`: what is advised is followed, on each release.  `taken`: pages that Linux takes out of its map.
//! - `readme`: what README.md shows.
//! - `bad_guests`: what is said when there is nothing to read.
//! - `guest`: a kernel under QEMU.  `monitor`: QEMU's monitor.  `initrd`, `taker/`: what the kernel boots into.
//! - `sources`: one guest by every SOURCE.

mod advice;
mod agreement;
mod bad_guests;
mod counts;
mod guest;
mod initrd;
mod monitor;
mod readme;
mod sources;
mod taken;
