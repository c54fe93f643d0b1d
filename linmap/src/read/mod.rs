//! What tables say: on live tables, on dumps, on anything whose tables can be read.

mod check;
mod ptdump;
mod reader;
mod table;
mod walk;

pub use check::{Checks, Finding, RunFault, check};
pub use ptdump::{DumpError, Marked, dump};
pub(crate) use reader::Live;
pub use reader::{Bounded, ReadTables, Refused};
pub(crate) use table::Table;
pub use walk::{count, visit};
