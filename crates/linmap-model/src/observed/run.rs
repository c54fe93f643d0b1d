//! Contiguous runs: a TLB may use one member for the addresses of all, so that valid members have to agree once the CPU that stored
//! them has ended what it did. In between, kernels change them one by one.

use linmap::{Attributes, Va};

use super::memory::Memory;
use super::observer::Observer;
use super::report::{Finding, Grade, Step, Stored};
use super::tree::{LeafAt, TreeId};
use crate::Rule;
use crate::cached::Cached;

/// Returns the meaning of a member to a TLB, by which it is compared. Walkers write to members one by one.
fn said(mut leaf: Cached) -> Cached {
    if leaf.attributes.contains(Attributes::DIRTY_MANAGED) {
        leaf.attributes -= Attributes::READ_ONLY;
    }
    leaf
}

impl<M: Memory> Observer<M> {
    /// Notes that a CPU changed members of runs, and judges that the output of those that came is aligned.
    pub(super) fn changes_runs(&mut self, stored: Stored, tree: TreeId, gone: &[LeafAt], came: &[LeafAt]) {
        for at in gone.iter().chain(came).filter(|at| at.leaf.contiguous) {
            let run = (tree, at.leaf.first, at.leaf.last());
            self.cpus.iter_mut().for_each(|cpu| {
                cpu.runs.remove(&run);
            });
            self.cpus[usize::from(stored.step.cpu)].runs.insert(run, stored);
        }
        for LeafAt { leaf, first, .. } in came.iter().filter(|at| at.leaf.contiguous) {
            if leaf.oa & (leaf.last() - leaf.first) != 0 {
                self.report(Finding {
                    va: Some(Va(*first)),
                    facts: vec![
                        format!("a TLB may hold {}", leaf.describe()),
                        "the output of its first address is not aligned to the run".to_owned(),
                    ],
                    right: "members of a run that lead to one aligned range, in order",
                    stored: Some(stored),
                    ..Finding::new(Grade::Breach, Rule::ContiguousRun, stored.step)
                });
            }
        }
    }

    /// Judges the runs that a CPU has changed and is done with.
    pub(super) fn runs_agree(&mut self, step: Step) {
        let runs = std::mem::take(&mut self.cpus[usize::from(step.cpu)].runs);
        for ((tree, first, last), stored) in runs {
            let leaves = self.leaves(tree, (first, last));
            // A run of a lower level may begin where this one did.
            let member =
                |at: &&LeafAt| (at.leaf.contiguous, at.leaf.first, at.leaf.last()) == (true, first, last);
            let Some(member) = leaves.iter().find(member) else { continue };
            let Some(other) = leaves.iter().find(|other| said(other.leaf) != said(member.leaf)) else {
                continue;
            };
            self.report(Finding {
                va: Some(Va(other.first)),
                facts: vec![
                    format!("a TLB may hold {}", member.leaf.describe()),
                    format!("for these addresses the tables have {}", other.leaf.describe()),
                ],
                right: "valid members of a run that are equal but for their output addresses, or none with the contiguous bit",
                stored: Some(stored),
                ..Finding::new(
                    Grade::Suspect,
                    Rule::ContiguousRun,
                    Step { pc: stored.step.pc, ..step },
                )
            });
        }
    }
}
