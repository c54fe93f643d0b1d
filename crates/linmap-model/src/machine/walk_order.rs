//! Walks of several levels, which may find the old entry of one level and the new one of another.
//!
//! A store is sure to be seen by walks only after a DSB of its CPU (D8.2.6.1 RSPVBD), and walk caches lead to a table
//! until an invalidation drops the way to it (D8.17 RRVJDB). So a walk may still come to a table that is out of its
//! place, and finds there what the table holds now. While this lasts the table may not serve another place, and a
//! mapping that is made elsewhere does not count.
//!
//! Two stores into a table that walkers reach need no rule of their own: each step is judged with every entry that a
//! walk may still find, and a table is linked only when walkers see all of its contents (`frames.rs`). So a walk finds
//! either the entry above it as it was, and the table is not in it, or the new one, and the table is filled.

use linmap::Attributes;
use linmap::arch::{Descriptor, Entry};

use super::{Finding, Machine, lowest};
use crate::pages::Place;
use crate::space::Space;
use crate::stale::StaleTable;
use crate::{CpuId, Mapping, Rule};

impl Machine {
    /// Judges a store into a table of a tree: no walk cache leads to the table from another place.
    pub(super) fn not_walked_from_elsewhere(
        &self,
        cpu: CpuId,
        table: u64,
        place: Place,
    ) -> Result<(), Finding> {
        let elsewhere = |t: &&StaleTable| {
            let same = (t.va, t.level) == (place.va, place.level);
            t.table == table && t.walkable && !(same && self.current(t.root) == self.current(place.root))
        };
        let mut tables = self.all_stale().flat_map(|(_, stale)| &stale.tables);
        let Some(stale) = tables.find(elsewhere) else { return Ok(()) };
        let fact = format!(
            "cpu {cpu} changes the table at {table:#x}, which translated other addresses until event {}",
            stale.since
        );
        let holder = lowest(stale.holders);
        let walks = "walk caches may lead to it from there";
        let found = Finding::new(Rule::Freed, fact).on(holder).at(stale.va).and(walks);
        Err(found.and(self.why_table_remains(stale, holder)))
    }

    /// Judges that no walk faults by way of a table that was unlinked, where addresses of a range must translate.
    pub(super) fn old_tables_translate(&self, root: u64, spans: &[(u64, u64)]) -> Result<(), Finding> {
        let space = self.root_place(root).map_or(Space::HOME, |place| place.space);
        if space.is_stage_2() {
            // A fault at stage 2 goes to EL2, and the guest tries again.
            return Ok(());
        }
        let users = self.cpus_that(|c| c.ttbr.iter().flatten().any(|t| t.root == root));
        let led_to =
            |t: &&StaleTable| t.walkable && t.holders & users != 0 && !self.is_apart(t.way_asid(), root);
        for stale in self.stale_of(space).tables.iter().filter(led_to) {
            for &span in spans {
                self.old_table_translates_all(root, stale, span, users)?;
            }
        }
        Ok(())
    }

    fn old_table_translates_all(
        &self,
        root: u64,
        stale: &StaleTable,
        (first, last): (u64, u64),
        users: u8,
    ) -> Result<(), Finding> {
        let g = self.geometry();
        let span = stale.span(g);
        if last < span.0 || span.1 < first {
            return Ok(());
        }
        let shift = g.level_shift(stale.level);
        let slots = (first.max(span.0) - span.0) >> shift..=(last.min(span.1) - span.0) >> shift;
        // It may have been linked anew since, in the same place.
        let words = self.words(stale.table);
        for slot in slots.map(|slot| slot as usize) {
            let (from, to) = stale.slot_span(slot, g);
            let word = words.get(slot).copied().unwrap_or_default();
            let part = (from.max(first), to.min(last));
            let faults = match Descriptor(word).decode(g, stale.level) {
                Entry::Table(_) => false,
                Entry::Leaf(leaf) if leaf.valid => {
                    let accessed = |m: Mapping| {
                        m.valid && Attributes::from_bits_retain(m.attributes).contains(Attributes::ACCESSED)
                    };
                    !leaf.attributes.contains(Attributes::ACCESSED) && self.must_have(root, part, accessed)
                }
                _ => self.must_translate(root, part),
            };
            if faults {
                let cpu = lowest(stale.holders & users);
                let fact = format!(
                    "the table at {:#x}, unlinked by event {}, does not translate it",
                    stale.table, stale.since
                );
                let found = Finding::new(Rule::NotVisible, fact).on(cpu).at(part.0);
                return Err(found.and("walk caches may lead there").and(self.why_table_remains(stale, cpu)));
            }
        }
        Ok(())
    }
}
