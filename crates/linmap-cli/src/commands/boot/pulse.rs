//! Notices a QEMU that has stopped: one that uses no CPU time and says nothing. A busy host is no reason for that, as it
//! gives some time to each process.

use std::fs;
use std::time::Duration;

use rustix::process::Pid;

/// The number of looks that find the same CPU time. They are counted, as a host that stops this program stops QEMU too.
const LOOKS: u32 = 10;

/// The CPU time of a process group, looked at again and again.
pub(crate) struct Pulse {
    group: Pid,
    /// The time between two looks.
    pub(crate) period: Duration,
    seen: Option<u64>,
    /// The looks so far that found nothing new.
    without: u32,
}

impl Pulse {
    /// Looks so often that a group without a pulse is noticed after `idle`.
    pub(crate) fn new(group: Pid, idle: Duration) -> Self {
        Self { group, period: idle / LOOKS, seen: None, without: 0 }
    }

    /// Looks once more. Returns true if the group has used no CPU time for so many looks.
    pub(crate) fn has_stopped(&mut self) -> bool {
        let now = cpu_time(self.group);
        if now.is_none() || now != self.seen {
            (self.seen, self.without) = (now, 0);
            return false;
        }
        self.without += 1;
        self.without >= LOOKS
    }
}

/// Returns the CPU time of all processes in a group, in ticks of `/proc`; `None` if there is none of them, or no `/proc`.
fn cpu_time(group: Pid) -> Option<u64> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let stats = processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    stats.filter_map(|stat| ticks(&stat, group)).reduce(|sum, more| sum + more)
}

/// Returns user and system time of a process, and of its children that have ended, if it is in the group. `stat` is its file
/// in `/proc`.
fn ticks(stat: &str, group: Pid) -> Option<u64> {
    // The name, in parentheses, may have spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let same = number(2)? == u64::from(group.as_raw_pid().unsigned_abs());
    same.then(|| (11..15).filter_map(number).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_times_of_a_process_in_the_group_count() {
        let stat = "71 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 1000 200 30 4 20 0 1 0 5 6 7\n";
        let group = |number| Pid::from_raw(number).expect("a number");
        assert_eq!(ticks(stat, group(42)), Some(1234));
        assert_eq!((ticks(stat, group(71)), ticks("71 (a", group(42))), (None, None));
        assert_eq!(cpu_time(group(i32::MAX)), None);
    }

    #[test]
    fn a_group_that_works_has_a_pulse() {
        let mut pulse = Pulse::new(rustix::process::getpgrp(), Duration::from_secs(1));
        assert!(!pulse.has_stopped());
        let seen = pulse.seen;
        // This process works, however little time the host gives it.
        while cpu_time(pulse.group) == seen {}
        pulse.without = LOOKS - 1;
        assert!(!pulse.has_stopped());
    }
}
