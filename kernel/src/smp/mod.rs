//! The other CPUs: how they come up, wait, and are given work.

mod bring_up;
mod idle;
mod mailbox;
pub(crate) mod slot;
mod stacks;
mod stopped;

pub(crate) use self::bring_up::{MayAbort, Refused, Team, bring_up};
pub(crate) use self::mailbox::{Mailbox, on, on_all};
pub(crate) use self::stacks::{AREA as STACKS, guard as stack_guard, is_guard as is_stack_guard};
pub(crate) use self::stopped::{asked, hold, while_others_wait};
