//! The other CPUs: how they are let in, sleep, are given jobs, and are held for a moment.

mod bring_up;
mod held;
mod idle;
mod mailbox;
mod slot;
mod spin_table;
mod stacks;
pub(crate) mod team;

pub(crate) use self::bring_up::bring_up;
pub(crate) use self::held::{asked, hold, while_others_wait};
pub(crate) use self::mailbox::{on, on_all};
