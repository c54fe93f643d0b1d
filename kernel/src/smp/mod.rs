//! The other CPUs: how they come up, wait, and are given work.

mod bring_up;
mod idle;
mod mailbox;
pub(crate) mod slot;
mod stacks;

pub(crate) use self::bring_up::{MayAbort, Refused, Team, bring_up};
pub(crate) use self::mailbox::{Mailbox, on, on_all};
pub(crate) use self::stacks::{guard as stack_guard, is_guard as is_stack_guard};
