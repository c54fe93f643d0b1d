//! Function tests: what only a CPU shows, run by name (`run=NAME`).

pub(crate) mod cpus;
pub(crate) mod interrupts;
pub(crate) mod protection;
pub(crate) mod selftest;
pub(crate) mod together;
