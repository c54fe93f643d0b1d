//! The mistakes that CPUs find in an exercise, counted and printed, and a check that it has given everything back.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use linmap::Stats;

use crate::area::Area;
use crate::clock::{counter_frequency, now};
use crate::console::say;
use crate::probe::Fault;
use crate::system::System;
use crate::{cpu, report};

/// The most mistakes that are printed.
const SAID: u64 = 20;

/// A part of a number, displayed as a number from 0 to 1 with six digits. Without anything to be a part of it is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) part: u64,
    pub(crate) of: u64,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded up, so that only nothing is 0.
        let millionths = (self.part * 1_000_000).div_ceil(self.of.max(1));
        write!(f, "{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
    }
}

/// The tally of one exercise.
pub(crate) struct Tally<'a> {
    name: &'static str,
    system: &'a System<'a>,
    /// The counts of the map before it, the pages in use, and the allocations.
    before: (Stats, u64, usize),
    wrong: AtomicU64,
    began: u64,
}

impl<'a> Tally<'a> {
    /// Starts a tally, before anything is done.
    pub(crate) fn start(name: &'static str, system: &'a System<'a>) -> Self {
        let (before, wrong) = (Self::held(system), AtomicU64::new(0));
        Self { name, system, before, wrong, began: now() }
    }

    fn held(system: &System<'_>) -> (Stats, u64, usize) {
        (system.space.on(&system.platform()).stats(), system.pages_in_use(), Area::taken())
    }

    /// Reports a mistake unless `holds`. Returns `holds`.
    pub(crate) fn expect(&self, holds: bool, what: impl fmt::Display) -> bool {
        if !holds && self.wrong.fetch_add(1, Relaxed) < SAID {
            say!("{}: CPU {}: {what}", self.name, cpu::this().index);
        }
        holds
    }

    /// Takes the map as it is now for the one to give back.
    pub(crate) fn take_as_before(&mut self) {
        self.before = Self::held(self.system);
    }

    /// Returns the number of mistakes so far.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.load(Relaxed)
    }

    /// Returns the value, if there is one; otherwise reports a mistake.
    pub(crate) fn done<T, E: fmt::Display>(&self, result: Result<T, E>, what: &str) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(e) => {
                self.expect(false, format_args!("{what}: {e}"));
                None
            }
        }
    }

    /// Reports a mistake unless an access succeeded, or was not permitted, as it should.
    pub(crate) fn permitted<T>(&self, result: Result<T, Fault>, permitted: bool, what: impl fmt::Display) {
        let right = match result {
            Ok(_) => permitted,
            Err(Fault::Permission(_)) => !permitted,
            Err(_) => false,
        };
        self.expect(right, what);
    }

    /// Checks what is left, and reports what was shown, some numbers, and the time. Returns true if all went well.
    pub(crate) fn conclude(&self, proved: fmt::Arguments<'_>, numbers: &[(&str, u64)]) -> bool {
        self.conclude_with(proved, numbers, &[])
    }

    /// Does the same, and reports shares as well.
    pub(crate) fn conclude_with(
        &self,
        proved: fmt::Arguments<'_>,
        numbers: &[(&str, u64)],
        shares: &[(&str, Share)],
    ) -> bool {
        let took = now().wrapping_sub(self.began).saturating_mul(1000) / counter_frequency().max(1);
        Area::of(self.system).purge();
        self.system.space.on(&self.system.platform()).trim();
        self.expect(
            Self::held(self.system) == self.before,
            format_args!("{:?} instead of {:?}", Self::held(self.system), self.before),
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
        for (name, share) in shares {
            crate::console::write(format_args!(",\"{name}\":{share}"));
        }
        say!("}}}}}}");
        ok
    }
}
