//! Holds back signals that would end this program while a guest is halted for it.
//!
//! While a [`Held`] exists, such a signal is only recorded. Code that reads from a guest asks [`came`] and returns
//! early, so that the guest runs again and temporary files are removed on the ordinary way out. When the last `Held`
//! is dropped, the signal has its usual effect, and the shell sees a program that a signal ended.
//!
//! Handlers only store numbers. A signal that was ignored when the program started stays ignored.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::flag::{register_conditional_default, register_usize};
use signal_hook::low_level::emulate_default_handler;

/// Signals that end a program. With them the one of Ctrl-Z is held back: a guest must not wait for a stopped program.
const ENDING: [i32; 10] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU];

/// State that handlers share with the program.
struct Signals {
    /// The number of existing [`Held`].
    holders: AtomicUsize,
    /// True if signals have their usual effect.
    usual: Arc<AtomicBool>,
    /// The number of the last signal that came and would end the program; 0 for none.
    ending: Arc<AtomicUsize>,
    /// The same for Ctrl-Z.
    stopping: Arc<AtomicUsize>,
}

static SIGNALS: OnceLock<Signals> = OnceLock::new();

/// Signals are held back while this exists.
#[derive(Debug)]
pub(super) struct Held(());

/// Holds signals back from now on.
pub(super) fn hold() -> Held {
    let signals = SIGNALS.get_or_init(install);
    signals.holders.fetch_add(1, SeqCst);
    signals.usual.store(false, SeqCst);
    Held(())
}

/// Returns true if a signal came that ends the program when nothing holds it back any more.
pub(super) fn came() -> bool {
    SIGNALS.get().is_some_and(|signals| signals.ending.load(SeqCst) != 0)
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(signals) = SIGNALS.get() else { return };
        if signals.holders.fetch_sub(1, SeqCst) != 1 {
            return;
        }
        // In this order, a signal is either found below or has its usual effect at once.
        signals.usual.store(true, SeqCst);
        for kept in [&signals.stopping, &signals.ending] {
            if let number @ 1.. = kept.swap(0, SeqCst) {
                // It fails only for signals that do not exist.
                let _ = emulate_default_handler(number as i32);
            }
        }
    }
}

fn install() -> Signals {
    let signals = Signals {
        holders: AtomicUsize::new(0),
        usual: Arc::new(AtomicBool::new(true)),
        ending: Arc::default(),
        stopping: Arc::default(),
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored(&status);
    for signal in ENDING.into_iter().chain([SIGTSTP]).filter(|signal| ignored >> (signal - 1i32) & 1 == 0) {
        let kept = if signal == SIGTSTP { &signals.stopping } else { &signals.ending };
        // They fail only for signals that cannot be handled. Actions run in the order in which they were added.
        let _ = register_usize(signal, kept.clone(), signal as usize);
        let _ = register_conditional_default(signal, signals.usual.clone());
    }
    signals
}

/// Returns the ignored signals, signal 1 in bit 0, from `/proc/self/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        assert_eq!(ignored("Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }
}
