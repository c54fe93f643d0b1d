//! The document of a run that was started by firmware and measures: it goes into the firmware's variables, from which the next start
//! makes a file.

use core::fmt;

use kernel::record::Lost;
use kernel_plan::efi::stored::{self, MOST, NotStored, Stored};

use crate::console::{self, say};
use crate::efi::{NoServices, with_services};
use crate::ending;
use crate::system::System;
use crate::warning::warn;

/// The reason why the document is stored nowhere.
enum NotKept {
    /// There is not enough memory for it.
    Lost(Lost),
    /// The firmware's services cannot be called.
    NoServices(NoServices),
    /// It is not stored.
    NotStored(NotStored),
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(Lost(bytes)) => {
                write!(f, "it is {bytes} bytes longer than the {MOST} that are possible")
            }
            Self::NoServices(why) => why.fmt(f),
            Self::NotStored(why) => why.fmt(f),
        }
    }
}

/// Returns true if a measurement that ends by a reset is over: this start has written its document to a file.
pub(crate) fn is_collected(system: &System<'_>) -> bool {
    system.args.resets && system.firmware.as_ref().is_some_and(|(handed, _)| handed.has_collected())
}

/// Stores the document of this run, which is about to end, if it is recorded. Returns false if a reset would not bring it further,
/// as it is not stored.
pub(crate) fn keep(system: &System<'_>, ok: bool) -> bool {
    let Some(document) = console::recorded(format_args!("{}\n", ending::Finished { ok })) else {
        return true;
    };
    match document.map_err(NotKept::Lost).and_then(|document| store(system, document)) {
        Ok(Stored { pieces, packed }) => {
            say!(
                "measure: the firmware keeps this document, the next start makes it a file ({pieces} of its variables, {packed} bytes)"
            );
            true
        }
        Err(why) => {
            warn(format_args!("this document becomes no file: {why}"));
            false
        }
    }
}

fn store(system: &System<'_>, document: &[u8]) -> Result<Stored, NotKept> {
    let Some((handed, work)) = &system.firmware else {
        return Err(NotKept::NoServices(NoServices::NoVariables));
    };
    let mut work = work.lock();
    with_services(handed, (system.frames, system.geometry), |services| {
        stored::store(services, document, &mut work)
    })
    .map_err(NotKept::NoServices)?
    .map_err(NotKept::NotStored)
}
