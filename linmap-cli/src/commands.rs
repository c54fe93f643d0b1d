//! What the command can do: one module for each.

pub(crate) mod boot;
