//! Callers that have stored and not invalidated yet: until they have, nobody else merges what they stored to, or gives
//! their tables back. Nobody at all does where an operation has returned and left its invalidations for later.
//!
//! That nobody returns from the same range before is judged with all operations (`operation.rs`), and a change of the
//! memory type as any other (`store.rs`).

use linmap::Pa;
use linmap::arch::Entry;

use super::{Finding, Machine};
use crate::cached::Cached;
use crate::pages::Place;
use crate::stale::{StaleLeaf, StaleTable};
use crate::{CpuId, Rule, stage2};

impl Machine {
    /// Returns true if the store that replaced `old` has merged entries: a table became a leaf, or a leaf one of a run.
    pub(super) fn merges(&self, (table, index): (u64, usize), old: u64, place: Place) -> bool {
        let g = self.geometry();
        let entry = |word: u64| stage2::decode(word, g, place);
        match (entry(old), entry(self.read(Pa(table), index).unwrap_or_default())) {
            (Entry::Table(_), Entry::Leaf(_)) => true,
            (Entry::Leaf(old), Entry::Leaf(new)) => new.contiguous && !old.contiguous,
            _ => false,
        }
    }

    /// Judges that no other caller has yet to invalidate entries of a range.
    pub(super) fn nothing_pending(&self, cpu: CpuId, root: u64, span: (u64, u64)) -> Result<(), Finding> {
        let (g, Some(place)) = (self.geometry(), self.root_place(root)) else { return Ok(()) };
        let all = self.stale_of(place.space);
        let leaf = all.leaves.iter().find(|l| {
            l.members & l.cached.members_in(span.0, span.1) != 0 && self.leaf_is_pending(cpu, root, l, span)
        });
        if let Some(leaf) = leaf {
            return Err(self.pending_leaf(cpu, leaf, "is merged"));
        }
        let table = all.tables.iter().find(|t| {
            let (first, last) = t.span(g);
            first <= span.1 && span.0 <= last && self.table_is_pending(cpu, root, t)
        });
        table.map_or(Ok(()), |table| {
            let fact = format!(
                "cpu {} has unlinked the table at {:#x} at event {}, and has not invalidated it yet",
                table.by, table.table, table.since
            );
            let fact = Finding::new(Rule::Pending, fact).on(table.by).at(table.va.max(span.0));
            Err(fact.and(format!("cpu {cpu} merges what is there")))
        })
    }

    /// Judges that no other caller has yet to invalidate entries of a table that is given back.
    pub(super) fn nothing_pending_below(&self, cpu: CpuId, table: u64) -> Result<(), Finding> {
        let all = (0, u64::MAX);
        let pending = |l: &&StaleLeaf| l.table == table && self.leaf_is_pending(cpu, l.root, l, all);
        let found = self.all_stale().flat_map(|(_, stale)| &stale.leaves).find(pending);
        found.map_or(Ok(()), |leaf| Err(self.pending_leaf(cpu, leaf, "loses its table")))
    }

    fn leaf_is_pending(&self, cpu: CpuId, root: u64, leaf: &StaleLeaf, span: (u64, u64)) -> bool {
        !leaf.waits.is_gone_but_for_isb()
            && (self.is_of_another(cpu, root, (leaf.root, leaf.by, leaf.since)) && self.is_to_go(leaf)
                || self.is_left(root, leaf, span))
    }

    /// Returns true if an operation that has returned has left the invalidation of a leaf for later, at addresses of a
    /// span. At its other addresses the leaf only has another size.
    fn is_left(&self, root: u64, leaf: &StaleLeaf, span: (u64, u64)) -> bool {
        let (root, last) = (self.current(root), leaf.cached.last().min(span.1));
        let other = || self.may_translate_as(root, (leaf.cached.first.max(span.0), last), &leaf.cached);
        let left = |va| self.left_until(root, va, &leaf.cached).is_some();
        root == self.current(leaf.root) && other().is_err_and(left)
    }

    /// Returns the last address up to which the invalidation of a leaf was left for later, if it was for this one.
    pub(super) fn left_until(&self, root: u64, va: u64, held: &Cached) -> Option<u64> {
        let left = self.physical.left.until(self.current(root), va)?;
        let (end, states) = self.states(root, va);
        let same_page = states.iter().flatten().any(|now| now.pa == held.oa_at(va));
        same_page.then(|| end.min(left))
    }

    /// Returns true if the operation that replaced a leaf has announced something else for some of its addresses. One that
    /// announced nothing there has only changed its size, and may leave it.
    fn is_to_go(&self, leaf: &StaleLeaf) -> bool {
        let (first, last) = (leaf.cached.first, leaf.cached.last());
        let changes = self.cpu(leaf.by).operation.iter().flat_map(|o| &o.changes);
        let mut within = changes.filter(|c| c.va <= last && first <= c.last());
        within.any(|change| {
            let va = change.va.max(first);
            let to = change.to.map(|to| to.at(va - change.va)).filter(|to| to.valid);
            !to.is_some_and(|to| self.same(&to, leaf.cached.oa_at(va), leaf.cached.attributes))
        })
    }

    fn table_is_pending(&self, cpu: CpuId, root: u64, table: &StaleTable) -> bool {
        !table.waits.is_gone_but_for_isb()
            && self.is_of_another(cpu, root, (table.root, table.by, table.since))
    }

    /// Returns true if an entry was replaced by the operation of another CPU, which has not returned.
    fn is_of_another(&self, cpu: CpuId, root: u64, (of, by, since): (u64, CpuId, usize)) -> bool {
        let (root, of) = (self.current(root), self.current(of));
        let open = self.cpu(by).operation.as_ref();
        by != cpu && of == root && open.is_some_and(|o| o.root == root && o.since <= since)
    }

    fn pending_leaf(&self, cpu: CpuId, leaf: &StaleLeaf, what: &str) -> Finding {
        let fact = format!(
            "cpu {} has replaced {} at event {}, and has not invalidated it yet",
            leaf.by,
            leaf.cached.describe(),
            leaf.since
        );
        let holder = super::lowest(leaf.holders);
        let found = Finding::new(Rule::Pending, fact).on(leaf.by).at(leaf.cached.first);
        let why = self.why_leaf_remains(leaf, holder, leaf.cached.first);
        found.and(format!("the range {what} by cpu {cpu}")).and(why)
    }
}
