//! Stores into tables: what they take away may still be held, what they bring must fit what is held, and a table must be filled.

use linmap::{Attributes, Va};

use super::cpu::Cpu;
use super::held::{Entry, Kind};
use super::memory::Memory;
use super::observer::{Observer, Tree};
use super::report::{Finding, Grade, Missed, Step, Stored, named};
use super::tree::{Format, LeafAt, Moved, Spot, TreeId};
use crate::asid::Asid;
use crate::cached::{Cached, Clash};
use crate::{Event, Rule};

/// The leaves of a CPU that wait for its barriers; with more the oldest are forgotten.
const FRESH: usize = 1024;

/// The words of a frame, the unit in which memory remembers stores.
const FRAME_WORDS: usize = 512;

/// Compares leaves by what TLBs may hold of them.
fn kind(old: &Cached, new: &Cached) -> Kind {
    const PERMISSIONS: Attributes = Attributes::READ_ONLY
        .union(Attributes::DIRTY_MANAGED)
        .union(Attributes::USER)
        .union(Attributes::PXN)
        .union(Attributes::UXN);
    let changed = old.attributes ^ new.attributes;
    let never = Attributes::PXN | Attributes::UXN;
    let loses = old.attributes.is_writable() && !new.attributes.is_writable()
        || old.attributes.contains(Attributes::USER) && !new.attributes.contains(Attributes::USER)
        || !(new.attributes & (never - old.attributes)).is_empty();
    match (changed.is_empty(), (changed - PERMISSIONS).is_empty() && !loses) {
        (true, _) => Kind::Same,
        (false, true) => Kind::Stricter,
        (false, false) => Kind::Restricted,
    }
}

impl<M: Memory> Observer<M> {
    /// A CPU stores a word.
    pub(super) fn store(&mut self, event: &Event, step: Step, pa: u64, word: u64) {
        self.memory.store(step.cpu, pa, word);
        let Some(slot) = self.tables.slot(pa) else {
            if self.held.may_lead_to(pa) {
                self.used_anew(event, step, pa, word);
            }
            return;
        };
        self.note(event, step);
        let old = self.tables.set(slot, word);
        if old == word {
            return;
        }
        let spots = self.tables.get(slot.0).map(|table| table.spots.clone()).unwrap_or_default();
        let stored = Stored { step, slot: pa, old, new: word };
        spots.iter().for_each(|spot| self.changed(stored, slot, spot));
    }

    /// A store into a page that was a table, while a walker may come to it; or into one that an old address may still lead to.
    fn used_anew(&mut self, event: &Event, step: Step, pa: u64, word: u64) {
        let way = self.held.way_to(pa).filter(|_| word & 1 == 1).cloned();
        let Some(way) = way else { return self.data_used_anew(event, step, pa) };
        self.note(event, step);
        self.report(Finding {
            va: Some(Va(way.first)),
            facts: vec![format!("{word:#x} is stored to {pa:#x}, and would be a valid descriptor to a walker that comes there")],
            right: "DSB, a TLBI of these addresses that is not of the last level alone, and DSB before the page is used anew",
            stored: Some(way.stored),
            missed: self.missed(&way),
            holders: way.holders,
            ..Finding::new(Grade::Breach, Rule::Freed, step)
        });
    }

    /// A store into a page that an old address may still lead to, where nothing is any more.
    fn data_used_anew(&mut self, event: &Event, step: Step, pa: u64) {
        let old = self.held.old_way_to(pa).map(|(id, entry)| (id, entry.clone()));
        let Some((id, old)) = old else { return };
        // It is looked at once: pages that are back where they were are stored to without end.
        self.held.mark_used_anew(id);
        if self.present(&old) != Some(Kind::Removed) {
            return;
        }
        self.note(event, step);
        self.report(Finding {
            va: Some(Va(old.first)),
            facts: vec![
                "the page is used, and the address that led to it may still do so".to_owned(),
                old.leaf.map_or_else(String::new, |leaf| leaf.describe()),
            ],
            right: "DSB, a TLBI of these addresses on all CPUs and DSB before the page is used anew",
            stored: Some(old.stored),
            missed: self.missed(&old),
            holders: old.holders,
            ..Finding::new(Grade::Hint, Rule::Given, step)
        });
    }

