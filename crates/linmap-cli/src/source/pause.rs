//! The time for which a guest may be halted: one limit for the whole halt, whatever is read meanwhile.

use std::time::{Duration, Instant};

use linmap::Pa;

use super::interrupts;
use super::memory::{Each, Physical, Unreadable};

/// The options of a halt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pause {
    /// The longest halt.
    pub(crate) most: Duration,
    /// True if it is to run afterwards even if it was halted before.
    pub(crate) resume: bool,
}

/// The end of a halt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Start and longest duration of the halt; `None` if nothing is halted.
    halt: Option<(Instant, Duration)>,
}

impl Pause {
    /// Returns the limit of a halt that begins now.
    pub(super) fn limit(self) -> Limit {
        Limit { halt: Some((Instant::now(), self.most)) }
    }
}

impl Limit {
    /// The limit if nothing is halted: there is none.
    pub(super) const NONE: Self = Self { halt: None };

    /// Returns a limit that is over after a time from now on, and no later than this one.
    pub(super) fn at_most(&self, time: Duration) -> Self {
        let left = self.halt.map_or(Duration::MAX, |(begun, most)| most.saturating_sub(begun.elapsed()));
        Self { halt: Some((Instant::now(), time.min(left))) }
    }

    /// Returns true if the time is over, or if a signal asks this program to end.
    pub(super) fn is_over(&self) -> bool {
        interrupts::came() || self.halt.is_some_and(|(begun, most)| begun.elapsed() >= most)
    }

    /// Returns the longest duration of the halt.
    pub(super) fn most(&self) -> Duration {
        self.halt.map_or(Duration::MAX, |(_, most)| most)
    }

    /// Returns how long the halt has lasted, or `None` if nothing is halted.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        self.halt.map(|(begun, _)| begun.elapsed())
    }

    /// Returns the reason that nothing more is read, if the time is over.
    pub(super) fn unreadable(&self) -> Option<Unreadable> {
        self.is_over().then(|| Unreadable::NotInTime(self.most()))
    }
}

/// Memory that is read within a limit, and not at all afterwards.
#[derive(Debug)]
pub(super) struct Within<'m> {
    pub(super) memory: &'m dyn Physical,
    pub(super) limit: Limit,
}

impl Physical for Within<'_> {
    fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), Unreadable> {
        match self.limit.unreadable() {
            Some(why) => Err(why),
            None => self.memory.read(pa, into),
        }
    }

    fn read_each(&self, at: &[Pa], bytes: usize, each: &mut Each<'_>) {
        match self.limit.unreadable() {
            Some(why) => (0..at.len()).for_each(|index| each(index, Err(why.clone()))),
            None => self.memory.read_each(at, bytes, each),
        }
    }

    fn ended(&self) -> Option<Unreadable> {
        self.memory.ended().or_else(|| self.limit.unreadable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_over_when_its_time_is() {
        let limit = |most| Pause { most, resume: false }.limit();
        assert!(limit(Duration::ZERO).is_over() && !limit(Duration::from_secs(3600)).is_over());
        assert!(!limit(Duration::MAX).is_over() && !Limit::NONE.is_over());
        let hour = Duration::from_secs(3600);
        assert!(
            limit(Duration::ZERO).at_most(hour).is_over() && limit(hour).at_most(Duration::ZERO).is_over()
        );
        assert_eq!(Limit::NONE.at_most(hour).most(), hour);
        assert_eq!(limit(Duration::ZERO).unreadable(), Some(Unreadable::NotInTime(Duration::ZERO)));
    }
}
