//! A tree that takes the place of another: from then on both are one map, for as long as some CPU is on the
//! old one.

use super::operation::Moment;
use super::{Finding, Machine, lowest, named};
use crate::pages::{Place, State};
use crate::{CpuId, Rule};

impl Machine {
    /// A CPU comes to a root. If nothing was announced of it, it takes the place of the one that the CPU was
    /// on before. Whether it does.
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
        self.replaced.push((old, root));
        for operation in self.cpus.iter_mut().filter_map(|c| c.operation.as_mut()) {
            if operation.root == old {
                operation.root = root;
            }
        }
        true
    }

    /// The root that a map has now.
    pub(super) fn current(&self, root: u64) -> u64 {
        let next = self.replaced.iter().find(|r| r.0 == root);
        next.map_or(root, |r| self.current(r.1))
    }

    /// Whether a tree is that of `root`, or `root` has taken its place: then it may share tables with it.
    pub(super) fn leads(&self, tree: u64, root: u64) -> bool {
        tree == root || self.replaced.iter().any(|r| r.0 == tree && self.leads(r.1, root))
    }

    /// Whether a table that is in one place is in the other too, because the root of that one has taken the
    /// place of this one's.
    pub(super) fn is_shared(&self, old: Place, new: Place) -> bool {
        (old.level, old.va) == (new.level, new.va) && self.leads(old.root, new.root)
    }

    /// A root is given back.
    pub(super) fn forget_root(&mut self, root: u64) {
        self.expected.remove(&root);
        self.replaced.retain(|r| r.0 != root && r.1 != root);
        for came_from in self.cpus.iter_mut().flat_map(|c| &mut c.came_from) {
            *came_from = came_from.filter(|&from| from != root);
        }
    }

    /// CPUs that walk the tree of a root, whatever else is of the same map.
    fn on(&self, root: u64) -> u8 {
        self.cpus_that(|c| {
            let left = c.left.iter().filter(|l| l.until.is_none()).map(|l| l.ttbr.root);
            c.ttbr.iter().flatten().map(|t| t.root).chain(left).any(|r| r == root)
        })
    }

    /// What a CPU that is still on an old tree makes of a range is what it must.
    pub(super) fn translates_where_left_behind(&self, root: u64, span: (u64, u64)) -> Result<(), Finding> {
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

    /// Of a tree that no CPU is on any more, and whose place another has taken, nothing is left.
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
