//! Asks QEMU's monitor through the gdbstub (`qRcmd`): if the guest ran before the connection, where its RAM is, and
//! which CPUs it has. Stubs without a monitor answer none of this.

use linmap::Pa;

use super::error::StubError;
use super::stub::Stub;
use crate::source::Tables;
use crate::source::mark::Mark;
use crate::source::pause::Pause;
use crate::source::qemu::answers;

/// From this version on, a stub does not report that its target stopped on connection.
const SILENT: u32 = 8;

/// The state of the target before the connection, which stops it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Before {
    /// It ran. Holds the mark that was left on it, if there is a monitor.
    Ran(Option<Mark>),
    /// It was halted. Holds the mark of an earlier run that was killed while it read the target.
    Stood(Option<Mark>),
    /// Not known.
    Unknown,
}

impl Before {
    /// Finds out, and leaves a mark on a guest that ran, as it is halted now.
    pub(super) fn of(stub: &Stub) -> Self {
        // After a failure here, the next question tries the connection again.
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
        // `paused (prelaunch)` and similar states are not an effect of the connection.
        Ok(match would_have_told || status.contains("paused (") {
            true => Self::Stood(Mark::find(&ask("info chardev")?)),
            false => Self::Unknown,
        })
    }

    /// Returns true if the target is to run afterwards. One that may have run is.
    pub(super) fn goes_on(&self, pause: Pause) -> bool {
        pause.resume || !matches!(self, Self::Stood(_))
    }

    /// Returns the monitor command that removes the mark, for when the target runs again.
    pub(super) fn unmark(&self) -> Option<String> {
        match self {
            Self::Ran(Some(mark)) | Self::Stood(Some(mark)) => Some(mark.remove()),
            _ => None,
        }
    }

    /// Returns a note on the state of the target, if there is something to say.
    pub(super) fn note(&self, pause: Pause) -> Option<String> {
        match self {
            Self::Stood(Some(mark)) => Some(mark.note(pause)),
            _ => None,
        }
    }
}

/// Reads facts about the machine. Anything that fails stays unknown.
pub(super) fn learn(stub: &Stub, tables: &mut Tables) {
    let mut ask = |command: &str| stub.monitor(command).ok().flatten();
    let ram = ask("info mtree -f").map(|answer| answers::ram(&answer)).unwrap_or_default();
    tables.memory.set_ram(ram.iter().map(|ram| Pa(ram.pa)..Pa(ram.pa.saturating_add(ram.bytes))));
    if tables.cpu.midrs.is_empty() {
        tables.cpu.midrs = answers::midrs(&mut ask);
    }
}
