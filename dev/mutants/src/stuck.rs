//! Ends a process that is stuck: all its threads sleep, and go on sleeping. It would never reach a limit of CPU time.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, thread};

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(5);
/// So many looks in a row find a stuck process as it was: a minute. Tests never sleep that long.
const LOOKS: u32 = 12;

/// A process, until it is known to have ended.
pub(crate) struct Watched {
    ended: Sender<()>,
    watcher: JoinHandle<bool>,
}

impl Watched {
    pub(crate) fn new(process: u32) -> Self {
        let (ended, end) = mpsc::channel();
        let watch = move || {
            let (mut before, mut looks) = (None, 0);
            while end.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let now = asleep(process);
                looks = if now.is_some() && now == before { looks + 1 } else { 0 };
                before = now;
                if looks == LOOKS {
                    // It may have ended by itself just now.
                    _ = Command::new("kill").args(["-9", &process.to_string()]).status();
                    return true;
                }
            }
            false
        };
        Self { ended, watcher: thread::spawn(watch) }
    }

    /// Says that its output has ended. Returns true if it was stuck, and so was killed.
    pub(crate) fn end(self) -> bool {
        drop(self.ended);
        self.watcher.join().unwrap_or(false)
    }
}

/// Returns the CPU time that each thread of a process has had, if all of them sleep.
fn asleep(process: u32) -> Option<Vec<String>> {
    let threads = fs::read_dir(Path::new("/proc").join(process.to_string()).join("task")).ok()?;
    threads.map(|thread| sleeps(&fs::read_to_string(thread.ok()?.path().join("stat")).ok()?)).collect()
}

/// Returns the CPU time of a thread that sleeps, from its line in `/proc`. The name, in parentheses, may contain anything.
fn sleeps(stat: &str) -> Option<String> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (*fields.first()? == "S").then(|| fields.get(11..13).map(|times| times.join(" "))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_thread_is_known_by_its_state() {
        let line = |state: &str| format!("7 (a ) S b) {state} 1 2 3 4 5 6 7 8 9 10 41 42 0 0");
        assert_eq!(sleeps(&line("S")), Some("41 42".to_owned()));
        for state in ["R", "D", "Z"] {
            assert_eq!(sleeps(&line(state)), None);
        }
        assert_eq!(sleeps("7 (cut"), None);
    }

    #[test]
    fn this_thread_does_not_sleep() {
        assert_eq!(asleep(std::process::id()), None);
    }

    #[test]
    fn a_process_that_ends_was_not_stuck() {
        let mut child = Command::new("true").spawn().unwrap();
        let watched = Watched::new(child.id());
        child.wait().unwrap();
        assert!(!watched.end());
    }
}
