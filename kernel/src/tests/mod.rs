//! Function tests: what only a CPU shows, run by name (`run=NAME`).

pub(crate) mod cpus;
pub(crate) mod crash;
pub(crate) mod interrupts;
pub(crate) mod kprobes;
pub(crate) mod late;
pub(crate) mod modes;
pub(crate) mod modules;
mod planned;
pub(crate) mod protection;
pub(crate) mod selftest;
pub(crate) mod stress;
pub(crate) mod tally;
pub(crate) mod together;
pub(crate) mod vmalloc80;
