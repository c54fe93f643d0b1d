//! TLBIs, and the DSBs and ISBs that complete them and what was stored.

use linmap::Va;

use super::cpu::Cpu;
use super::held::{self, Issued};
use super::memory::Memory;
use super::observer::Observer;
use super::report::{Finding, Grade, Miss, Missed, Step};
use crate::space::{Context, Space};
use crate::{Barrier, Rule, Tlb};

/// The invalidations of a CPU that wait for its DSB. With more they count as complete: it is not known of them that they are not.
const ISSUED: usize = 4096;

impl<M: Memory> Observer<M> {
    pub(super) fn dsb(&mut self, step: Step, kind: Barrier) {
        let alone = !kind.is_shared();
        // Without other CPUs on any tree it is enough that the CPU's own walker sees what it stores.
        if !alone || self.trees.values().all(|tree| tree.users & !(1 << step.cpu) == 0) {
            self.memory.barrier(step.cpu);
        }
        let orders = self.held.order(step.cpu, alone, step.at);
        let cpu = self.cpu(step);
        let completes = kind.is_full() && !cpu.issued.is_empty();
        let waited = orders || cpu.fresh.iter().any(|fresh| !fresh.visible) || completes;
        cpu.fresh.iter_mut().for_each(|fresh| fresh.visible = true);
        self.sites.dsb(step.pc, kind, waited);
        if !kind.is_full() {
            return;
        }
        let issued = std::mem::take(&mut self.cpu(step).issued);
        let (done, waits): (Vec<Issued>, Vec<Issued>) =
            issued.into_iter().partition(|i| (!alone || !i.what.broadcast) && (i.what.nxs || !kind.is_nxs()));
        self.cpu(step).issued = waits;
        done.iter().for_each(|issued| self.complete(issued));
    }

    /// An invalidation drops what it is for.
    fn complete(&mut self, issued: &Issued) {
        let cpus = if issued.what.broadcast { self.recipients(issued) } else { 1 << issued.step.cpu };
        let completed = self.held.complete(issued, cpus);
        completed.early.into_iter().for_each(|entry| self.came_too_early(&entry, issued));
        if self.forget_asids(issued, cpus) || completed.dropped {
            self.sites.removed(issued.step.pc);
        }
    }

    /// An invalidation of all addresses drops what CPUs held under ASIDs, and of trees that they have left. Returns true if it dropped
    /// something.
    fn forget_asids(&mut self, issued: &Issued, cpus: u64) -> bool {
        if issued.what.addresses.is_some() || !issued.what.target.has(Space::HOME) {
            return false;
        }
        let mut dropped = false;
        for (n, cpu) in self.cpus.iter_mut().enumerate().filter(|(n, _)| cpus >> n & 1 == 1) {
            let current = cpu.loaded[0]
                .map(|tree| (cpu.asid(), tree))
                .filter(|(asid, tree)| cpu.asids.get(asid) == Some(tree));
            let before = cpu.asids.len();
            cpu.asids.retain(|asid, _| issued.what.asid.is_some_and(|named| named != *asid));
            cpu.asids.extend(current);
            dropped |= cpu.asids.len() != before;
            if issued.what.asid.is_none() {
                for tree in self.trees.values_mut() {
                    dropped |= tree.left >> n & 1 == 1;
                    tree.left &= !(1 << n);
                }
            }
        }
        dropped
    }

    /// The CPUs that have to carry out an invalidation of another: one by range is for those that have such operations
    /// (D8.17.7 RXMZFH).
    fn recipients(&self, issued: &Issued) -> u64 {
        let heeds = |(n, cpu): (usize, &Cpu)| u64::from(cpu.core.range_tlbi || !issued.what.range) << n;
        self.cpus.iter().enumerate().map(heeds).sum()
    }

    /// A context synchronisation event.
    pub(super) fn synchronise(&mut self, step: Step) {
        self.cpu(step).fresh.retain(|fresh| !fresh.visible);
    }

    pub(super) fn tlbi(&mut self, step: Step, op: Tlb, operand: u64) {
        let default = self.geometry;
        let cpu = self.cpu(step);
        // The highest bit of the address in an operand: 43, or 36 in one by range.
        let highest = if op.is_range() { 36 } else { 43u32 };
        let upper = operand >> highest & 1 == 1 || cpu.loaded[0].is_none();
        let format = cpu.format(usize::from(upper), default).or_else(|| cpu.format(0, default));
        let (why, right) = match (cpu.core.lacks_for(op), format) {
            (Some(lacks), _) => {
                (format!("tlbi {op} is undefined on this CPU, which {lacks}"), "one that all CPUs have")
            }
            (None, None) => return,
            (None, Some(format)) => {
                match op.decode(operand, format.geometry, cpu.core.ttl, Context::default()) {
                    Ok(what) => {
                        let is_full = cpu.issued.len() == ISSUED;
                        let full = if is_full { std::mem::take(&mut cpu.issued) } else { Vec::new() };
                        cpu.issued.push(Issued { step, op, operand, what });
                        full.iter().for_each(|issued| self.complete(issued));
                        return self.sites.tlbi(step.pc, op);
                    }
                    Err(why) => (why, "an operand as the manual has it"),
                }
            }
        };
        self.report(Finding {
            facts: vec![why],
            right,
            ..Finding::new(Grade::Breach, Rule::TlbiOperand, step)
        });
    }

    /// Returns the invalidation that an entry outlived: one that no DSB has completed, or one that missed it.
    pub(super) fn missed(&self, entry: &held::Entry) -> Option<Missed> {
        let issued = self.cpus.iter().flat_map(|cpu| &cpu.issued).find(|issued| entry.waits_for(issued));
        issued.map(|issued| issued.missed(Miss::NotComplete)).or(entry.missed)
    }

    fn came_too_early(&mut self, entry: &held::Entry, issued: &Issued) {
        self.report(Finding {
            va: Some(Va(entry.first)),
            facts: vec!["a walker may fetch the old entry after the TLBI".to_owned()],
            right: "DSB ISHST between the store and the TLBI",
            stored: Some(entry.stored),
            missed: entry.missed,
            holders: entry.holders,
            ..Finding::new(Grade::Breach, Rule::Stale, issued.step)
        });
    }
}
