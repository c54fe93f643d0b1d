//! Operations, and what an address may map to meanwhile and afterwards.

use linmap_model::{Expected, Mapping, Rule};

use crate::descriptor::{ACCESSED, BLOCK, Leaf, Meaning, SOFTWARE, span};
use crate::memory::{Slot, level_of};
use crate::model::{Broken, Naive, OutOfScope, Watched};
use crate::places::{BASE, L2};
use crate::tlb::Entry;

/// The mappings that an address may have: its own, and one more for each CPU with an operation.
pub(crate) type Allowed = [Option<Mapping>; 3];

impl Naive {
    pub(crate) fn begin(&mut self, at: usize, changes: &[Expected]) -> Result<(), OutOfScope> {
        let overlap = |a: &Expected, b: &Expected| a.va < b.va + b.bytes && b.va < a.va + a.bytes;
        let mut open = self.cpus.iter().filter_map(|c| c.operation.as_ref()).flatten();
        if self.cpus[at].operation.is_some() || open.any(|o| changes.iter().any(|c| overlap(o, c))) {
            return Err(OutOfScope);
        }
        let cpu = &mut self.cpus[at];
        cpu.operation = Some(changes.to_vec());
        cpu.answers_for.clear();
        // It promises nothing of what the CPU stored before.
        (cpu.awaits_dsb, cpu.awaits_isb) = (false, false);
        Ok(())
    }

    /// All addresses have the mappings that these changes give them.
    pub(crate) fn promise(&mut self, changes: &[Expected]) {
        for w in &mut self.watched {
            w.expected = changed(w, changes);
        }
    }

    /// Returns the mappings that an address may have: the old one, and those that operations under way will have made.
    pub(crate) fn allowed(&self, w: &Watched) -> Allowed {
        let mut allowed = [w.expected; 3];
        for (one, cpu) in allowed[1..].iter_mut().zip(&self.cpus) {
            if let Some(changes) = &cpu.operation {
                *one = changed(w, changes);
            }
        }
        allowed
    }

    pub(crate) fn done(&mut self, at: usize, ok: bool, broken: &mut Broken) {
        let Some(changes) = self.cpus[at].operation.take() else {
            broken.insert(Rule::Sequence);
            return;
        };
        if ok {
            self.promise(&changes);
        }
        self.watched.iter_mut().for_each(|w| w.stirred = named(&changes, w.va));
        // The addresses that it is about: named, or translated by a slot when it changed that.
        let answers_for = &self.cpus[at].answers_for;
        let concerns =
            |w: &&Watched| named(&changes, w.va) || answers_for.iter().any(|s| s.0 <= w.va && w.va <= s.1);
        let about: Vec<&Watched> = self.watched.iter().filter(concerns).collect();

        // What it stored itself, and what a walker may still find of another CPU's stores.
        let found = |w: &&Watched| {
            let allowed = self.allowed(w).map(|m| m.and_then(in_hardware));
            self.path(w).any(|slot| self.memory.seen(slot).iter().any(|s| s.by.is_some()))
                && self.walks(w).iter().any(|found| !allowed.contains(found))
        };
        let cpu = &self.cpus[at];
        if self.memory.has_unseen(at as u8)
            || about.iter().any(found)
            || about.iter().any(|w| self.faults_by_walk_caches(w))
            || cpu.awaits_dsb
            || cpu.awaits_isb
        {
            broken.insert(Rule::NotVisible);
        }
        if about.iter().flat_map(|w| self.path(w)).any(|slot| self.misprogrammed(slot)) {
            broken.insert(Rule::ContiguousRun);
        }
        // What hardware ignores no operation promises.
        let letter = |m: Mapping| Mapping { attributes: m.attributes & !SOFTWARE, ..m };
        for w in about {
            let have = self.leaf_now(w);
            let have = have.map(|l| letter(Mapping { pa: l.oa, attributes: l.attributes, valid: l.valid }));
            if !self.allowed(w).iter().any(|m| m.map(letter) == have) {
                broken.insert(Rule::Promised);
            }
        }
        self.nothing_stale(broken);
    }

    /// Returns true if an address must translate, and a walk cache leads to a table where it faults.
    fn faults_by_walk_caches(&self, w: &Watched) -> bool {
        let allowed = self.allowed(w).map(|m| m.and_then(in_hardware));
        let must =
            |bits: u64| allowed.iter().all(|m| m.is_some_and(|(_, attributes)| attributes & bits == bits));
        let faults = |meaning| match meaning {
            Meaning::Leaf(leaf) if leaf.translates() => false,
            Meaning::Leaf(leaf) if leaf.valid => must(ACCESSED),
            _ => must(0),
        };
        let index = self.watched.iter().position(|other| other.va == w.va).unwrap_or_default();
        self.cpus.iter().map(|c| &c.tlb[index]).any(|tlb| {
            let tables = tlb.entries_of(tlb.used()).filter_map(Entry::table);
            tables.into_iter().any(|table| self.memory.visible((table, w.slots.1)).any(faults))
        })
    }

