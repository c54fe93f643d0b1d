//! Tables of real kernels, read in every possible way: Debian's, under QEMU. `make test-linux` fetches them.
//!
//! - `counts`: the known numbers of leaves.  `agreement`: other CPUs, other exception levels, at random places.
//! - `advice`: advice is followed, on each release.  `taken`: pages that Linux takes out of its map.
//! - `dumps`: compressed cores, symbols, and whose pages are.
//! - `kexec`: the image in the place of Linux.
//! - `crash`: a crash kernel reads the one that panicked, and makedumpfile writes it.  `owned`: pages of known owners.
//! - `halts`: how long a guest stands still.
//! - `readme`: the examples of README.md.
//! - `bad_guests`: messages if there is nothing to read.
//! - `guest`: a kernel under QEMU.  `monitor`: QEMU's monitor.  `initrd`, `taker/`: the programs of the guest.
//! - `sources`: one guest by every SOURCE.

mod advice;
mod agreement;
mod bad_guests;
mod counts;
mod crash;
mod dumps;
mod guest;
mod halts;
mod initrd;
mod kexec;
mod monitor;
mod owned;
mod readme;
mod sources;
mod taken;
