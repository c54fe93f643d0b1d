//! Reads the tables of a guest that runs, through its RAM: all of them in passes, until two are equal. The guest is
//! halted for moments: for its registers, and for the upper levels and the tables that the last pass found changed. If that
//! takes longer than a moment, as much has changed, the guest is let go and all is done again.
//!
//! A pass may see tables in the middle of a change, or memory that is a table no more. So nothing of the passes is
//! kept but tables that the upper levels of the halted guest still point to.

use std::collections::HashSet;
use std::ops::Range;
use std::time::{Duration, Instant};

use linmap::Pa;
use linmap::arch::Level;

use super::ahead::Ahead;
use super::stub::{BorrowedStub, GOODBYE};
use crate::size::grouped;
use crate::source::error::{Problem, and_released};
use crate::source::gdb::{Attached, Known, Looked};
use crate::source::memory::{Memory, Physical};
use crate::source::opened::Place;
use crate::source::pause::{Limit, Pause, Within};
use crate::source::regime::Regime;
use crate::source::snapshot::{Pass, Snapshot};
use crate::source::{Request, Tables};

/// The most passes after the first.
const PASSES: usize = 4;
/// So few tables may differ in the last pass; they are read in the halt.
const FEW: usize = 64;
/// The most halts for upper levels and tables that differ. Only the last one may be longer than a moment.
const ROUNDS: usize = 4;
/// The time in which a halt reads tables, or is given up.
const MOMENT: Duration = Duration::from_millis(5);

/// A guest, and how long it was halted so far.
pub(super) struct Halting<'l, 'm> {
    pub(super) lent: &'l BorrowedStub<'m>,
    pub(super) pause: Pause,
    pub(super) halted: Duration,
}

impl Halting<'_, '_> {
    /// Halts the guest, looks at its registers, acts, and lets it run. All halts share one limit.
    fn halt<T>(
        &mut self,
        known: Option<Known>,
        act: impl FnOnce(&mut Attached, Looked) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let begun = Instant::now();
        let left = Pause { most: self.pause.most.saturating_sub(self.halted), ..self.pause };
        let _ahead = Ahead::of_others();
        let mut attached = self.lent.attach(left)?;
        let looked = attached.greet().and_then(|()| match known {
            Some(known) => attached.look_again(known),
            None => attached.look(),
        });
        let read = looked.and_then(|looked| act(&mut attached, looked));
        let released = attached.release(self.lent.goes_on(), None, GOODBYE);
        self.halted += begun.elapsed();
        and_released(read, released)
    }

    /// Reads the tables of a guest whose RAM can be read while it runs.
    pub(super) fn read(
        &mut self,
        (name, ram): (String, Vec<Range<Pa>>),
        pieces: Box<dyn Physical>,
        request: Request<'_>,
    ) -> Result<Tables, Problem> {
        let (looked, mut known) = self.halt(None, |attached, looked| Ok((looked, attached.take_known())))?;
        let memory = Memory::new(ram, pieces);
        let mut tables = Reading::of(looked.regime.behind_trampoline(memory.from()));
        for round in 1.. {
            tables.pass(&memory, request);
            // Half of the time is for the last halt, and a signal ends all.
            let is_last = round == ROUNDS || 2 * self.halted >= self.pause.most || Limit::NONE.is_over();
            let halted = self.halt(known, |attached, looked| {
                let now = looked.regime.behind_trampoline(memory.from());
                let limit = if is_last { attached.limit() } else { attached.limit().at_most(MOMENT) };
                let is_settled = tables.settle(&memory, now, limit, request)?;
                Ok((looked.cpu, is_settled, attached.take_known()))
            })?;
            known = halted.2;
            if halted.1 || is_last {
                let missing = tables.missing().into_iter().collect();
                let tables = Tables::of(tables.snapshot, Place { name, regime: tables.regime, memory })?;
                return Ok(Tables { cpu: halted.0, missing, ..tables });
            }
        }
        Err(Problem::Lost)
    }
}

/// The tables of a guest, as far as they are known.
struct Reading {
    regime: Regime,
    snapshot: Snapshot,
    /// The last pass: which of them have to be read again.
    pass: Pass,
}

impl Reading {
    fn of(regime: Regime) -> Self {
        Self { regime, snapshot: Snapshot::default(), pass: Pass::default() }
    }

    /// Reads all tables again and again, until few differ. If they cannot be read as those of a kernel, nothing is known, and the
    /// halted guest is read instead.
    fn pass(&mut self, memory: &Memory, request: Request<'_>) {
        if self.passes(memory, request).is_none() {
            (self.snapshot, self.pass) = Default::default();
        }
    }

    fn passes(&mut self, memory: &Memory, request: Request<'_>) -> Option<()> {
        let from = Within { memory: memory.from(), limit: Limit::NONE };
        let tables = (self.regime.geometry, self.regime.root);
        // Tables that are known from an earlier round are compared in the first pass already.
        for _ in 0..=PASSES {
            let is_first = self.snapshot.tables() == 0;
            self.pass = self.snapshot.read_again(&from, tables, request, &|_, _| true).ok()?;
            if self.snapshot.ended().is_some() {
                return None;
            }
            if !is_first && self.pass.differing.len() <= FEW {
                break;
            }
        }
        Some(())
    }

    /// Reads what has to be read while the guest is halted. Returns false if the time was over before that.
    fn settle(
        &mut self,
        memory: &Memory,
        now: Regime,
        limit: Limit,
        request: Request<'_>,
    ) -> Result<bool, Problem> {
        if self.regime != now {
            // Another kernel has been started meanwhile.
            *self = Self::of(now);
        }
        let from = Within { memory: memory.from(), limit };
        let Self { snapshot, pass, .. } = self;
        if pass.upper.is_empty() || !snapshot.confirm(&from, now.geometry, pass) {
            let again = |level, table| level != Level::PAGE || pass.differing.contains(&table);
            let halted = snapshot.read_again(&from, (now.geometry, now.root), request, &again)?;
            pass.upper = halted.upper;
            pass.differing.extend(halted.differing);
        }
        Ok(snapshot.ended().is_none())
    }

    /// Returns the fact that is missing after passes, or `None` if everything was read in the halt.
    fn missing(&self) -> Option<String> {
        let upper: HashSet<Pa> = self.pass.upper.iter().map(|upper| upper.0).collect();
        let differing = self.pass.differing.difference(&upper).count();
        let passes = self.snapshot.tables().saturating_sub(upper.len() + differing);
        (passes > 0).then(|| {
            format!(
                "one moment for all tables: {} of the last level are as two equal passes found them while the guest ran; \
                 registers, upper levels and {} that differed are as they were when it was halted",
                grouped(passes as u64),
                grouped(differing as u64),
            )
        })
    }
}
