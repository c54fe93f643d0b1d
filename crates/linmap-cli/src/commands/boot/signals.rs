//! Signals that ask this program to end become events, so that QEMU ends first.

use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Sends each signal from now on. Once `send` returns false, signals end the program.
pub(crate) fn watch(send: impl Fn(i32) -> bool + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    let forward = move || {
        for signal in signals.forever() {
            if !send(signal) {
                end_by(signal);
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(forward).map(drop)
}

/// Ends the program by this signal as if it had no handler, so that the parent process sees the cause and a shell
/// ends its loop.
pub(crate) fn end_by(signal: i32) {
    // It fails only for signals that do not exist.
    let _ = emulate_default_handler(signal);
}
