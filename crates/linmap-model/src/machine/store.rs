//! A store into a table: the entries that TLBs can hold from then on, and whether they may.

use linmap::arch::{Descriptor, Entry, Leaf, Level};

use super::frames::{meaningless, reserved, sequence};
use super::{Finding, Machine, lowest, named};
use crate::asid::Asid;
use crate::cached::{Cached, Clash};
use crate::pages::{Place, State};
use crate::space::Space;
use crate::stale::StaleLeaf;
use crate::{CpuId, Rule, stage2};

/// A live store: the slot, the old descriptor and the new one.
#[derive(Clone, Copy)]
struct Store {
    cpu: CpuId,
    table: u64,
    index: usize,
    value: u64,
    place: Place,
    /// Returns the first and last address that the slot translates.
    span: (u64, u64),
}

impl Machine {
    /// Stores `count` descriptors from `value` on, in steps of `step`.
    pub(super) fn write(
        &mut self,
        cpu: CpuId,
        (table, index): (u64, usize),
        (value, count, step): (u64, usize, u64),
        was: Option<u64>,
    ) -> Result<(), Finding> {
        let Some(page) = self.pages.get(table) else {
            return Err(sequence(cpu, format!("{table:#x} is not a table page of this machine")));
        };
        let end = index.checked_add(count);
        if count == 0 || end.is_none_or(|end| end > page.words.len().max(1)) {
            return Err(sequence(cpu, format!("slots {index} and on, {count} of them, are not in a table")));
        }
        let state = page.state;
        if matches!(state, State::Unlinked | State::Offline) {
            self.not_under_reader(table, "is written")?;
        }
        self.can_access(cpu, table, true)?;
        if state != State::Free {
            self.store_through_caches(cpu, (table, index), count)?;
        }
        let values = (0..count as u64).map(|i| value.wrapping_add(step.wrapping_mul(i)));
        match state {
            State::Free => {
                let fact = format!("cpu {cpu} writes into the page at {table:#x}, which is free");
                return Err(Finding::new(Rule::Freed, fact).on(cpu));
            }
            State::Linked(place) if count == 1 => {
                self.not_walked_from_elsewhere(cpu, table, place)?;
                return self.live_store(cpu, (table, index), value, place, was);
            }
            State::Linked(place) if self.holders(place.root) != 0 => {
                let fact = format!("{count} stores at once into the live table at {table:#x}");
                return Err(sequence(cpu, fact).at(place.va));
            }
            State::Unlinked => {
                self.not_walkable(table, "is written")?;
                if let Some(page) = self.pages.get_mut(table) {
                    page.state = State::Offline;
                }
            }
            State::Linked(place) => {
                self.not_walked_from_elsewhere(cpu, table, place)?;
                // Tables that the stores link or unlink have their place in a tree, though no CPU is on it now.
                let translated = self.geometry().entries(place.level);
                for (slot, value) in (index..translated.min(index + count)).zip(values.clone()) {
                    self.live_store(cpu, (table, slot), value, place, None)?;
                }
            }
            State::Offline => {}
        }
        self.pages.store(cpu, table, index, values);
        Ok(())
    }

    /// Judges a read: the page is taken, and its address translates.
    pub(super) fn can_read(&self, cpu: CpuId, table: u64) -> Result<(), Finding> {
        match self.pages.get(table).map(|p| p.state) {
            None => Err(sequence(cpu, format!("{table:#x} is not a table page of this machine"))),
            Some(State::Free) => {
                let fact = format!("cpu {cpu} reads the page at {table:#x}, which is free");
                Err(Finding::new(Rule::Freed, fact).on(cpu))
            }
            Some(_) => self.can_access(cpu, table, false),
        }
    }

