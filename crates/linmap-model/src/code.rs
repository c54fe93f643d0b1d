//! Stored instructions, until they can be executed everywhere (Arm ARM B2.2.5).

use std::collections::HashMap;

use crate::cache_lines::LINE;
use crate::{CacheOp, CpuId};

/// The progress of the maintenance of a line of code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Stored,
    /// DC CVAU by this CPU, without a DSB yet.
    Cleaning(CpuId),
    Cleaned,
    /// IC IVAU by this CPU, without a DSB yet.
    Invalidating(CpuId),
    Invalidated,
}

struct Line {
    step: Step,
    /// The CPUs with a context synchronisation event since.
    synchronised: u8,
}

/// Lines of code that were stored, by their physical addresses. Any address in a line stands for it.
#[derive(Default)]
pub(crate) struct Code(HashMap<u64, Line>);

impl Code {
    pub(crate) fn store(&mut self, pa: u64) {
        self.0.insert(line_of(pa), Line { step: Step::Stored, synchronised: 0 });
    }

    pub(crate) fn maintain(&mut self, cpu: CpuId, op: CacheOp, pa: u64) {
        let Some(line) = self.0.get_mut(&line_of(pa)) else { return };
        line.step = match (op, line.step) {
            // The point of coherency is beyond that of unification.
            (CacheOp::DcCvau | CacheOp::DcCvac | CacheOp::DcCivac, Step::Stored) => Step::Cleaning(cpu),
            (CacheOp::IcIvau, Step::Cleaned) => Step::Invalidating(cpu),
            (_, step) => step,
        };
    }

    /// A DSB for loads and stores.
    pub(crate) fn dsb(&mut self, cpu: CpuId) {
        for line in self.0.values_mut() {
            line.step = match line.step {
                Step::Cleaning(by) if by == cpu => Step::Cleaned,
                Step::Invalidating(by) if by == cpu => Step::Invalidated,
                step => step,
            };
        }
    }

    pub(crate) fn isb(&mut self, cpu: CpuId) {
        let ready = self.0.values_mut().filter(|l| l.step == Step::Invalidated);
        ready.for_each(|l| l.synchronised |= 1 << cpu);
    }

    /// Fails, naming the missing step, if this CPU may not execute the line yet.
    pub(crate) fn execute(&self, cpu: CpuId, pa: u64) -> Result<(), &'static str> {
        match self.0.get(&line_of(pa)) {
            None => Ok(()),
            Some(line) => match line.step {
                Step::Stored => Err("DC CVAU"),
                Step::Cleaning(_) => Err("DSB ISH after DC CVAU"),
                Step::Cleaned => Err("IC IVAU"),
                Step::Invalidating(_) => Err("DSB ISH after IC IVAU"),
                Step::Invalidated if line.synchronised & 1 << cpu == 0 => {
                    Err("an ISB on this CPU since the maintenance")
                }
                Step::Invalidated => Ok(()),
            },
        }
    }
}

const fn line_of(pa: u64) -> u64 {
    pa >> LINE << LINE
}
