//! Reads the tables of a guest that runs, through its RAM: all of them in passes, until two are equal. The guest is
//! halted twice for a moment: for its registers, and for the upper levels and the tables that the last pass found
//! changed.
//!
//! A pass may see tables in the middle of a change, or memory that is a table no more. So nothing of the passes is
//! kept but tables that the upper levels of the halted guest still point to.

use std::ops::Range;
use std::time::{Duration, Instant};

use linmap::Pa;

use super::stub::{BorrowedStub, GOODBYE};
use crate::source::error::{Problem, and_released};
use crate::source::gdb::{Attached, Description};
use crate::source::memory::{Memory, Physical};
use crate::source::opened::Known;
use crate::source::pause::{Limit, Pause, Within};
use crate::source::regime::Regime;
use crate::source::snapshot::{Pass, Snapshot};
use crate::source::{Step, Tables, Wanted};

/// The most passes after the first.
const PASSES: usize = 4;
/// So few tables may differ in the last pass; they are read in the halt.
const FEW: usize = 64;

/// A fact that is missing after passes.
const TWO_PASSES: &str = "one moment for all tables: those of the last level are as two equal passes found them while \
                          the guest ran; registers and upper levels are as they were when it was halted";

/// A guest, and how long it was halted so far.
pub(super) struct Halting<'l, 'm> {
    pub(super) lent: &'l BorrowedStub<'m>,
    pub(super) pause: Pause,
    pub(super) halted: Duration,
}

impl Halting<'_, '_> {
    /// Halts the guest, acts, and lets it run. Both halts share one limit.
    fn halt<T>(
        &mut self,
        description: Option<Description>,
        act: impl FnOnce(&mut Attached) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let begun = Instant::now();
        let left = Pause { most: self.pause.most.saturating_sub(self.halted), ..self.pause };
        let mut attached = self.lent.attach(left)?;
        attached.know(description);
        let read = attached.greet().and_then(|()| act(&mut attached));
        let released = attached.release(self.lent.goes_on(), None, GOODBYE);
        self.halted += begun.elapsed();
        and_released(read, released)
    }

    /// Reads the tables of a guest whose RAM can be read while it runs.
    pub(super) fn read(
        &mut self,
        (name, ram): (String, Vec<Range<Pa>>),
        pieces: Box<dyn Physical>,
        wanted: Wanted,
        progress: &dyn Fn(Step),
    ) -> Result<Tables, Problem> {
        let looked = self.halt(None, |attached| Ok((attached.look()?, attached.take_description())))?;
        let (first, description) = (looked.0.regime, looked.1);
        let memory = Memory::new(ram, pieces);
        let regime = first.behind_trampoline(memory.from());
        let known = passes(&memory, regime, wanted, progress);
        self.halt(description, |attached| {
            let looked = attached.look()?;
            let now = looked.regime.behind_trampoline(memory.from());
            // Another kernel can have been started meanwhile.
            let known = known.filter(|_| now == regime);
            let missing = known.is_some().then(|| TWO_PASSES.to_owned());
            let known = known.unwrap_or_default();
            let limit = attached.limit();
            let tables = Tables::read_beside(known, limit, name, now, memory, wanted, progress)?;
            Ok(Tables { cpu: looked.cpu, missing: missing.into_iter().collect(), ..tables })
        })
    }
}

/// Reads all tables again and again, until few differ. Returns nothing if they cannot be read as those of a kernel; the
/// halted guest is then read instead.
fn passes(memory: &Memory, regime: Regime, wanted: Wanted, progress: &dyn Fn(Step)) -> Option<Known> {
    let from = Within { memory: memory.from(), limit: Limit::NONE };
    let tables = (regime.geometry, regime.root);
    let mut snapshot = Snapshot::default();
    snapshot.read_again(&from, tables, wanted, &|_, _| false, progress).ok()?;
    let mut pass = Pass::default();
    for _ in 0..PASSES {
        if snapshot.ended().is_some() {
            return None;
        }
        pass = snapshot.read_again(&from, tables, wanted, &|_, _| true, progress).ok()?;
        if pass.differing.len() <= FEW {
            break;
        }
    }
    Some(Known { snapshot, pass })
}
