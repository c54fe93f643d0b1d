//! Operations: their promises, judged while they run and when they return.

use linmap::Attributes;
use linmap::arch::Entry;

use super::frames::sequence;
use super::{Finding, Machine, Operation, lowest};
use crate::cached::Cached;
use crate::pages::{Piece, State};
use crate::space::Space;
use crate::{CpuId, Expected, Mapping, Rule, stage2};

/// The moment at which the tables are compared with the announced mappings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// While operations are under way: a page has its old mapping or its new one.
    Meanwhile,
    /// At rest: exactly, present-invalid mappings included.
    AtRest,
}

/// The mappings that an address may have: at least one, and one more for each CPU with an operation.
pub(super) struct States {
    all: [Option<Mapping>; 9],
    count: usize,
}

impl States {
    const fn new(now: Option<Mapping>) -> Self {
        let mut all = [None; 9];
        all[0] = now;
        Self { all, count: 1 }
    }

    const fn push(&mut self, state: Option<Mapping>) {
        self.all[self.count] = state;
        self.count += 1;
    }
}

impl std::ops::Deref for States {
    type Target = [Option<Mapping>];

    fn deref(&self) -> &Self::Target {
        &self.all[..self.count]
    }
}

impl Machine {
    pub(super) fn begin(
        &mut self,
        cpu: CpuId,
        root: u64,
        name: String,
        mut changes: Vec<Expected>,
    ) -> Result<(), Finding> {
        if let Some(open) = &self.cpu(cpu).operation {
            return Err(sequence(
                cpu,
                format!("{} is under way on this CPU since event {}", open.name, open.since),
            ));
        }
        changes.sort_by_key(|c| c.va);
        let page = self.geometry().page_size() - 1;
        let whole = |c: &Expected| c.bytes != 0 && (c.va | c.bytes) & page == 0 && c.last() >= c.va;
        let apart = changes.windows(2).all(|w| w[0].last() < w[1].va);
        if !apart || !changes.iter().all(whole) {
            return Err(sequence(cpu, "a change is not in whole pages, or two of them overlap"));
        }
        self.can_promise(cpu, &changes)?;
        self.note_types(&changes);
        let (now, root) = (self.now, self.current(root));
        self.in_force(cpu, self.halves_of(cpu, root))?;
        self.expected.entry(root).or_default();
        self.cpu_mut(cpu).operation =
            Some(Operation { root, name, changes, touched: Vec::new(), made_valid: Vec::new(), since: now });
        Ok(())
    }

    pub(super) fn done(&mut self, cpu: CpuId, ok: bool) -> Result<(), Finding> {
        let Some(operation) = self.cpu_mut(cpu).operation.take() else {
            return Err(sequence(cpu, "no operation is under way on this CPU"));
        };
        let root = operation.root;
        self.in_force(cpu, self.halves_of(cpu, root))?;
        self.no_table_twice(cpu, root)?;
        if ok {
            let flat = self.expected.entry(root).or_default();
            operation.changes.iter().for_each(|c| flat.apply(c));
            self.note_promises(&operation)?;
        }
        // If it was refused, every range that it announced must be as before, whichever CPU stored there meanwhile.
        let announced = operation.changes.iter().map(|c| (c.va, c.last()));
        let spans = joined(operation.touched.into_iter().chain(announced).collect());
        self.visible(cpu, root, &operation.made_valid, &spans)?;
        self.old_tables_translate(root, &spans)?;
        for &span in &spans {
            self.translates(root, span, Moment::AtRest)?;
            self.translates_on_old_trees(root, span)?;
        }
        self.nothing_stale(root, &spans, u8::MAX)
    }

    /// Returns the halves in which a CPU is on the map of a root, as bits: those of EL1&0, and those of EL2&0.
    fn halves_of(&self, cpu: CpuId, root: u64) -> u8 {
        let on = |half: &usize| self.cpu(cpu).ttbr[*half].is_some_and(|t| self.current(t.root) == root);
        (0..4).filter(on).fold(0, |bits, half| bits | 1 << half)
    }

