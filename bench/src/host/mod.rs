//! Maps in host memory: linmap beside memset, beside loops that decide nothing, and beside other libraries.
//!
//! Thread CPU time, the same table pages for all, written before the first measurement. What is compared is
//! measured in turns, so that whatever slows the machine down slows all of it, and each ratio is that of
//! neighbours in time.

mod case;
mod plan;
mod pool;
mod row;

pub(crate) use case::{Case, LOOK_UPS, Operation, sample};
pub(crate) use plan::{OFFSET, Plan};
pub(crate) use pool::{Loan, Loop, Pool, give, take};
pub(crate) use row::{LIBRARIES, Row, row, versus};
