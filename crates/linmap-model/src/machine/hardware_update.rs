//! Hardware updates of descriptors: walkers that set the access flag and make writable-clean entries writable-dirty.
//!
//! A walker updates a descriptor by an atomic read-modify-write (D8.5.1.2 RLFTXR, D8.5.2.1 RPQJJR), at any time: for
//! the access flag a speculative access is enough (RLHQRX). So it is not enough to judge the updates that a log has. A
//! plain store over an entry that some walker may be updating loses the update; a compare and swap does not.
//!
//! The entry before the update needs no record. With AF=0 it is in no TLB (RXFXTY). A writable-clean one that a TLB
//! holds is compared with the table before it is used for a write (RSGJBL), and permits the same otherwise.

use linmap::arch::{Descriptor, Entry, Leaf};
use linmap::{Attributes, Pa};

use super::frames::sequence;
use super::{Finding, Machine, lowest};
use crate::cached::Cached;
use crate::pages::{Place, State};
use crate::{CpuId, Rule, Update};

const ACCESSED: u64 = Attributes::ACCESSED.bits();
const READ_ONLY: u64 = Attributes::READ_ONLY.bits();
/// The attributes of a writable-clean entry, as attributes and as bits.
const CLEAN_ATTRIBUTES: Attributes = Attributes::READ_ONLY.union(Attributes::DIRTY_MANAGED);
const CLEAN: u64 = CLEAN_ATTRIBUTES.bits();

impl Machine {
    /// Takes an update by the walker of a CPU. If there is nothing to update, nothing happens.
    pub(super) fn update(&mut self, cpu: CpuId, slot: (u64, usize), what: Update) -> Result<(), Finding> {
        let (place, old) = self.updatable(cpu, slot)?;
        let core = self.cpu(cpu).core;
        let sets = |flag: bool, name: &str| match flag {
            true => Ok(()),
            false => Err(sequence(cpu, format!("the walker of cpu {cpu} does not {name}"))),
        };
        let new = match what {
            Update::Accessed => {
                sets(core.hardware_access_flag, "set the access flag")?;
                old | ACCESSED
            }
            Update::Dirty => {
                sets(core.hardware_dirty_state, "manage the dirty state")?;
                sets(old & ACCESSED != 0 || core.hardware_access_flag, "set the access flag")?;
                if old & CLEAN & !READ_ONLY == 0 {
                    return Err(sequence(cpu, format!("{old:#x} has no DBM: no walker makes it writable")));
                }
                (old | ACCESSED) & !READ_ONLY
            }
        };
        if new == old {
            return Ok(());
        }
        if let Some(word) = self.pages.get_mut(slot.0).and_then(|page| page.words.get_mut(slot.1)) {
            *word = new;
        }
        self.updated_is_right(cpu, slot, new, place)
    }

    /// Returns the place of a table and the leaf in a slot, if the CPU walks there.
    fn updatable(&self, cpu: CpuId, (table, index): (u64, usize)) -> Result<(Place, u64), Finding> {
        let walks = |p: &Place| self.walkers(p.root) & 1 << cpu != 0;
        let place = match self.pages.get(table).map(|page| page.state) {
            Some(State::Linked(place)) => Some(place).filter(walks),
            _ => None,
        };
        let Some(place) = place else {
            return Err(sequence(cpu, format!("cpu {cpu} does not walk the table at {table:#x}")));
        };
        if place.space.is_stage_2() {
            return Err(sequence(cpu, "a walker updates a leaf of stage 2, which is not modelled"));
        }
        let word = self.read(Pa(table), index).filter(|_| index < self.geometry().entries(place.level));
        match word.map(|w| (w, Descriptor(w).decode(self.geometry(), place.level))) {
            Some((word, Entry::Leaf(Leaf { valid: true, .. }))) => Ok((place, word)),
            _ => {
                let fact = format!("slot {index} of the table at {table:#x} has no valid leaf to update");
                Err(sequence(cpu, fact))
            }
        }
    }

    /// Takes a compare and swap: a store that happens if the slot is as expected.
    pub(super) fn compare_and_swap(
        &mut self,
        cpu: CpuId,
        (table, index): (u64, usize),
        [was, value]: [u64; 2],
    ) -> Result<(), Finding> {
        match self.read(Pa(table), index) {
            Some(now) if now != was => self.can_read(cpu, table),
            _ => self.write(cpu, (table, index), (value, 1, 0), Some(was)),
        }
    }