    /// Returns the fate of an entry's addresses by the tables as they are now: never worse than by the store that replaced the entry,
    /// and `None` if the tables have it again. What later stores made worse is another entry.
    pub(super) fn present(&self, old: &Entry) -> Option<Kind> {
        let Some(leaf) = old.leaf else {
            let spots = self.tables.get(old.to.0).map(|table| &table.spots[..]).unwrap_or_default();
            let is_back = spots.iter().any(|spot| (spot.tree, spot.va) == (old.tree, old.first));
            return (!is_back).then_some(old.kind);
        };
        let leaves = self.leaves(old.tree, (old.first, old.last));
        let mut next = old.first;
        let mut worst = None;
        for new in &leaves {
            if new.first > next || leaf.oa_at(next) != new.leaf.oa_at(next) {
                return Some(old.kind);
            }
            worst = worst.max((new.leaf != leaf).then(|| kind(&leaf, &new.leaf)));
            if new.last >= old.last {
                return worst.map(|kind| kind.min(old.kind));
            }
            next = new.last + 1;
        }
        Some(old.kind)
    }

    /// Returns the leaves of a loaded tree that translate some of these addresses.
    pub(super) fn leaves(&self, tree: TreeId, span: (u64, u64)) -> Vec<LeafAt> {
        let mut leaves = Vec::new();
        if let Some(Tree { format, .. }) = self.trees.get(&tree) {
            self.tables.leaves((tree.root, &format.root(tree)), format, span, &mut leaves);
        }
        leaves
    }

    /// The CPUs that may hold entries of a tree, and those that walk it, as bits.
    fn holders(&self, id: TreeId) -> (u64, u64) {
        let Some(tree) = self.trees.get(&id) else { return (0, 0) };
        let left = if id.half == 1 { tree.left } else { self.left_under(id, &tree.asids) };
        (tree.users | left, tree.users)
    }

    /// The CPUs that had a tree of the lower half under one of some ASIDs, and may hold entries of it, as bits.
    fn left_under(&self, id: TreeId, asids: &[u16]) -> u64 {
        let had = |cpu: &Cpu| asids.iter().any(|asid| cpu.asids.get(asid) == Some(&id));
        self.cpus.iter().enumerate().map(|(n, cpu)| u64::from(had(cpu)) << n).sum()
    }

    /// Judges a slot that changed, in one of the places of its table.
    fn changed(&mut self, stored: Stored, slot: (u64, usize), spot: &Spot) {
        let tree = spot.tree;
        let Some(format) = self.trees.get(&tree).map(|tree| tree.format) else { return };
        let (mut gone, mut came) = (Moved::default(), Moved::default());
        if stored.old & 1 == 1 {
            self.tables.unlinked_slot((slot.1, stored.old), spot, &format, &mut gone);
        }
        if stored.new & 1 == 1 {
            self.tables.linked_slot((slot.1, stored.new), spot, &format, &mut self.memory, &mut came);
        }
        self.unknown += came.unknown;
        self.changes_runs(stored, tree, &gone.leaves, &came.leaves);
        self.not_filled(stored, tree, &came);
        for new in &came.leaves {
            self.fits_what_is_held(stored, tree, new);
            if tree.half == 1 {
                self.was_never_out(stored, tree, new);
            }
        }
        for old in &gone.leaves {
            self.replaced(stored, tree, old, &came.leaves);
        }
        let ways = gone.tables.iter().filter(|way| !came.tables.contains(way));
        ways.for_each(|(table, place)| self.way_is_left(stored, *table, place, &format));
        if gone.leaves.is_empty() && tree.half == 1 && self.holders(tree).1 >> stored.step.cpu & 1 == 1 {
            let global = came.leaves.iter().filter(|new| new.leaf.is_global());
            let fresh = global.map(|new| super::cpu::Fresh {
                half: tree.half,
                first: new.first,
                last: new.last,
                step: stored.step,
                visible: false,
            });
            let waits = &mut self.cpus[usize::from(stored.step.cpu)].fresh;
            waits.extend(fresh);
            waits.drain(..waits.len().saturating_sub(FRESH));
        }
    }

