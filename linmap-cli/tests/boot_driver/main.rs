//! `linmap boot` with a stand-in for QEMU: what a machine may do, and what must come of it.
//! Real boots are tested elsewhere.

mod beginnings;
mod console;
mod endings;
mod machine;
mod reports;