    /// Judges that a plain store loses no update that a walker may be making.
    pub(super) fn no_update_lost(
        &self,
        cpu: CpuId,
        (table, index): (u64, usize),
        value: u64,
    ) -> Result<(), Finding> {
        if !self.hardware_updates {
            return Ok(());
        }
        let Some(State::Linked(place)) = self.pages.get(table).map(|page| page.state) else { return Ok(()) };
        if place.space.is_stage_2() {
            return Ok(());
        }
        let old = self.read(Pa(table), index).unwrap_or_default();
        let is_leaf = |word: u64| matches!(Descriptor(word).decode(self.geometry(), place.level), Entry::Leaf(l) if l.valid);
        if !is_leaf(old) || old == value {
            return Ok(());
        }
        let walkers = self.walkers(place.root);
        let setting = walkers & self.cpus_that(|c| c.core.hardware_access_flag);
        let dirtying = walkers & self.cpus_that(|c| c.core.hardware_dirty_state);
        let (lost, cpus) = match () {
            // Changes of the flag itself are excepted (IBMRWH).
            () if old & ACCESSED == 0 && (old ^ value) & !ACCESSED != 0 && setting != 0 => {
                ("set its access flag", setting)
            }
            // A store of a leaf that is writable-dirty, or never lets it become so, has nothing to lose.
            () if old & CLEAN == CLEAN && (value & READ_ONLY != 0 || !is_leaf(value)) && dirtying != 0 => {
                ("make it writable-dirty", dirtying)
            }
            () => return Ok(()),
        };
        let by = lowest(cpus);
        let va = place.va.wrapping_add((index as u64) << self.geometry().level_shift(place.level));
        let fact = format!("cpu {cpu} stores {value:#x} over {old:#x}, and no compare and swap");
        let walker = format!("meanwhile the walker of cpu {by} may {lost}");
        Err(Finding::new(Rule::LostUpdate, fact).on(by).at(va).and(walker))
    }

    /// Returns a leaf as some walkers may make it, so that TLBs can hold it.
    pub(super) fn once_accessed(&self, leaf: Leaf, walkers: u8) -> Leaf {
        if !self.hardware_updates || walkers & self.cpus_that(|c| c.core.hardware_access_flag) == 0 {
            return leaf;
        }
        Leaf { attributes: leaf.attributes | Attributes::ACCESSED, ..leaf }
    }

    /// Judges that a write by way of a leaf that TLBs may hold is noted in the tables. One that is writable-dirty there
    /// updates nothing (D8.5.2.1 RNMLQ). Stage 2 has other bits, and is not judged by this.
    ///
    /// # Errors
    ///
    /// The first address that the tables leave writable-clean.
    pub(super) fn dirty_state_is_kept(&self, root: u64, span: (u64, u64), held: &Cached) -> Result<(), u64> {
        let dirty = held.attributes & CLEAN_ATTRIBUTES == Attributes::DIRTY_MANAGED;
        let place = self.root_place(root).filter(|place| dirty && !place.space.is_stage_2());
        let (true, Some(place)) = (self.manages_dirty_state(), place) else { return Ok(()) };
        self.pages.walk((root, place), span, self.geometry(), &mut |piece| match piece.entry {
            Entry::Leaf(leaf) if leaf.valid && leaf.attributes.contains(CLEAN_ATTRIBUTES) => Err(piece.va),
            _ => Ok(()),
        })
    }

    /// Returns true if the walker of some CPU manages the dirty state.
    fn manages_dirty_state(&self) -> bool {
        self.hardware_updates && self.cpus.iter().any(|c| c.core.hardware_dirty_state)
    }

    /// Returns true if walkers may have made some attributes of others.
    pub(super) fn is_update(&self, from: Attributes, to: Attributes) -> bool {
        if !self.hardware_updates {
            return false;
        }
        let mut updated = Attributes::empty();
        if self.cpus.iter().any(|c| c.core.hardware_access_flag) {
            updated |= Attributes::ACCESSED - from;
        }
        if from.contains(CLEAN_ATTRIBUTES) && self.manages_dirty_state() {
            updated |= Attributes::READ_ONLY;
        }
        from ^ to == (from ^ to) & updated
    }
}
