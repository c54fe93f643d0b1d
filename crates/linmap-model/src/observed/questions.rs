//! Questions to an observer: what was found, what CPUs have and may hold, and whether a store concerns it.

use std::collections::BTreeSet;

use linmap::{Attributes, Va};

use super::filter::Asked;
use super::memory::Memory;
use super::observer::Observer;
use super::report::{Finding, named};
use super::sites::Site;
use crate::{CpuId, Event};

/// Tells other threads whether a store concerns an observer.
#[derive(Clone, Debug)]
pub struct Concerns {
    tables: Asked,
    held: Asked,
}

impl Concerns {
    /// Returns true if a store to a physical address may concern the observer: a table is there, or something that CPUs may hold leads
    /// there.
    pub fn may_have(&self, pa: u64) -> bool {
        self.tables.may_have(pa) || self.held.may_have(pa)
    }
}

impl<M: Memory> Observer<M> {
    /// Returns the number of events so far.
    pub const fn events(&self) -> usize {
        self.now
    }

    /// Returns the number of times that a CPU loaded a root and its tables were read. With 0 nothing was judged.
    pub const fn roots(&self) -> usize {
        self.roots
    }

    /// Returns the number of tables that were linked and are not judged: their memory is not known, or they are in too many places.
    pub const fn unknown_tables(&self) -> usize {
        self.unknown
    }

    /// Returns the first value of VBAR_EL1 in the upper half, which says where an image is that has moved.
    pub const fn vectors(&self) -> Option<u64> {
        self.vectors
    }

    /// Returns the TLBIs and DSBs that were executed, by their addresses in the code.
    pub fn sites(&self) -> impl Iterator<Item = (u64, &Site)> {
        self.sites.all()
    }

    /// Returns the memory, as it was given.
    pub const fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Returns a value by which other threads tell whether a store concerns the observer.
    pub fn concerns(&self) -> Concerns {
        Concerns { tables: self.tables.asked(), held: self.held.asked() }
    }

    /// Returns true if a CPU's accesses concern the observer: it has made something valid, and did not execute a DSB and an ISB since.
    pub fn waits(&self, cpu: CpuId) -> bool {
        self.cpus.get(usize::from(cpu)).is_some_and(|cpu| !cpu.fresh.is_empty())
    }

    /// Returns the physical address that the tables of a CPU have for a virtual one.
    pub fn translate(&self, cpu: CpuId, va: Va) -> Option<u64> {
        let id = self.cpus.get(usize::from(cpu))?.loaded[usize::from(va.0 >> 55u32 & 1 == 1)]?;
        let format = self.trees.get(&id)?.format;
        let at = self.tables.leaf((id.root, &format.root(id)), &format, va.0)?;
        Some(at.leaf.oa_at(va.0))
    }

    /// Compares the slots in some bytes with the memory, and returns the steps that make them what it has: stores by a CPU that no event
    /// told. Access flags and dirty bits are the walkers'.
    pub fn differences(&mut self, cpu: CpuId, pa: u64, bytes: u64) -> Vec<Event> {
        const WALKERS: u64 = Attributes::ACCESSED.bits() | Attributes::READ_ONLY.bits();
        let mut steps = Vec::new();
        for frame in (pa >> 12u32..=pa.saturating_add(bytes.saturating_sub(1)) >> 12u32).map(|n| n << 12u32) {
            for slot in self.tables.slots_in(frame) {
                let now = self.memory.table(slot, 1).map(|linked| linked.words[0]);
                let known = self.tables.slot(slot).and_then(|slot| self.tables.word(slot));
                if let (Some(value), Some(known)) = (now, known)
                    && (value ^ known) & !(if known & 1 == 1 { WALKERS } else { 0 }) != 0
                {
                    let index = 0;
                    steps.push(Event::Write { cpu, table: slot, index, value, count: 1, step: 0, was: None });
                }
            }
        }
        steps
    }

    /// Returns what was found, the worst first. Equal rules broken at one place are one finding.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.found.values().rev()
    }

    /// Returns what the CPUs have at the address that an event is about, a sentence each: what the tables say as they are now, and what
    /// TLBs may hold.
    pub fn moment(&self, event: &Event) -> Option<(Va, Vec<String>)> {
        let va = self.about(event)?;
        let half = usize::from(va.0 >> 55u32 & 1 == 1);
        let mut facts = Vec::new();
        let ids: BTreeSet<_> = self.cpus.iter().filter_map(|cpu| cpu.loaded[half]).collect();
        for id in ids {
            let Some(tree) = self.trees.get(&id) else { continue };
            let leaf = self.tables.leaf((id.root, &tree.format.root(id)), &tree.format, va.0);
            let said = leaf.map_or_else(|| format!("nothing at {va}"), |at| at.leaf.describe());
            facts.push(format!("the tables at {:#x}, of {}, have {said}", id.root, named(tree.users)));
        }
        for entry in self.held.overlapping(half, va.0, va.0) {
            let what = entry
                .leaf
                .map_or_else(|| format!("a way to the table at {:#x}", entry.to.0), |leaf| leaf.describe());
            let (cpus, at) = (named(entry.holders), entry.stored.step.at);
            facts.push(format!("{cpus} may hold {what}, which event {at} took out"));
        }
        Some((va, facts))
    }

    /// Returns the address that an event is about.
    fn about(&self, event: &Event) -> Option<Va> {
        match *event {
            Event::Access { va, .. } => Some(Va(va)),
            Event::Write { table, index, .. } | Event::Cas { table, index, .. } => {
                let (table, index) = self.tables.slot(table.wrapping_add((index as u64).wrapping_mul(8)))?;
                let spot = self.tables.get(table)?.spots.first()?;
                let format = self.trees.get(&spot.tree)?.format;
                Some(Va(format.span(spot, index).0))
            }
            Event::Tlbi { cpu, .. } => {
                let issued = self.cpus.get(usize::from(cpu))?.issued.last()?;
                issued.what.addresses.map(|(first, _)| Va(first))
            }
            _ => None,
        }
    }
}