    /// Judges that a CPU reaches a table by the address that it uses for it.
    fn can_access(&self, cpu: CpuId, table: u64, write: bool) -> Result<(), Finding> {
        let Some(offset) = self.setup.table_offset else { return Ok(()) };
        let half = usize::from(!self.cpu(cpu).parked);
        let va = if half == 0 { table } else { table.wrapping_add(offset) };
        // With translation off it reaches all memory.
        let slots = self.slots_at_work(cpu);
        if slots.iter().all(|&slot| self.cpu(cpu).ttbr[slot].is_none()) {
            return Ok(());
        }
        self.in_force(cpu, 1 << slots[half])?;
        let Some(ttbr) = self.cpu(cpu).ttbr[slots[half]] else {
            let fact =
                format!("cpu {cpu} reaches the table at {table:#x} by {va:#x}, and has no tables for that");
            return Err(Finding::new(Rule::Alias, fact).on(cpu).at(va));
        };
        let (root, g) = ((ttbr.root, self.place_of_root(ttbr.root, half)), self.geometry());
        let refused = |said: &str| {
            let fact = format!("cpu {cpu} reaches the table at {table:#x} by {va:#x}, which {said}");
            Finding::new(Rule::Alias, fact).on(cpu).at(va)
        };
        if va < root.1.va || va - root.1.va >= 1 << g.va_bits() {
            return Err(refused("does not translate: it is in neither half"));
        }
        self.pages.walk(root, (va, va), g, &mut |piece| {
            let said = match piece.entry {
                Entry::Leaf(Leaf { valid: true, attributes, oa, .. }) => {
                    let oa = oa.0 + (va - piece.start);
                    match () {
                        () if oa != table => format!("translates to {oa:#x}"),
                        () if write && !attributes.is_writable() => "is read-only".into(),
                        () => return Ok(()),
                    }
                }
                _ => "does not translate".into(),
            };
            Err(refused(&said))
        })
    }

    fn live_store(
        &mut self,
        cpu: CpuId,
        (table, index): (u64, usize),
        value: u64,
        place: Place,
        was: Option<u64>,
    ) -> Result<(), Finding> {
        let g = self.geometry();
        if index >= g.entries(place.level) {
            return Err(sequence(cpu, format!("slot {index} of the root is not translated")));
        }
        let store = self.store_of(cpu, (table, index), value, place);
        let va = store.span.0;
        let old = self.read(linmap::Pa(table), index).unwrap_or_default();
        if let Some(was) = was.filter(|&was| was != old) {
            let fact = format!("cpu {cpu} read {was:#x} and stores {value:#x}, but meanwhile it is {old:#x}");
            return Err(Finding::new(Rule::LostUpdate, fact).on(cpu).at(va));
        }
        if old == value {
            return Ok(());
        }
        if meaningless(value, place, g) {
            return Err(reserved(value, place, g).on(cpu).at(va));
        }
        if table == place.root {
            self.root_has_one_space(cpu, table, place)?;
        }
        self.replaces_nothing(cpu, (place.root, old))?;
        self.note_touched(&store, old);
        let staying = self.staying(place.root, store.span);
        if self.may_make_valid(&store, old) && self.holders(place.root) != 0 {
            let (root, span, slot) = (place.root, store.span, Some((table, index)));
            self.fresh.push(super::Fresh { cpu, root, slot, span });
        }
        self.limits_stay(&store, old)?;
        self.replace_old(&store, old)?;
        self.pages.store(cpu, table, index, std::iter::once(value));
        self.entry_is_right(&store)?;
        self.none_has_grown(cpu, place.root, staying)?;
        if self.merges((table, index), old, place) {
            self.nothing_pending(cpu, place.root, store.span)?;
        }
        Ok(())
    }

    fn store_of(&self, cpu: CpuId, (table, index): (u64, usize), value: u64, place: Place) -> Store {
        let shift = self.geometry().level_shift(place.level);
        let va = place.va.wrapping_add((index as u64) << shift);
        Store { cpu, table, index, value, place, span: (va, va | ((1 << shift) - 1)) }
    }

    /// Judges a descriptor that a walker has put into a live table.
    pub(super) fn updated_is_right(
        &self,
        cpu: CpuId,
        slot: (u64, usize),
        value: u64,
        place: Place,
    ) -> Result<(), Finding> {
        self.entry_is_right(&self.store_of(cpu, slot, value, place))
    }

    /// Judges the new contents of a slot of a live table.
    fn entry_is_right(&self, store: &Store) -> Result<(), Finding> {
        let Store { table, index, place, span, .. } = *store;
        self.may_be_held(store)?;
        self.window(store)?;
        self.stored_pages_have_one_asid(place, span)?;
        self.run_may_be_seen((table, index), place)?;
        self.aliases_agree(place.root, span)?;
        self.pages_may_be_mapped(place.root, span)
    }

    /// Adds the addresses of a store to the operation of its CPU, which answers for them.
    fn note_touched(&mut self, store: &Store, old: u64) {
        let Store { cpu, place, span, .. } = *store;
        let (root, may_make_valid) = (self.current(place.root), self.may_make_valid(store, old));
        if let Some(operation) = &mut self.cpu_mut(cpu).operation
            && operation.root == root
        {
            operation.touched.push(span);
            operation.made_valid.extend(may_make_valid.then_some(span));
        }
    }

