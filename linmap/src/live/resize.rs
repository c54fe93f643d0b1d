//! A leaf changes its size: the stores, with the other CPUs parked if that is the policy, and the counts.
//!
//! In place the stores have an order. While walkers may see that an entry is one of a run, what any member of the run
//! says may be used for the addresses of all (Arm ARM D8.7.1.1, RNGLXZ), and stores without a DSB between them may be
//! seen in any order (D8.2.6.1, RSPVBD). So runs are dissolved first, in which nothing but their size changes; after a
//! DSB, the one that new tables need as well, members are replaced or edited.

use crate::build::{Error, discard};
use crate::format::Descriptor;
use crate::live::locked::Access;
use crate::plan::Policy;
use crate::platform::{Platform, Rewrite};
use crate::read::Table;

/// What becomes of a leaf or a run that an end of a range lies within.
#[derive(Clone, Copy)]
pub(crate) struct Resize {
    pub(crate) table: Table,
    pub(crate) index: usize,
    /// How many entries the run has that is dissolved, if it is in one.
    pub(crate) dissolves: Option<usize>,
    /// The tables that take its place, if any do.
    pub(crate) link: Option<Descriptor>,
}

impl Resize {
    /// Whether it dissolves the run that another one dissolves.
    pub(crate) fn dissolves_run_of(&self, other: &Self) -> bool {
        let (Some(members), true) = (self.dissolves, other.dissolves.is_some()) else { return false };
        let run = |step: &Self| (step.table.pa, step.index & !(members - 1));
        run(self) == run(other)
    }
}

impl<P: Platform> Access<'_, P> {
    /// How many entries the run has that an entry is in, if it is in one.
    #[inline(always)]
    pub(crate) fn run(&self, table: &Table, entry: Descriptor) -> Option<usize> {
        entry.is_contiguous().then(|| self.geometry.contiguous_entries(table.level))
    }

    /// Carries out the steps, of which no two dissolve the same run, all of them or none: then the tables that they
    /// would have published are given back. If entries of the runs are edited next, walkers see before that these are dissolved.
    pub(crate) fn resize(
        &self,
        policy: Policy,
        in_use: bool,
        steps: &[Resize],
        edited_next: bool,
    ) -> Result<(), Error> {
        if !self.parks(policy, in_use) {
            self.resize_in_place(steps.iter().copied(), edited_next);
            return Ok(());
        }
        self.resize_parked(steps)?;
        steps.iter().for_each(|step| self.count(step));
        Ok(())
    }

    /// The same where nobody has to be parked.
    #[inline(always)]
    pub(crate) fn resize_in_place(&self, steps: impl Iterator<Item = Resize> + Clone, edited_next: bool) {
        for step in steps.clone() {
            if let Some(members) = step.dissolves {
                self.dissolve(&step.table, step.index, members);
            }
        }
        if edited_next || steps.clone().any(|step| step.link.is_some()) {
            self.filled();
        }
        for step in steps {
            if let Some(link) = step.link {
                self.store(&step.table, step.index, link);
            }
            self.count(&step);
        }
    }

    /// Whether the other CPUs are parked for a change of size.
    #[inline(always)]
    pub(crate) fn parks(&self, policy: Policy, in_use: bool) -> bool {
        policy == Policy::Park && in_use && !broken!(NotParked)
    }

    #[cold]
    fn resize_parked(&self, steps: &[Resize]) -> Result<(), Error> {
        let mut rewrites = [Rewrite::default(); Rewrite::MOST];
        let mut used = 0;
        let mut add = |rewrite| {
            rewrites[used] = rewrite;
            used += 1;
        };
        for Resize { table, index, dissolves, link } in steps {
            if let Some(members) = *dissolves {
                add(Rewrite::dissolve(table.pa, index & !(members - 1), members));
            }
            if let Some(link) = link {
                add(Rewrite::replace(table.pa, *index, *link));
            }
        }
        if steps.iter().any(|step| step.link.is_some()) {
            self.filled();
        }
        let parked = self.park(&rewrites[..used]);
        if parked.is_err() {
            for Resize { table, link, .. } in steps {
                if let Some(link) = link {
                    discard(self.platform, self.geometry, self.counters(), (*link, table.level.down(1)));
                }
            }
        }
        parked
    }

    /// Does stores that change the size of leaves, with the other CPUs parked if that is the policy.
    ///
    /// Parked CPUs drop all that their TLBs hold, so that nothing is invalidated for these stores.
    pub(crate) fn resizing(&self, policy: Policy, in_use: bool, rewrites: &[Rewrite]) -> Result<(), Error> {
        if self.parks(policy, in_use) {
            return self.park(rewrites);
        }
        for rewrite in rewrites {
            // SAFETY: entries of a table that was reached from the root of a live tree, under the lock; what
            // becomes of the addresses is what the caller of the operation answers for.
            unsafe { rewrite.carry_out(self.platform) };
        }
        Ok(())
    }

    /// Parks the other CPUs meanwhile.
    pub(crate) fn park(&self, rewrites: &[Rewrite]) -> Result<(), Error> {
        let parked = self.platform.park(self.platform, self.space.root(), rewrites);
        parked.map_err(|_| Error::CanNotPark)?;
        self.counters().parked();
        Ok(())
    }

    /// Clears the contiguous bit of the run of so many entries that an entry is in.
    #[inline]
    fn dissolve(&self, table: &Table, index: usize, members: usize) {
        // Copied, so that its address stays in a register.
        let table = *table;
        if broken!(RunNotDissolved) {
            return;
        }
        let first = index & !(members - 1);
        // A run has at least 16 members.
        for n in 0..members >> 4 {
            for at in (0..16).step_by(2).map(|pair| first + (n << 4) + pair) {
                let plain = self.load_pair(&table, at).map(Descriptor::without_contiguous);
                self.store_pair(&table, at, plain);
            }
        }
    }

    /// Counts a step.
    #[inline(always)]
    fn count(&self, step: &Resize) {
        let (level, counters) = (step.table.level, self.counters());
        if let Some(members) = step.dissolves {
            counters.dissolved(level, members as i64);
        }
        if step.link.is_some() {
            counters.leaves(level, false, -1);
            counters.split(1);
        }
    }
}
