//! Maps in host memory: linmap compared with memset, with plain loops over the entries, and with other libraries.
//!
//! Times are thread CPU time. All subjects use the same table pages, written before the first measurement. They are
//! measured in turns, so that a slower machine slows all of them, and each ratio compares two samples taken one after
//! the other.

mod case;
mod plan;
mod pool;
mod row;

pub(crate) use case::{Case, LOOK_UPS, Operation, sample};
pub(crate) use plan::{OFFSET, Plan};
pub(crate) use pool::{Loan, Loop, Pool, give, take};
pub(crate) use row::{LIBRARIES, Row, row, versus};