    /// Returns true if addresses faulted by the old entry of a slot, and the new one translates them or leads to a table.
    fn may_make_valid(&self, store: &Store, old: u64) -> bool {
        let g = self.geometry();
        let faults = |word: u64| match Descriptor(word).decode(g, store.place.level) {
            Entry::Leaf(leaf) => self.leaf_faults(leaf, (store.span.0, store.place.level)),
            Entry::Table(_) => false,
            Entry::Hole | Entry::Reserved => true,
        };
        faults(old) && !faults(store.value)
    }

    /// Returns true if addresses fault by a leaf. An access flag fault is one too, where no walker sets the flag.
    pub(super) fn leaf_faults(&self, leaf: Leaf, (va, level): (u64, Level)) -> bool {
        Cached::new(va, self.once_accessed(leaf, u8::MAX), level, self.geometry()).is_none()
    }

    /// Judges that a table in use keeps its restrictions: to change them takes break-before-make, and walk caches drop the
    /// table: IYQWJF for APTable, and the end of D8.4.1.2 for UXNTable and PXNTable. A TLBI of everything afterwards is not enough.
    fn limits_stay(&self, store: &Store, old: u64) -> Result<(), Finding> {
        let Store { cpu, value, place, span, .. } = *store;
        let entry = |word| stage2::decode(word, self.geometry(), place);
        let Entry::Table(table) = entry(value) else { return Ok(()) };
        let (new, walkers) = (place.below(value, span.0).limits, self.walkers(place.root));
        let changes = |limits: linmap::arch::TableLimits| limits != new && walkers != 0;
        let in_place = entry(old) == entry(value) && changes(place.below(old, span.0).limits);
        let stale = self.stale_of(place.space).tables.iter().any(|t| {
            let users = self.users_of_entries(t.holders, t.root) & walkers;
            t.walkable && t.table == table.0 && users != 0 && changes(t.limits)
        });
        if !in_place && !stale {
            return Ok(());
        }
        let fact = format!("the restrictions on what lies below the table at {table} change");
        let held = "walk caches may hold its descriptor as it was";
        Err(Finding::new(Rule::BreakBeforeMake, fact).on(cpu).at(span.0).and(held))
    }

    /// Keeps the old entry as one that TLBs may hold, and links a new table into the tree.
    fn replace_old(&mut self, store: &Store, old: u64) -> Result<(), Finding> {
        let Store { cpu, value, place, span, .. } = *store;
        let g = self.geometry();
        let holders = self.holders(place.root);
        let next = stage2::decode(value, g, place);
        match stage2::decode(old, g, place) {
            Entry::Leaf(leaf) if holders != 0 => {
                if let Some(cached) = Cached::new(span.0, leaf, place.level, g) {
                    let asid = if cached.is_global() { Asid::Global } else { self.asid_of(place.root) };
                    let from = (place.root, store.table, asid);
                    let mut stale = StaleLeaf::new(cached, holders, from, cpu, self.now);
                    stale.space = place.space;
                    self.stale_of_mut(place.space).add_leaf(stale);
                }
            }
            Entry::Table(child) if Entry::Table(child) != next => {
                self.unlink(cpu, (child.0, None), place.below(old, span.0), holders);
            }
            _ => {}
        }
        match next {
            Entry::Table(child) => self.link(cpu, child.0, place.below(value, span.0)),
            _ => Ok(()),
        }
    }

    /// Takes a table, and all below it, out of a tree; `above` it may be another that goes with it.
    fn unlink(&mut self, cpu: CpuId, (table, above): (u64, Option<u64>), place: Place, holders: u8) {
        let g = self.geometry();
        for (child, below) in self.pages.children(table, place, g) {
            self.unlink(cpu, (child, Some(table)), below, holders);
        }
        let (asid, now) = (self.asid_of(place.root), self.now);
        let Some(page) = self.pages.get_mut(table) else { return };
        page.state = if holders == 0 { State::Offline } else { State::Unlinked };
        page.live_until = Some(now);
        if holders != 0 {
            let words: std::sync::Arc<[u64]> = page.words.as_slice().into();
            let by = (cpu, self.now);
            self.stale_of_mut(place.space).add_table((table, place), words, (holders, asid), above, by, g);
        }
    }

