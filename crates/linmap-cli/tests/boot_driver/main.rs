//! `linmap boot` with a stand-in for QEMU: every behaviour of a machine, and the result. Real boots are tested
//! elsewhere.

mod beginnings;
mod console;
mod endings;
mod machine;
mod reports;
