//! linmap: trees built off line, then adopted and changed by a `SharedSpace`.

use std::ops::ControlFlow;

use linmap::arch::Entry;
use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::read::Visited;
use linmap::{Change, Frame, Half, Policy, SharedSpace, Tree, Va};

use super::{Lacks, Leaves, Library, Map};
use crate::host::{OFFSET, Plan, Pool};

pub(crate) struct Linmap;

pub(crate) struct Space<'m> {
    memory: &'m HostMemory,
    map: Option<Made>,
    plan: Plan,
}

/// A tree, and what it becomes for changes.
enum Made {
    Tree(Tree),
    Live(Box<SharedSpace>),
}

impl Library for Linmap {
    type Pages<'p> = &'p HostMemory;
    type Built<'m> = Tree;
    type Map<'m> = Space<'m>;

    fn pages(pool: &Pool) -> &HostMemory {
        pool.memory()
    }

    #[inline(always)]
    fn build(memory: &&HostMemory, plan: &Plan) -> Result<Tree, Lacks> {
        let tree = Tree::build(*memory, plan.geometry, Half::Upper, std::iter::once(plan.run()));
        Ok(tree.expect("as many pages as planned"))
    }

    fn map<'m>(memory: &'m &HostMemory, tree: Tree, plan: &Plan) -> Space<'m> {
        Space { memory, map: Some(Made::Tree(tree)), plan: *plan }
    }
}

impl Space<'_> {
    fn space(&self) -> &SharedSpace {
        match &self.map {
            Some(Made::Live(space)) => space,
            _ => panic!("it has begun"),
        }
    }

    fn start(&self) -> u64 {
        self.plan.run().va.0
    }

    fn range(&self) -> (Va, Va) {
        (Va(self.start()), Va(self.start() + (self.plan.bytes - 1)))
    }

    fn pages(&self) -> u64 {
        self.plan.bytes / self.plan.geometry.page_size()
    }

    fn protect_pages(&self, va: u64, pages: u64, change: Change) {
        // SAFETY: no code uses these addresses.
        let changed = unsafe { self.space().on(&self.memory.platform()).protect(Va(va), pages, change) };
        changed.expect("all of it is mapped");
    }
}

impl Map for Space<'_> {
    fn begin(&mut self) {
        if let Some(Made::Tree(tree)) = self.map.take() {
            let space = Box::new(SharedSpace::adopt(tree));
            space.set_policy(Policy::Live);
            self.map = Some(Made::Live(space));
        }
    }

    fn leaves(&self) -> Leaves {
        let mut leaves = Leaves::default();
        let all = linear_range(self.plan.geometry);
        let _ = self.space().on(&self.memory.platform()).read(|reader| {
            reader.visit(all, |&Visited { level, entry, .. }| {
                if let Entry::Leaf(leaf) = entry {
                    leaves[level.number() as usize][usize::from(!leaf.attributes.is_writable())] += 1;
                }
                ControlFlow::Continue(())
            })
        });
        leaves
    }

    fn protect(&mut self, read_only: bool) -> Result<(), Lacks> {
        let change = if read_only { Change::READ_ONLY } else { Change::WRITABLE };
        self.protect_pages(self.start(), self.pages(), change);
        Ok(())
    }

    fn protect_parts(&mut self) -> Result<(), Lacks> {
        for leaf in 0..self.plan.leaves() {
            self.protect_pages(self.start() + leaf * self.plan.leaf_bytes(), 1, Change::READ_ONLY);
        }
        Ok(())
    }

    fn split(&mut self) -> Result<(), Lacks> {
        let split = self.space().on(&self.memory.platform()).split_to_pages(Va(self.start()), self.pages());
        split.expect("all of it is mapped");
        Ok(())
    }

    fn collapse(&mut self) -> Result<(), Lacks> {
        let collapsed = self.space().on(&self.memory.platform()).collapse(Va(self.start()), self.pages());
        collapsed.expect("a range of the half");
        Ok(())
    }

    fn walk(&self) -> Result<u64, Lacks> {
        let mut leaves = 0;
        let each = |&Visited { entry, .. }: &Visited| {
            leaves += u64::from(matches!(entry, Entry::Leaf(_)));
            ControlFlow::Continue(())
        };
        let _ = self.space().on(&self.memory.platform()).read(|reader| reader.visit(self.range(), each));
        Ok(leaves)
    }

    fn count(&self) -> Result<u64, Lacks> {
        let mut leaves = 0;
        let each = |_: &Visited, adjacent| {
            leaves += adjacent;
            ControlFlow::Continue(())
        };
        let _ =
            self.space().on(&self.memory.platform()).read(|reader| reader.visit_series(self.range(), each));
        Ok(leaves)
    }

    fn look_up(&self, addresses: &[u64]) -> Result<u64, Lacks> {
        let base = self.start() - OFFSET;
        Ok(self.space().on(&self.memory.platform()).read(|reader| {
            let one = |&address: &u64| reader.translate(Va(base + address)).expect("all of it is mapped").0;
            addresses.iter().map(one).sum()
        }))
    }
}

/// Returns the table pages to the pool.
impl Drop for Space<'_> {
    fn drop(&mut self) {
        let tree = match self.map.take() {
            Some(Made::Tree(tree)) => tree,
            // SAFETY: no walker or TLB has seen these tables. The root came from a tree, and the address space is not used
            // again.
            Some(Made::Live(space)) => unsafe {
                Tree::from_root(Frame::from_pa(space.root()), self.plan.geometry, Half::Upper)
            },
            None => return,
        };
        tree.discard(self.memory);
    }
}