    /// Judges that walkers see the CPU's stores, and the CPU itself does.
    fn visible(
        &self,
        cpu: CpuId,
        root: u64,
        made_valid: &[(u64, u64)],
        spans: &[(u64, u64)],
    ) -> Result<(), Finding> {
        if self.holders(root) == 0 {
            return Ok(());
        }
        for (_, table) in self.pages.dirty().filter(|d| d.0 == cpu) {
            if let Some(State::Linked(place)) = self.pages.get(table).map(|p| p.state)
                && self.current(place.root) == root
            {
                let fact = format!("stores to the table at {table:#x} have had no DSB");
                return Err(Finding::new(Rule::NotVisible, fact).on(cpu).at(place.va));
            }
        }
        self.nothing_hidden(cpu, root, Some(cpu))?;
        // Another CPU may have made a table valid on the way to the pages of this operation.
        let overlaps = |(first, last): (u64, u64)| {
            let both = spans.iter().map(|s| (s.0.max(first), s.1.min(last)));
            both.filter(|b| b.0 <= b.1).any(|b| self.must_translate(root, b))
        };
        let counts =
            |fresh: &super::Fresh| fresh.cpu == cpu || fresh.slot.is_some_and(|s| self.is_walked(s.0));
        for other in self.fresh.iter().filter(|f| counts(f)) {
            if self.current(other.root) == root && overlaps(other.span) {
                let fact = format!("a store of cpu {} made this valid, and has had no DSB", other.cpu);
                return Err(Finding::new(Rule::NotVisible, fact).on(cpu).at(other.span.0));
            }
        }
        let this = self.cpu(cpu);
        // Stage 2 is for guests, which a context synchronisation event brings in.
        let own = this.ttbr.iter().flatten().filter(|t| !t.space.is_stage_2());
        let uses = own.map(|t| t.root).any(|r| self.current(r) == root);
        let made_valid = || made_valid.iter().any(|&span| self.has_valid_leaves(root, span));
        if uses && this.isb_at < this.settled_at && made_valid() {
            let fact = format!(
                "no ISB on cpu {cpu} since the DSB of event {}: its own accesses may still fault",
                this.settled_at
            );
            return Err(Finding::new(Rule::NotVisible, fact).on(cpu));
        }
        Ok(())
    }

    /// Returns true if some addresses of a range do not fault by the tables.
    fn has_valid_leaves(&self, root: u64, span: (u64, u64)) -> bool {
        let Some(place) = self.root_place(root) else { return false };
        let found = self.pages.walk((root, place), span, self.geometry(), &mut |piece| {
            let Entry::Leaf(leaf) = piece.entry else { return Ok(()) };
            if self.leaf_faults(leaf, (piece.start, piece.level)) { Ok(()) } else { Err(()) }
        });
        found.is_err()
    }

    /// Judges that no TLB of `cpus` that use the tree may hold an entry that is not in it.
    pub(super) fn nothing_stale(&self, root: u64, spans: &[(u64, u64)], cpus: u8) -> Result<(), Finding> {
        let g = self.geometry();
        let users = cpus & self.cpus_that(|c| c.ttbr.iter().flatten().any(|t| t.root == root));
        let all = self.stale_of(self.root_place(root).map_or(Space::HOME, |place| place.space));
        for &(first, last) in spans {
            for stale in all.leaves.iter().filter(|l| self.users_of_entries(l.holders, l.root) & users != 0) {
                if !stale.cached.overlaps(first, last) || self.is_apart(stale.asid, root) {
                    continue;
                }
                let cpu = lowest(self.users_of_entries(stale.holders, stale.root) & users);
                let members = stale.members & stale.cached.members_in(first, last);
                for member in (0..128).filter(|m| members & 1 << m != 0) {
                    let start = stale.cached.first + (member << stale.cached.shift);
                    let part = (start.max(first), (start | ((1 << stale.cached.shift) - 1)).min(last));
                    let why = |va| self.why_leaf_remains(stale, cpu, va);
                    self.still_right(root, &stale.cached, part, (cpu, stale.since), why)?;
                }
            }
            for stale in all.tables.iter().filter(|t| self.users_of_entries(t.holders, t.root) & users != 0) {
                let cpu = lowest(self.users_of_entries(stale.holders, stale.root) & users);
                for slot in stale.slots_in(first, last, g) {
                    let own = |leaf: &Cached| !self.is_apart(stale.leaf_asid(leaf), root);
                    let Some(cached) = stale.leaf(slot, g).filter(own) else { continue };
                    // A member of a run may be cached for all of it, but their own invalidations dropped it at the
                    // addresses of the other members.
                    let (from, to) = stale.slot_span(slot, g);
                    let part = (from.max(first), to.min(last));
                    let why = |_| self.why_table_remains(stale, cpu);
                    self.still_right(root, &cached, part, (cpu, stale.since), why)?;
                }
            }
        }
        Ok(())
    }

