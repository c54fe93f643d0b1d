//! Workloads: what is done to be counted, run by name (`run=NAME`).

pub(crate) mod bench;
pub(crate) mod costs;
