//! A tree that replaces another: from then on both are one map, for as long as some CPU is on the old one.

use super::operation::Moment;
use super::{Finding, Machine, lowest, named};
use crate::pages::{Place, State};
use crate::{CpuId, Rule};

impl Machine {
    /// Notes that a CPU loads a root. If nothing was announced of it, it replaces the one that the CPU was on before.
    /// Returns true if it does.
    pub(super) fn succeed(&mut self, cpu: CpuId, half: usize, root: u64) -> bool {
        let this = self.cpu(cpu);
        let loaded =
            this.ttbr[half].map(|t| t.root).filter(|&old| self.expected.contains_key(&self.current(old)));
        let Some(old) = loaded.or(this.came_from[half]).map(|old| self.current(old)) else { return false };
        let known = self.expected.contains_key(&root) || self.replaced.iter().any(|r| r.0 == root);
        if known || old == root {
            return false;
        }
        let Some(flat) = self.expected.remove(&old) else { return false };
        self.expected.insert(root, flat);
        self.physical.nowhere_writable.succeed(old, root);
        self.physical.spurious_faults.succeed(old, root);
        self.physical.left.succeed(old, root);
        if let Some(broken) = self.broken.remove(&old) {
            self.broken.insert(root, broken);
        }
        self.replaced.push((old, root));
        for operation in self.cpus.iter_mut().filter_map(|c| c.operation.as_mut()) {
            if operation.root == old {
                operation.root = root;
            }
        }
        true
    }

    /// Returns the root that a map has now.
    pub(super) fn current(&self, root: u64) -> u64 {
        let next = self.replaced.iter().find(|r| r.0 == root);
        next.map_or(root, |r| self.current(r.1))
    }

    /// Returns true if a tree is that of `root`, or `root` has replaced it: then they may share tables.
    pub(super) fn leads(&self, tree: u64, root: u64) -> bool {
        tree == root || self.replaced.iter().any(|r| r.0 == tree && self.leads(r.1, root))
    }

    /// Returns true if a table may be in both places, because the root of the second has replaced that of the first.
    pub(super) fn is_shared(&self, old: Place, new: Place) -> bool {
        (old.level, old.va, old.limits) == (new.level, new.va, new.limits) && self.leads(old.root, new.root)
    }

    /// Forgets a root that is given back.
    pub(super) fn forget_root(&mut self, root: u64) {
        self.expected.remove(&root);
        self.physical.nowhere_writable.forget(root);
        self.physical.spurious_faults.forget(root);
        self.physical.left.forget(root);
        self.broken.remove(&root);
        self.left_at.remove(&root);
        self.replaced.retain(|r| r.0 != root && r.1 != root);
        for came_from in self.cpus.iter_mut().flat_map(|c| &mut c.came_from) {
            *came_from = came_from.filter(|&from| from != root);
        }
    }

    /// Returns the CPUs that walk the tree of this root, not of others of the same map.
    fn on(&self, root: u64) -> u8 {
        self.cpus_that(|c| {
            let left = c.left.iter().filter(|l| l.until.is_none()).map(|l| l.ttbr.root);
            c.ttbr.iter().flatten().map(|t| t.root).chain(left).any(|r| r == root)
        })
    }

    /// Judges that a range translates as it must on CPUs that are still on an old tree.
    pub(super) fn translates_on_old_trees(&self, root: u64, span: (u64, u64)) -> Result<(), Finding> {
        for &(old, _) in self.replaced.iter().filter(|r| self.current(r.0) == root) {
            let cpus = self.on(old);
            if cpus == 0 {
                continue;
            }
            self.translates(old, span, Moment::AtRest).map_err(|found| {
                let fact =
                    format!("{} is on the tree at {old:#x}, whose place {root:#x} has taken", named(cpus));
                Finding { rule: Rule::Stale, cpu: Some(lowest(cpus)), ..found }.and(fact)
            })?;
        }
        Ok(())
    }

    /// Judges that nothing is left of a replaced tree that no CPU is on.
    pub(super) fn old_tree_left(&self) -> Option<Finding> {
        let root_is_gone = |place: Place| match self.pages.get(place.root).map(|p| p.state) {
            Some(State::Linked(at)) => at.root != place.root,
            _ => true,
        };
        let left = self.replaced.iter().map(|r| r.0).find(|&old| self.on(old) == 0);
        let below = || self.pages.having(|s| matches!(s, State::Linked(place) if root_is_gone(place))).next();
        let table = left.or_else(below)?;
        let fact = format!("the table at {table:#x} is of a tree that no CPU is on, and was not given back");
        Some(Finding::new(Rule::Leaked, fact))
    }
}
