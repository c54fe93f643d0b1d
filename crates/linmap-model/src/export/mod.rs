//! Logs in the formats of other checkers, so that judges with other authors can judge the same run.
//!
//! [`casemate`] writes traces for casemate, a monitor of the break-before-make protocol; [`herd`] writes litmus tests for
//! herd7, a simulator of the architecture's memory model. Both are pure functions from a machine and its events to a text.
//! What a format cannot express is refused by name ([`Inexpressible`]); each function says what it leaves out.

mod casemate;
mod error;
mod herd;
mod program;
mod tables;
mod translation;

pub use casemate::casemate;
pub use error::{Inexpressible, Why};
pub use herd::{Question, herd};