    /// Judges that no CPU may use an entry that is not allowed.
    fn nothing_stale(&self, broken: &mut Broken) {
        for (index, w) in self.watched.iter().enumerate() {
            let allowed = self.allowed(w).map(|m| m.and_then(in_hardware));
            for cpu in &self.cpus {
                let tlb = &cpu.tlb[index];
                for entry in tlb.entries_of(tlb.used()) {
                    let Entry::Leaf { run, oa, attributes, .. } = *entry else { continue };
                    if !allowed.contains(&Some((oa, attributes))) {
                        broken.insert(Rule::Stale);
                        if run {
                            broken.insert(Rule::ContiguousRun);
                        }
                    }
                }
            }
        }
    }

    /// The slots that translate an address.
    pub(crate) fn path(&self, w: &Watched) -> impl Iterator<Item = Slot> {
        let (slot2, slot3) = w.slots;
        let child = self.memory.child(slot2).map(|child| (child, slot3));
        child.into_iter().chain([(L2, slot2)])
    }

    /// The leaf that the newest stores give an address.
    pub(crate) fn leaf_now(&self, w: &Watched) -> Option<Leaf> {
        let (slot2, slot3) = w.slots;
        match self.memory.newest((L2, slot2))?.1 {
            Meaning::Leaf(leaf) => Some(Leaf { oa: leaf.oa + (w.va & (BLOCK - 1)), ..leaf }),
            Meaning::Table(child) => match self.memory.newest((child, slot3))?.1 {
                Meaning::Leaf(leaf) => Some(leaf),
                _ => None,
            },
            _ => None,
        }
    }

    /// The slots of a run of which some valid members have the contiguous bit and others do not (RQTRPM).
    fn misprogrammed(&self, (table, slot): Slot) -> bool {
        let run = slot & !15;
        let (mut with, mut without) = (false, false);
        for mate in run..run + 16 {
            match self.memory.newest((table, mate)).map(|n| n.1) {
                Some(Meaning::Table(_)) => without = true,
                Some(meaning) => {
                    let contiguous = meaning.translating().map(|leaf| leaf.contiguous);
                    with |= contiguous == Some(true);
                    without |= contiguous == Some(false);
                }
                None => {}
            }
        }
        with && without && !self.is_being_resized((table, run))
    }

    /// Returns true if an operation that has not returned changed a slot that translated addresses of a run: it answers for it.
    fn is_being_resized(&self, run: Slot) -> bool {
        let Some((first, last)) = self.translated(run, 16) else { return false };
        let open = self.cpus.iter().filter(|c| c.operation.is_some());
        open.flat_map(|c| &c.answers_for).any(|s| s.0 <= last && first <= s.1)
    }

    /// Returns the first and last addresses that some slots translate, if any of them is watched.
    pub(crate) fn translated(&self, (table, slot): Slot, slots: u64) -> Option<(u64, u64)> {
        let bytes = span(level_of(table));
        let base = if table == L2 {
            BASE
        } else {
            let linked = |slot2: &usize| self.memory.child(*slot2) == Some(table);
            BASE + self.watched.iter().map(|w| w.slots.0).find(linked)? as u64 * BLOCK
        };
        let first = base + slot as u64 * bytes;
        Some((first, first + (slots * bytes - 1)))
    }
}

/// Returns the mapping of an address after these changes.
fn changed(w: &Watched, changes: &[Expected]) -> Option<Mapping> {
    let mut mapping = w.expected;
    for change in changes {
        let offset = w.va.wrapping_sub(change.va);
        if offset < change.bytes {
            mapping = change.to.map(|to| Mapping { pa: to.pa + offset, ..to });
        }
    }
    mapping
}

/// Returns true if one of the changes covers an address.
fn named(changes: &[Expected], va: u64) -> bool {
    changes.iter().any(|c| va.wrapping_sub(c.va) < c.bytes)
}

/// Returns the parts of a mapping that hardware reads; `None` if it is not valid.
pub(crate) fn in_hardware(mapping: Mapping) -> Option<(u64, u64)> {
    mapping.valid.then_some((mapping.pa, mapping.attributes & !SOFTWARE))
}
