//! The line on a terminal that says what takes longer than a second, and how far it is.
//!
//! Steps follow each other until the command writes anything; the second counts from the first of them. A thread draws the line, so that work that
//! counts nothing is seen as well, and costs nothing. Unless stderr is the terminal of this process there is no line: in a
//! pipe never, not if TERM is dumb, and not in the background, where writing could stop the program while a guest is halted.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::size::grouped;

/// The time after which a step is shown, and after which the line is drawn again.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const DRAWN_EACH: Duration = Duration::from_millis(100);

/// The progress of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The step, in words such as `reading tables`.
    pub(crate) what: &'static str,
    /// The part that is done, in units of the step; 0 if nothing is counted.
    pub(crate) done: u64,
    /// The whole, if known.
    pub(crate) total: Option<u64>,
}

/// The line of this process.
static LINE: Mutex<Line> = Mutex::new(Line { step: None, is_shown: false, has_thread: false });

struct Line {
    /// The current step, and when the first of those that it follows began.
    step: Option<(Step, Instant)>,
    is_shown: bool,
    has_thread: bool,
}

impl Line {
    fn show(&mut self, step: Step) {
        let begun = self.step.map_or_else(Instant::now, |(_, begun)| begun);
        self.step = Some((step, begun));
    }
}

/// Begins a step in which nothing is counted.
pub(crate) fn begin(what: &'static str) {
    draw(line(), Step { what, done: 0, total: None });
}

/// Shows how far a step is. Does not wait for a terminal that stands still, as a guest may be halted meanwhile.
pub(crate) fn show(step: Step) {
    if let Ok(line) = LINE.try_lock() {
        draw(line, step);
    }
}

fn draw(mut line: MutexGuard<'_, Line>, step: Step) {
    line.show(step);
    if !line.has_thread && io::stderr().is_terminal() && !is_dumb() {
        // Without the thread there is no line, which nothing depends on.
        line.has_thread = std::thread::Builder::new().spawn(draw_again_and_again).is_ok();
    }
}

/// Ends the step and removes the line, before anything else is written.
pub(crate) fn end() {
    let mut line = line();
    line.step = None;
    if line.is_shown {
        line.is_shown = false;
        // If stderr is gone, progress is of no use.
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

/// Returns true if the terminal prints lines, and knows no sequences that move its cursor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

fn line() -> MutexGuard<'static, Line> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn draw_again_and_again() {
    loop {
        std::thread::sleep(DRAWN_EACH);
        let mut line = line();
        let Some((step, begun)) = line.step else { continue };
        let Some(text) = text(step, begun.elapsed()).filter(|_| is_in_front()) else { continue };
        line.is_shown = true;
        // As above.
        let _ = write!(io::stderr(), "\r\x1b[K{text}");
    }
}

/// Returns the line of a step; `None` for one that may end soon.
fn text(step: Step, elapsed: Duration) -> Option<String> {
    if elapsed < SHOWN_AFTER {
        return None;
    }
    let Step { what, done, total } = step;
    Some(match total {
        Some(total) => format!("{what}: {} of {}", grouped(done), grouped(total)),
        None if done > 0 => format!("{what}: {}", grouped(done)),
        None => format!("{what}: {} s", elapsed.as_secs()),
    })
}

/// Returns true if stderr is the terminal of this process, and this process is in its foreground.
fn is_in_front() -> bool {
    let stderr = io::stderr();
    stderr.is_terminal()
        && rustix::termios::tcgetpgrp(&stderr).is_ok_and(|group| group == rustix::process::getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_shown_after_a_second_with_what_it_counts() {
        let after = |done, total, millis| {
            text(Step { what: "reading tables", done, total }, Duration::from_millis(millis))
        };
        assert_eq!(after(5, None, 999), None);
        assert_eq!(after(5000, None, 1000).as_deref(), Some("reading tables: 5,000"));
        assert_eq!(after(0, Some(10), 1000).as_deref(), Some("reading tables: 0 of 10"));
        assert_eq!(after(0, None, 3700).as_deref(), Some("reading tables: 3 s"));
    }

    /// Steps that are short each can be long together.
    #[test]
    fn the_second_counts_from_the_first_step() {
        let mut line = Line { step: None, is_shown: false, has_thread: false };
        line.show(Step { what: "one", done: 0, total: None });
        let (_, begun) = line.step.expect("a step");
        let next = Step { what: "other", done: 7, total: None };
        line.show(next);
        assert_eq!(line.step, Some((next, begun)));
    }
}
