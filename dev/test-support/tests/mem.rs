//! The functions by which a kernel that is built with Debian's Rust copies memory ([dev/scripts/mem.rs](../../scripts/mem.rs)) do what C says.

#[allow(unreachable_pub, reason = "a kernel has it as a crate of its own")]
#[path = "../../scripts/mem.rs"]
mod mem;
