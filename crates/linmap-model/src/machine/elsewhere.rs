//! Pages that an operation made read-only, with the promise that no other address makes them writable: not the linear
//! map, not the same area, not another tree, nor what a TLB may still hold.

use linmap::Attributes;

use super::frames::sequence;
use super::reach::{Held, Stages};
use super::{Finding, Machine, Operation};
use crate::{CpuId, Expected, Mapping, Rule};

impl Machine {
    /// Judges an announcement: pages that are to be nowhere writable are not writable by it.
    pub(super) fn can_promise(&self, cpu: CpuId, changes: &[Expected]) -> Result<(), Finding> {
        let writable = |to: Mapping| Attributes::from_bits_retain(to.attributes).is_writable();
        let mut promising = changes.iter().filter(|c| c.nowhere_writable);
        match promising.find(|c| c.to.is_some_and(writable)) {
            None => Ok(()),
            Some(change) => {
                let fact = "pages are announced to be nowhere writable, and writable by this address";
                Err(sequence(cpu, fact).at(change.va))
            }
        }
    }

    /// Notes what an operation that has returned promises of its ranges, and judges it.
    pub(super) fn note_promises(&mut self, operation: &Operation) -> Result<(), Finding> {
        let Operation { root, changes, .. } = operation;
        self.physical.nowhere_writable.note(*root, changes, |c| c.nowhere_writable);
        self.physical.spurious_faults.note(*root, changes, |c| c.spurious_faults);
        self.physical.left.note(*root, changes, |c| c.invalidated_later);
        for change in changes.iter().filter(|c| c.nowhere_writable) {
            let Some(to) = change.to else { continue };
            let pages = (to.pa, to.pa.saturating_add(change.bytes - 1));
            self.leading_to(Stages::First, pages, &mut |held| {
                let va = change.va + (held.pages().0 - to.pa);
                if held.is_writable() { Err(self.writable(va, held)) } else { Ok(()) }
            })?;
        }
        Ok(())
    }

    /// Judges a translation that walkers may use from now on.
    pub(super) fn is_nowhere_writable(&self, held: &Held<'_>) -> Result<(), Finding> {
        if !held.is_writable() {
            return Ok(());
        }
        let (first, last) = held.pages();
        for (root, range, to) in self.physical.nowhere_writable.leading_to((first, last)) {
            if let Some(va) = self.still_promised(root, range) {
                let from = held.part.0 + (to.pa + (va - range.0) - first);
                return Err(self.writable(va, &Held { part: (from, held.part.1), ..*held }));
            }
        }
        Ok(())
    }

    /// Returns the first address of a range that no operation under way announces without the promise.
    fn still_promised(&self, root: u64, (first, last): (u64, u64)) -> Option<u64> {
        let operations = self.cpus.iter().filter_map(|c| c.operation.as_ref()).filter(|o| o.root == root);
        let lifts: Vec<&Expected> =
            operations.flat_map(|o| &o.changes).filter(|c| !c.nowhere_writable).collect();
        let mut va = first;
        while let Some(change) = lifts.iter().find(|c| c.va <= va && va <= c.last()) {
            if change.last() >= last {
                return None;
            }
            va = change.last() + 1;
        }
        Some(va)
    }

    fn writable(&self, va: u64, held: &Held<'_>) -> Finding {
        let fact = format!("the page at {va:#x} is read-only, and was announced to be nowhere writable");
        self.contradicts(Rule::NowhereWritable, fact, held)
    }
}