    /// Judges that tables were filled, in the order that walkers see, before they were linked.
    pub(super) fn not_filled(&mut self, stored: Stored, tree: TreeId, came: &Moved) {
        let own = 1 << stored.step.cpu;
        // Stores are remembered by frames: those of other CPUs may be to what shares one with a small root.
        let of = |&(table, cpus): &(u64, u64)| {
            let is_small = self.tables.get(table).is_some_and(|table| table.words.len() < FRAME_WORDS);
            let cpus = if is_small { cpus & own } else { cpus };
            (cpus != 0).then_some((table, cpus))
        };
        let Some((table, cpus)) = came.unordered.iter().find_map(of) else { return };
        let place = came.tables.iter().find(|(pa, _)| *pa == table).map(|(_, spot)| Va(spot.va));
        self.report(Finding {
            va: place,
            facts: vec![format!("stores of {} to the table at {table:#x} have had no barrier", named(cpus))],
            right: "DSB ISHST between the stores to a table and the one that links it",
            stored: Some(stored),
            holders: self.holders(tree).1,
            ..Finding::new(Grade::Breach, Rule::Unfilled, stored.step)
        });
    }

    /// Judges a leaf that came beside what CPUs may hold of its addresses.
    fn fits_what_is_held(&mut self, stored: Stored, tree: TreeId, new: &LeafAt) {
        let (_, users) = self.holders(tree);
        let asids = self.asids(tree, new.leaf.is_global());
        let mut wrong = Vec::new();
        for held in self.held.overlapping(tree.half, new.leaf.first, new.leaf.last()) {
            let (Some(leaf), cpus) = (held.leaf, held.holders & users) else { continue };
            let serves = asids.iter().any(|asid| held.asid.serves(*asid));
            if serves
                && cpus != 0
                && let Some(clash) = leaf.clash(&new.leaf)
            {
                wrong.push((held.clone(), leaf, cpus, clash));
            }
        }
        for (held, leaf, cpus, clash) in wrong {
            let fact =
                format!("event {} took it out, and no invalidation dropped it since", held.stored.step.at);
            let facts = vec![format!("a TLB may hold {}", leaf.describe()), fact];
            self.clashes(stored, (held.stored, self.missed(&held)), (new, cpus, clash), facts);
        }
    }

    /// Judges a leaf of the kernel that comes back as it was, after the CPU that took it out had ended that with DSB and ISB: an
    /// invalidation should have taken it out of the TLBs as well.
    fn was_never_out(&mut self, stored: Stored, tree: TreeId, new: &LeafAt) {
        let ended = |held: &Entry| {
            let cpu = &self.cpus[usize::from(held.stored.step.cpu)];
            held.ordered.is_some_and(|at| at < cpu.last_isb)
        };
        let is_back = |held: &&Entry| {
            (held.tree, held.leaf) == (tree, Some(new.leaf))
                && held.members_in(new.first, new.last) != 0
                && held.kind > Kind::Aged
                && ended(held)
                && !held.reported
        };
        let held = self.held.overlapping(tree.half, new.first, new.last);
        let back: Vec<Entry> = held.filter(is_back).cloned().collect();
        for held in back {
            let at = held.stored.step.at;
            self.report(Finding {
                va: Some(Va(new.first)),
                facts: vec![
                    format!("now again {}", new.leaf.describe()),
                    format!("event {at} took it out, and no invalidation dropped it since: it may never have been out"),
                ],
                right: "DSB, a TLBI of these addresses on all CPUs and DSB after the store that takes it out",
                stored: Some(held.stored),
                missed: self.missed(&held),
                holders: held.holders,
                ..Finding::new(Grade::Suspect, Rule::Stale, stored.step)
            });
        }
    }

    /// A CPU comes to a tree, and may hold what was taken out of it while it was away.
    pub(super) fn comes_back(&mut self, step: Step, tree: TreeId, asid: u16) {
        let serves = |entry: &&Entry| entry.leaf.is_some() && entry.asid.serves(Asid::Of(asid));
        let held: Vec<_> = self.held.of_cpu(tree, step.cpu).filter(serves).cloned().collect();
        for entry in held {
            let Some(leaf) = entry.leaf else { continue };
            let leaves = self.leaves(tree, (entry.first, entry.last));
            let mut still = leaves.iter().filter(|new| entry.members_in(new.first, new.last) != 0);
            let Some((new, clash)) = still.find_map(|new| Some((new, leaf.clash(&new.leaf)?))) else {
                continue;
            };
            let facts = vec![
                format!("a TLB may hold {}", leaf.describe()),
                format!(
                    "event {} took it out while the CPU was away, and no invalidation dropped it",
                    entry.stored.step.at
                ),
            ];
            let loads = Stored { step, slot: 0, old: 0, new: tree.root };
            self.clashes(loads, (entry.stored, self.missed(&entry)), (new, 1 << step.cpu, clash), facts);
        }
    }

