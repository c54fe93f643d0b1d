//! Warnings: what people should know and that changes nothing else.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kernel_plan::note::Note;

use crate::console::say;
use crate::json;

/// Prints a warning, for people and for programs.
pub(crate) fn warn(what: fmt::Arguments<'_>) {
    static WARNINGS: AtomicU32 = AtomicU32::new(0);
    let number = WARNINGS.fetch_add(1, Relaxed);
    say!("warning: {what}");
    say!("linmap: {{\"messages\":{{\"{number}\":\"{}\"}}}}", json::Text(what));
}

/// Warns of something that is left out of the device tree or of memory.
pub(crate) fn note(note: Note<'_>) {
    warn(format_args!("{note}"));
}