    /// Judges that a TLB may hold only the new mapping of every page of a range.
    fn still_right(
        &self,
        root: u64,
        held: &Cached,
        part: (u64, u64),
        (cpu, since): (CpuId, usize),
        why: impl Fn(u64) -> String,
    ) -> Result<(), Finding> {
        self.may_keep(root, part, held).map_err(|va| {
            let wanted = self.states(root, va).1.first().copied().flatten();
            let wanted = stage2::marked_as(wanted, held.attributes);
            let lost = self.dirty_state_is_kept(root, (va, va), held).is_err();
            let held = format!("cpu {cpu} may still use {} (replaced by event {since})", held.describe());
            let mut found = Finding::new(Rule::Stale, held)
                .on(cpu)
                .at(va)
                .and(format!("the operation has made it {}", described(wanted)));
            if lost {
                found = found
                    .and("a write by way of the old entry leaves it writable-clean: its dirty state is lost");
            }
            found.and(why(va))
        })
    }

    /// Judges that addresses may translate now by a leaf.
    ///
    /// # Errors
    ///
    /// The first address that may not.
    pub(super) fn may_translate_as(
        &self,
        root: u64,
        (first, last): (u64, u64),
        said: &Cached,
    ) -> Result<(), u64> {
        let mut va = first;
        loop {
            let (end, states) = self.states(root, va);
            if !states.iter().flatten().any(|m| m.valid && self.same(m, said.oa_at(va), said.attributes)) {
                return Err(va);
            }
            if end >= last {
                return Ok(());
            }
            va = end + 1;
        }
    }

    /// Returns the mappings that an address may have now: the current one, and those that operations under way will
    /// have made. And the last address up to which they continue.
    pub(super) fn states(&self, root: u64, va: u64) -> (u64, States) {
        let root = self.current(root);
        let (now, mut end) = self.expected.get(&root).map_or((None, u64::MAX), |flat| flat.at(va));
        let mut states = States::new(now);
        let operations = self.cpus.iter().filter_map(|c| c.operation.as_ref());
        for change in operations.filter(|o| o.root == root).flat_map(|o| &o.changes) {
            if (change.va..=change.last()).contains(&va) {
                states.push(change.to.map(|to| to.at(va - change.va)));
                end = end.min(change.last());
            } else if change.va > va {
                end = end.min(change.va - 1);
            }
        }
        (end, states)
    }

    /// Returns true if an address of a range must translate now, whatever is under way.
    pub(super) fn must_translate(&self, root: u64, span: (u64, u64)) -> bool {
        self.must_have(root, span, |mapping| mapping.valid)
    }

    /// Returns true if an address of a range must have such a mapping now, whatever is under way.
    pub(super) fn must_have(
        &self,
        root: u64,
        (first, last): (u64, u64),
        such: impl Fn(Mapping) -> bool,
    ) -> bool {
        let mut va = first;
        loop {
            let (end, states) = self.states(root, va);
            if states.iter().all(|s| s.is_some_and(&such)) {
                return true;
            }
            if end >= last {
                return false;
            }
            va = end + 1;
        }
    }

