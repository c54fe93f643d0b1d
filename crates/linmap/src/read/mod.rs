//! Reading tables: live tables, dumps, anything that can be read.

mod check;
mod collapsed;
mod count;
mod cursor;
mod ptdump;
mod reader;
mod series;
mod table;
mod walk;

pub use check::{Checks, Finding, RunFault, check};
pub use collapsed::count_collapsed;
pub(crate) use count::{Tally, count_live, translated};
pub(crate) use cursor::{Source, Visitor, visit_span};
pub use ptdump::{DumpError, MarkedRange, dump, dump_with};
pub(crate) use reader::Live;
pub use reader::{Bounded, BoundedError, ReadTables};
pub(crate) use series::visit_series;
pub(crate) use table::{Entries, Table};
pub use walk::{Visited, count, visit};