    /// Reports two entries that a TLB may not hold together. Returns true if it did.
    fn clashes(
        &mut self,
        stored: Stored,
        (before, missed): (Stored, Option<Missed>),
        (new, cpus, clash): (&LeafAt, u64, Clash),
        facts: Vec<String>,
    ) -> bool {
        let weak = |n: &u32| cpus >> n & 1 == 1 && !self.cpus[*n as usize].core.never_aborts;
        let weak = (0..self.cpus.len() as u32).filter(weak).fold(0u64, |bits, n| bits | 1 << n);
        let (rule, cpus, why) = match clash {
            Clash::Forbidden(why) => (Rule::BreakBeforeMake, cpus, why),
            Clash::Size(why) => (Rule::SizeConflict, weak, why),
        };
        if cpus == 0 {
            return false;
        }
        let mut all = vec![why.to_owned()];
        all.extend(facts);
        all.push(format!("now {}", new.leaf.describe()));
        self.report(Finding {
            va: Some(Va(new.first)),
            facts: all,
            right: "an invalid entry, DSB, a TLBI on all CPUs, DSB and ISB before the new one (break-before-make)",
            stored: Some(before),
            missed,
            holders: cpus,
            ..Finding::new(Grade::Breach, rule, stored.step)
        });
        true
    }

    /// Notes what CPUs may hold of a leaf that is no more as it was, and judges what came in its place at once.
    fn replaced(&mut self, stored: Stored, tree: TreeId, old: &LeafAt, came: &[LeafAt]) {
        let (holders, users) = self.holders(tree);
        let mut worst = if came.is_empty() { Some(Kind::Removed) } else { None };
        if came.is_empty() && stored.old ^ stored.new == Attributes::ACCESSED.bits() {
            worst = Some(Kind::Aged);
        }
        let mut reported = false;
        for new in came.iter().filter(|new| new.leaf.overlaps(old.first, old.last)) {
            if new.leaf == old.leaf {
                continue;
            }
            if let Some(clash) = old.leaf.clash(&new.leaf) {
                let facts = vec![format!("was {}", old.leaf.describe())];
                reported |= self.clashes(stored, (stored, None), (new, users, clash), facts);
            }
            worst = worst.max(Some(kind(&old.leaf, &new.leaf)));
        }
        let Some(kind) = worst else { return };
        for cpu in &mut self.cpus {
            cpu.fresh
                .retain(|fresh| fresh.half != tree.half || fresh.last < old.first || old.last < fresh.first);
        }
        if kind != Kind::Same {
            self.held.restrict(tree, (old.first, old.last), stored, kind);
        }
        for asid in self.asids(tree, old.leaf.is_global()) {
            self.held.add(Entry {
                leaf: Some(old.leaf),
                to: (old.leaf.oa, old.leaf.oa_at(old.leaf.last())),
                members: old.leaf.all_members(),
                first: old.first,
                last: old.last,
                tree,
                asid,
                holders,
                stored,
                ordered: None,
                ordered_here: None,
                kind,
                missed: None,
                reported,
                used_anew: false,
            });
        }
    }

    /// Notes that walk caches may lead to a table that is in this place no more.
    fn way_is_left(&mut self, stored: Stored, table: u64, place: &Spot, format: &Format) {
        let end = table + 8 * format.geometry.entries(place.level) as u64;
        self.held.unlink((table, end), stored.step.cpu);
        let bytes = (format.geometry.entries(place.level) as u64) << format.geometry.level_shift(place.level);
        let asids = self.asids(place.tree, place.tree.half == 1);
        let asids = if asids.is_empty() { vec![Asid::Unknown] } else { asids };
        for asid in asids {
            self.held.add(Entry {
                leaf: None,
                to: (table, end - 1),
                members: 1,
                first: place.va,
                last: place.va.wrapping_add(bytes - 1),
                tree: place.tree,
                asid,
                holders: self.holders(place.tree).0,
                stored,
                ordered: None,
                ordered_here: None,
                kind: Kind::Removed,
                missed: None,
                reported: false,
                used_anew: false,
            });
        }
    }
}
