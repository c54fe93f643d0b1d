//! What several CPUs find wrong, counted and said; and whether all that a test had has come back.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use linmap::Stats;

use crate::area::Area;
use crate::clock::{counter_frequency, now};
use crate::console::say;
use crate::probe::Fault;
use crate::system::System;
use crate::{cpu, report};

/// So many are said.
const SAID: u64 = 20;

/// The tally of one test.
pub(crate) struct Tally<'a> {
    name: &'static str,
    system: &'a System<'a>,
    /// What the map was before it, and the pages in use, and the allocations.
    before: (Stats, u64, usize),
    wrong: AtomicU64,
    began: u64,
}

impl<'a> Tally<'a> {
    /// Before anything is done.
    pub(crate) fn start(name: &'static str, system: &'a System<'a>) -> Self {
        let (before, wrong) = (Self::held(system), AtomicU64::new(0));
        Self { name, system, before, wrong, began: now() }
    }

    fn held(system: &System<'_>) -> (Stats, u64, usize) {
        (system.space.stats(&system.platform()), system.frames.in_use(), Area::taken())
    }

    /// Notes that something is wrong, unless it holds.
    pub(crate) fn expect(&self, holds: bool, what: impl fmt::Display) -> bool {
        if !holds && self.wrong.fetch_add(1, Relaxed) < SAID {
            say!("{}: CPU {}: {what}", self.name, cpu::this().index);
        }
        holds
    }

    /// From here on the map is to be what it is now.
    pub(crate) fn take_as_before(&mut self) {
        self.before = Self::held(self.system);
    }

    /// How much was wrong so far.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.load(Relaxed)
    }

    /// The value, if there is one, and else a note.
    pub(crate) fn done<T, E: fmt::Display>(&self, result: Result<T, E>, what: &str) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(e) => {
                self.expect(false, format_args!("{what}: {e}"));
                None
            }
        }
    }

    /// Notes unless an access went through, or was not permitted, as it should.
    pub(crate) fn permitted<T>(&self, result: Result<T, Fault>, permitted: bool, what: impl fmt::Display) {
        let right = match result {
            Ok(_) => permitted,
            Err(Fault::Permission(_)) => !permitted,
            Err(_) => false,
        };
        self.expect(right, what);
    }

    /// Judges what is left, and says what was proved, how much of it was done, and how long it took. Whether all was
    /// well.
    pub(crate) fn conclude(&self, proved: fmt::Arguments<'_>, numbers: &[(&str, u64)]) -> bool {
        let took = now().wrapping_sub(self.began).saturating_mul(1000) / counter_frequency().max(1);
        Area::of(self.system).purge();
        self.expect(
            Self::held(self.system) == self.before,
            "map, pages and allocations are not what they were",
        );
        let walked = report::walked(self.system);
        self.expect(walked == self.before.0, "the counts are not what the tables hold");
        let sound = report::check_frames(self.system) & report::check_map(self.system);
        let wrong = self.wrong.load(Relaxed);
        let ok = sound && wrong == 0;
        say!("{}: {proved}: {wrong} wrong, {took} ms\n", self.name);
        crate::console::write(format_args!("linmap: {{\"tests\":{{\"{}\":{{\"ok\":{ok}", self.name));
        for (name, number) in numbers.iter().chain(&[("wrong", wrong), ("milliseconds", took)]) {
            crate::console::write(format_args!(",\"{name}\":{number}"));
        }
        say!("}}}}}}");
        ok
    }
}