    /// Judges that no TLB comes to hold two entries that it must not hold together.
    fn may_be_held(&self, store: &Store) -> Result<(), Finding> {
        let Store { value, place, span, .. } = *store;
        let g = self.geometry();
        let walkers = self.walkers(place.root);
        if walkers == 0 {
            return Ok(());
        }
        match stage2::decode(value, g, place) {
            Entry::Leaf(leaf) => {
                if place.space == Space::El2 {
                    self.may_be_local(store.cpu, leaf)?;
                }
                let leaf = if place.space.is_stage_2() { leaf } else { self.once_accessed(leaf, walkers) };
                let Some(new) = Cached::new(span.0, leaf, place.level, g) else { return Ok(()) };
                self.against_stale(&new, place, walkers)?;
                self.against_run(store, &new, walkers)
            }
            Entry::Table(child) => {
                let below = place.below(value, span.0);
                self.against_link(span, (child.0, below), walkers)?;
                self.table_against_run(store, (child.0, below), walkers)?;
                if !self.anything_stale(span, place.space, walkers) {
                    return Ok(());
                }
                self.tree_against_stale((child.0, below), span, walkers)
            }
            Entry::Hole | Entry::Reserved => Ok(()),
        }
    }

    /// Returns true if TLBs of some CPUs may hold entries of a range that are not in the tables.
    fn anything_stale(&self, (first, last): (u64, u64), space: Space, cpus: u8) -> bool {
        let (g, all) = (self.geometry(), self.stale_of(space));
        let used = |holders: u8, root: u64| self.users_of_entries(holders, root) & cpus != 0;
        all.leaves.iter().any(|l| used(l.holders, l.root) && l.cached.overlaps(first, last))
            || all.tables.iter().any(|t| {
                let (start, end) = t.span(g);
                used(t.holders, t.root) && start <= last && first <= end
            })
    }

    /// Judges every leaf of a (sub)tree against the stale entries that TLBs may hold.
    pub(super) fn tree_against_stale(
        &self,
        tree: (u64, Place),
        span: (u64, u64),
        walkers: u8,
    ) -> Result<(), Finding> {
        let g = self.geometry();
        self.pages.walk(tree, span, g, &mut |piece| match piece.entry {
            Entry::Leaf(leaf) => match Cached::new(piece.start, leaf, piece.level, g) {
                Some(new) => self.against_stale(&new, tree.1, walkers),
                None => Ok(()),
            },
            _ => Ok(()),
        })
    }

    /// Judges a leaf that walkers may fetch from now on against the stale entries that TLBs may hold.
    fn against_stale(&self, new: &Cached, place: Place, walkers: u8) -> Result<(), Finding> {
        let (g, all) = (self.geometry(), self.stale_of(place.space));
        let (first, last) = (new.first, new.last());
        let apart = |held: Asid| !new.is_global() && self.is_apart(held, place.root);
        for stale in &all.leaves {
            let cpus = self.users_of_entries(stale.holders, stale.root) & walkers;
            let common = stale.members & stale.cached.members_in(first, last);
            if cpus != 0 && common != 0 && !stale.waits.is_gone_but_for_isb() && !apart(stale.asid) {
                let why = |cpu, va| self.why_leaf_remains(stale, cpu, va);
                self.clash(&stale.cached, new, (cpus, stale.since), why)?;
            }
        }
        for stale in &all.tables {
            let cpus = self.users_of_entries(stale.holders, stale.root) & walkers;
            if cpus == 0 || stale.waits.is_gone_but_for_isb() {
                continue;
            }
            let why = |cpu, _| self.why_table_remains(stale, cpu);
            for old in stale.slots_in(first, last, g).into_iter().filter_map(|slot| stale.leaf(slot, g)) {
                if !apart(stale.leaf_asid(&old)) {
                    self.clash(&old, new, (cpus, stale.since), why)?;
                }
            }
        }
        Ok(())
    }

    /// Judges a table that walkers may reach from now on against leaves and other tables in its place.
    fn against_link(
        &self,
        (first, last): (u64, u64),
        (table, below): (u64, Place),
        walkers: u8,
    ) -> Result<(), Finding> {
        let (all, level) = (self.stale_of(below.space), Level::new(below.level.number() - 1));
        let apart = |held: Asid| below.va >> 63u32 == 0 && self.is_apart(held, below.root);
        let leaves = all.leaves.iter().filter(|l| {
            l.cached.level <= level
                && l.members & l.cached.members_in(first, last) != 0
                && !l.waits.is_gone_but_for_isb()
                && !apart(l.asid)
        });
        for stale in leaves {
            let held = || format!("{} (replaced by event {})", stale.cached.describe(), stale.since);
            self.strong(self.users_of_entries(stale.holders, stale.root) & walkers, first, || {
                [
                    format!("a TLB may hold {}", held()),
                    format!("and now the table at {table:#x} is in its place"),
                ]
            })?;
        }
        let tables = all.tables.iter().filter(|t| {
            t.walkable
                && t.table != table
                && (t.va, t.level) == (first, below.level)
                && !t.waits.is_gone_but_for_isb()
                && !apart(t.way_asid())
        });
        for stale in tables {
            let held = || format!("{:#x} (unlinked by event {})", stale.table, stale.since);
            self.strong(self.users_of_entries(stale.holders, stale.root) & walkers, first, || {
                let fact = format!("walk caches may lead to the table at {}", held());
                [fact, format!("and now the table at {table:#x} is in its place")]
            })?;
        }
        Ok(())
    }

