//! What QEMU's monitor says, asked through the gdbstub (`qRcmd`): whether the guest ran before it was connected
//! to, where its RAM is, which CPUs it has. Stubs without a monitor say none of that.

use linmap::Pa;

use super::stub::{Stub, StubError};
use crate::source::mark::Mark;
use crate::source::pause::Pause;
use crate::source::qemu::answers;
use crate::source::{Tables, midrs_of_qemu};

/// From this version on a stub keeps to itself that its target stopped when it was connected to.
const SILENT: u32 = 8;

/// What the target did before it was connected to. Being connected to stops it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Before {
    /// It ran; with the mark that was left on it, where there is a monitor to leave one.
    Ran(Option<Mark>),
    /// It stood still; with the mark of a run that was killed while it read it.
    Stood(Option<Mark>),
    /// The stub does not tell.
    Unknown,
}

impl Before {
    /// Finds out, and leaves a mark on a guest that ran: it stands still now.
    pub(super) fn of(stub: &Stub) -> Self {
        // Whatever goes wrong here, the connection is tried again by what comes next.
        Self::asked(stub).unwrap_or(Self::Unknown)
    }

    fn asked(stub: &Stub) -> Result<Self, StubError> {
        if stub.has_stopped() {
            let mark = Mark::own(false);
            let made = stub.monitor(&mark.add())?.is_some();
            return Ok(Self::Ran(made.then_some(mark)));
        }
        let ask = |command| stub.monitor(command).map(Option::unwrap_or_default);
        let status = ask("info status")?;
        let major = answers::version(&ask("info version")?);
        let major: Option<u32> = major.and_then(|version| version.split('.').next()?.parse().ok());
        let would_have_told = status.contains("paused") && major.is_some_and(|major| major < SILENT);
        // `paused (prelaunch)` and its like are no effect of a connection.
        Ok(match would_have_told || status.contains("paused (") {
            true => Self::Stood(Mark::find(&ask("info chardev")?)),
            false => Self::Unknown,
        })
    }

    /// Whether the target is to go on afterwards. One that may have run does.
    pub(super) fn goes_on(&self, pause: Pause) -> bool {
        pause.resume || !matches!(self, Self::Stood(_))
    }

    /// The monitor's command that takes the mark away, once the target goes on.
    pub(super) fn unmark(&self) -> Option<String> {
        match self {
            Self::Ran(Some(mark)) | Self::Stood(Some(mark)) => Some(mark.remove()),
            _ => None,
        }
    }

    /// What is worth knowing of it.
    pub(super) fn note(&self, pause: Pause) -> Option<String> {
        match self {
            Self::Stood(Some(mark)) => Some(mark.note(pause)),
            _ => None,
        }
    }
}

/// What can be learnt of the machine. Whatever fails here is unknown, no more.
pub(super) fn learn(stub: &Stub, tables: &mut Tables) {
    let mut ask = |command: &str| stub.monitor(command).ok().flatten();
    let ram = ask("info mtree -f").map(|answer| answers::ram(&answer)).unwrap_or_default();
    tables.memory.set_ram(ram.iter().map(|ram| Pa(ram.pa)..Pa(ram.pa.saturating_add(ram.bytes))));
    if tables.cpu.midrs.is_empty() {
        tables.cpu.midrs = midrs_of_qemu(&mut ask);
    }
}