    /// Returns true if a mapping has this output address and these attributes.
    pub(super) fn same(&self, mapping: &Mapping, oa: u64, attributes: Attributes) -> bool {
        let mut ignored = Attributes::SOFTWARE | Attributes::TAKEN_OUT | stage2::unannounced(attributes);
        if self.geometry().oa_format() == linmap::OaFormat::Lpa2 {
            ignored |= Attributes::INNER_SHAREABLE;
        }
        let of_stage_1 = !stage2::is_of_stage_2(attributes);
        let wanted = Attributes::from_bits_retain(mapping.attributes);
        let (wanted, attributes) = (wanted - ignored, attributes - ignored);
        mapping.pa == oa && (wanted == attributes || (of_stage_1 && self.is_update(wanted, attributes)))
    }

    /// Judges that every address of a range translates as it must.
    pub(super) fn translates(&self, root: u64, span: (u64, u64), moment: Moment) -> Result<(), Finding> {
        let Some(place) = self.root_place(root) else { return Ok(()) };
        let g = self.geometry();
        let mut judge = |piece: Piece| {
            // A fault at stage 2 goes to EL2, and the guest tries again.
            let faults = !matches!(piece.entry, Entry::Leaf(leaf) if leaf.valid);
            if faults && moment == Moment::Meanwhile && place.space.is_stage_2() {
                return Ok(());
            }
            let mut va = piece.va;
            loop {
                let (end, states) = self.states(root, va);
                self.piece_is_right(&piece, va, &states, moment)?;
                if end >= piece.last {
                    return Ok(());
                }
                va = end + 1;
            }
        };
        self.pages.walk((root, place), span, g, &mut judge)?;
        self.runs_are_right((root, place), span, moment)
    }

    fn piece_is_right(
        &self,
        piece: &Piece,
        va: u64,
        states: &[Option<Mapping>],
        moment: Moment,
    ) -> Result<(), Finding> {
        let Entry::Leaf(leaf) = piece.entry else {
            let fine = |s: &Option<Mapping>| {
                s.is_none() || (moment == Moment::Meanwhile && s.is_some_and(|m| !m.valid))
            };
            return if states.iter().any(fine) { Ok(()) } else { Err(self.faults(va, states, moment)) };
        };
        let oa = leaf.oa.0 + (va - piece.start);
        let of_stage_2 = stage2::is_of_stage_2(leaf.attributes);
        if leaf.valid && !of_stage_2 && leaf.attributes.is_writable() && !self.setup.allow_write_execute {
            not_executable(va, oa, leaf.attributes)?;
        }
        let exact = |m: &Mapping| m.valid == leaf.valid && self.same(m, oa, leaf.attributes);
        let loose = |s: &Option<Mapping>| !leaf.valid && s.is_none_or(|m| !m.valid);
        if states.iter().flatten().any(exact) || (moment == Moment::Meanwhile && states.iter().any(loose)) {
            return Ok(());
        }
        if !leaf.valid {
            let kept = states.iter().any(|s| s.is_none_or(|m| !m.valid));
            return Err(if kept {
                self.kept_wrong(va, oa, leaf.attributes, states)
            } else {
                self.faults(va, states, moment)
            });
        }
        Err(self.translates_wrong(va, oa, leaf.attributes, states, moment))
    }

    fn faults(&self, va: u64, states: &[Option<Mapping>], moment: Moment) -> Finding {
        let rule = if moment == Moment::Meanwhile { Rule::InUse } else { Rule::Promised };
        let wanted = states.last().copied().flatten();
        Finding::new(rule, "the tables do not translate it")
            .at(va)
            .and(format!("it must be {}", described(wanted)))
    }

    fn kept_wrong(&self, va: u64, oa: u64, attributes: Attributes, states: &[Option<Mapping>]) -> Finding {
        let wanted = stage2::marked_as(states.last().copied().flatten(), attributes);
        let fact = format!(
            "the tables keep {}",
            described(Some(Mapping { pa: oa, attributes: attributes.bits(), valid: false }))
        );
        Finding::new(Rule::Promised, fact).at(va).and(format!("it must be {}", described(wanted)))
    }

