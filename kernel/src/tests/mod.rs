//! Function tests: what only a CPU shows, run by name (`run=NAME`).

pub(crate) mod protection;
pub(crate) mod selftest;