    /// Judges a new member of a run against the others, for which it can be cached.
    fn against_run(&self, store: &Store, new: &Cached, walkers: u8) -> Result<(), Finding> {
        let g = self.geometry();
        let Store { table, index, place, .. } = *store;
        let members = g.contiguous_entries(place.level);
        let first = index - index % members;
        for mate in (first..first + members).filter(|&m| m != index && members > 1) {
            let word = self.read(linmap::Pa(table), mate).unwrap_or_default();
            let va = place.va.wrapping_add((mate as u64) << g.level_shift(place.level));
            let Entry::Leaf(leaf) = stage2::decode(word, g, place) else { continue };
            let Some(old) = Cached::new(va, leaf, place.level, g) else { continue };
            if !old.contiguous && !new.contiguous {
                continue;
            }
            self.clash(&old, new, (walkers, self.now), |_, _| {
                format!("both are in the table at {table:#x}")
            })?;
        }
        Ok(())
    }

    /// Judges a new table among the members of a run, which can be cached for its addresses.
    fn table_against_run(&self, store: &Store, child: (u64, Place), walkers: u8) -> Result<(), Finding> {
        let g = self.geometry();
        let Store { table, index, place, span, .. } = *store;
        let Some(said) = self.member_beside((table, index), place) else { return Ok(()) };
        self.pages.walk(child, span, g, &mut |piece| {
            let Entry::Leaf(leaf) = piece.entry else { return Ok(()) };
            let Some(new) = Cached::new(piece.start, leaf, piece.level, g) else { return Ok(()) };
            self.clash(&said, &new, (walkers, self.now), |_, _| {
                format!("the first is a member of a run in the table at {table:#x}")
            })
        })
    }

    /// Judges two entries for one address, the second newer, that TLBs of `cpus` may hold together.
    fn clash(
        &self,
        old: &Cached,
        new: &Cached,
        (cpus, since): (u8, usize),
        why: impl Fn(CpuId, u64) -> String,
    ) -> Result<(), Finding> {
        let va = old.first.max(new.first);
        let holds = || format!("a TLB may hold {} (until event {since})", old.describe());
        match old.clash(new) {
            None => Ok(()),
            Some(Clash::Size(what)) => {
                self.strong(cpus, va, || [holds(), format!("and now {}: {what}", new.describe())])
            }
            Some(Clash::Forbidden(what)) => {
                let cpu = lowest(cpus);
                Err(Finding::new(Rule::BreakBeforeMake, format!("{what} on {}", named(cpus)))
                    .on(cpu)
                    .at(va)
                    .and(holds())
                    .and(format!("and now {}", new.describe()))
                    .and(why(cpu, va)))
            }
        }
    }

    /// Judges entries of two sizes: none of these CPUs may abort on them.
    fn strong(&self, cpus: u8, va: u64, facts: impl FnOnce() -> [String; 2]) -> Result<(), Finding> {
        let weak = cpus & self.cpus_that(|c| !c.core.never_aborts);
        if weak == 0 {
            return Ok(());
        }
        let [holds, now] = facts();
        let found = Finding::new(Rule::SizeConflict, holds).on(lowest(weak)).at(va);
        Err(found.and(now).and(format!("{} may raise a TLB conflict abort", named(weak))))
    }

    /// Judges that every address has its old translation or its new one during the store.
    fn window(&self, store: &Store) -> Result<(), Finding> {
        let Store { place, span, .. } = *store;
        let users = self.users(place.root);
        if users == 0 {
            return Ok(());
        }
        self.translates(place.root, span, super::operation::Moment::Meanwhile)
            .map_err(|found| Finding { cpu: found.cpu.or(Some(lowest(users))), ..found })
    }
}
