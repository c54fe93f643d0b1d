//! The commands: one module for each.

pub(crate) mod boot;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod csv;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod image;
pub(crate) mod judge;
pub(crate) mod manual;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod owners;
pub(crate) mod pausing;
pub(crate) mod picture;
pub(crate) mod plan;
pub(crate) mod reading;
pub(crate) mod report;
pub(crate) mod selection;
pub(crate) mod stat;
pub(crate) mod tlb;
pub(crate) mod walk;
pub(crate) mod watch;