    fn translates_wrong(
        &self,
        va: u64,
        oa: u64,
        attributes: Attributes,
        states: &[Option<Mapping>],
        moment: Moment,
    ) -> Finding {
        let wanted = stage2::marked_as(states.last().copied().flatten(), attributes);
        let dirty = states.iter().flatten().any(|m| {
            let asked = Attributes::from_bits_retain(m.attributes);
            m.valid
                && !stage2::is_of_stage_2(attributes)
                && !asked.is_writable()
                && attributes.contains(Attributes::READ_ONLY | Attributes::DIRTY_MANAGED)
        });
        let rule = match moment {
            _ if dirty => Rule::DirtyManaged,
            Moment::Meanwhile => Rule::Translation,
            Moment::AtRest => Rule::Promised,
        };
        let is = described(Some(Mapping { pa: oa, attributes: attributes.bits(), valid: true }));
        Finding::new(rule, format!("the tables say {is}"))
            .at(va)
            .and(format!("it must be {}", described(wanted)))
    }

    /// Judges the machine at rest: no operation is under way, every mapping is right, and no table page is lost.
    pub(super) fn at_rest(&self) -> Result<(), Finding> {
        if let Some((cpu, open)) =
            self.cpus.iter().enumerate().find_map(|(n, c)| Some((n, c.operation.as_ref()?)))
        {
            return Err(sequence(cpu as CpuId, format!("{} has not returned", open.name)));
        }
        if let Some(cpu) = self.cpus.iter().position(|c| !c.reads_since.is_empty()) {
            return Err(sequence(cpu as CpuId, format!("cpu {cpu} has not ended what it began to read")));
        }
        let g = self.geometry();
        let mut roots: Vec<u64> =
            self.cpus.iter().flat_map(|c| c.ttbr.iter().flatten()).map(|t| t.root).collect();
        roots.sort_unstable();
        roots.dedup();
        for root in roots {
            if let Some(place) = self.root_place(root) {
                let span = (place.va, place.va + ((1 << g.va_bits()) - 1));
                self.translates(root, span, Moment::AtRest)?;
            }
        }
        if let Some(found) = self.old_tree_left() {
            return Err(found);
        }
        match self.pages.having(|s| matches!(s, State::Offline | State::Unlinked)).next() {
            None => Ok(()),
            Some(table) => {
                let fact = format!("the table page at {table:#x} is in no tree and was not given back");
                Err(Finding::new(Rule::Leaked, fact))
            }
        }
    }
}

/// Judges that memory which can be written cannot be executed at EL1.
fn not_executable(va: u64, oa: u64, attributes: Attributes) -> Result<(), Finding> {
    if !super::access::executable(attributes) {
        return Ok(());
    }
    let is = described(Some(Mapping { pa: oa, attributes: attributes.bits(), valid: true }));
    Err(Finding::new(Rule::WriteExecute, format!("the tables say {is}")).at(va))
}

/// Returns the ranges in address order, joined where they meet.
fn joined(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, last) in spans {
        match joined.last_mut() {
            Some(before) if before.1 >= first.saturating_sub(1) => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

pub(super) fn described(mapping: Option<Mapping>) -> String {
    let Some(Mapping { pa, attributes, valid }) = mapping else { return "a hole".into() };
    let a = Attributes::from_bits_retain(attributes);
    if stage2::is_of_stage_2(a) {
        let kept = if valid { "" } else { ", not valid" };
        return format!("{pa:#x}, {}{kept}", stage2::describe(a));
    }
    let write = if a.is_writable() { "writable" } else { "read-only" };
    let execute = if a.is_executable() { ", executable" } else { "" };
    let kept = if valid { "" } else { ", not valid" };
    format!("{pa:#x}, {write}{execute}, type {}, attributes {attributes:#x}{kept}", a.memory_type().index())
}
