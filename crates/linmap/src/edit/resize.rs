//! Changes of a leaf's size: the stores, with the other CPUs parked if the policy says so, and the counts.
//!
//! In place, the order of stores matters. While walkers may see an entry as a member of a run, they may use the
//! contents of any member for the addresses of all (Arm ARM D8.7.1.1, RNGLXZ), and they may see stores without a DSB
//! between them in any order (D8.2.6.1, RSPVBD). So runs are dissolved first, with no other change to their members.
//! After a DSB, which new tables also need, members are replaced or changed.

use core::convert::Infallible;

use crate::build::{SplitCost, discard};
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::guard::Guard;
use crate::edit::stop::{Needs, Stop};
use crate::format::{Descriptor, Level};
use crate::plan::Policy;
use crate::platform::{EntryUpdate, Hardware, Reason};
use crate::read::{Entries, Table, visit_span};

/// A change of size of a leaf or a run, because a part of it changes.
#[derive(Clone, Copy)]
pub(crate) struct Resize {
    pub(crate) table: Table,
    pub(crate) index: usize,
    /// The number of entries in the run that is dissolved, if it is in one.
    pub(crate) dissolves: Option<usize>,
    /// The tables that replace it, if any do.
    pub(crate) link: Option<Descriptor>,
}

impl Resize {
    /// The most that are carried out together, and so in one parking.
    pub(crate) const MOST: usize = EntryUpdate::MOST / 2;

    /// Carries out all resizes, at most `MOST`, or none. No two may dissolve the same run. With `then_changed`, a barrier
    /// follows dissolved runs, because their entries change next.
    ///
    /// # Errors
    ///
    /// CPUs do not park. Nothing was stored, and the tables that would have been published are given back.
    #[inline(always)]
    pub(crate) fn all<G: Guard, const MOST: usize>(
        editor: &Editor<'_, G>,
        (policy, in_use): (Policy, bool),
        resizes: impl Iterator<Item = Self> + Clone,
        then_changed: bool,
    ) -> Result<(), Stop> {
        if parks(policy, in_use) {
            return Self::all_parked::<G, MOST>(editor, resizes);
        }
        resizes.clone().for_each(|resize| resize.dissolve(editor));
        if then_changed || resizes.clone().any(|resize| resize.link.is_some()) {
            editor.publish_barrier();
        }
        resizes.for_each(|resize| resize.publish(editor));
        Ok(())
    }

    /// Carries out one whose entry changes next, where no CPU has to be parked.
    #[inline(always)]
    pub(crate) fn one_in_place<G: Guard>(&self, editor: &Editor<'_, G>) {
        self.dissolve(editor);
        editor.publish_barrier();
        self.publish(editor);
    }

    #[inline(always)]
    fn dissolve<G: Guard>(&self, editor: &Editor<'_, G>) {
        if let Some(members) = self.dissolves {
            editor.slots(&self.table).dissolve(self.index, members);
        }
    }

    #[inline(always)]
    fn publish<G: Guard>(&self, editor: &Editor<'_, G>) {
        if let Some(link) = self.link {
            editor.store(&self.table, self.index, link);
        }
        self.count(editor);
    }

    #[cold]
    #[inline(never)]
    fn all_parked<G: Guard, const MOST: usize>(
        editor: &Editor<'_, G>,
        resizes: impl Iterator<Item = Self> + Clone,
    ) -> Result<(), Stop> {
        let (mut updates, mut used) = ([const { [EntryUpdate::NONE; 2] }; MOST], 0);
        let updates = updates.as_flattened_mut();
        let mut add = |update| {
            updates[used] = update;
            used += 1;
        };
        for Self { table, index, dissolves, link } in resizes.clone() {
            if let Some(members) = dissolves {
                add(EntryUpdate::dissolve(editor.place(&table), index & !(members - 1), members));
            }
            if let Some(link) = link {
                add(EntryUpdate::replace(editor.place(&table), index, link));
            }
        }
        if resizes.clone().any(|resize| resize.link.is_some()) {
            editor.publish_barrier();
        }
        let parked = park(editor, &updates[..used]);
        for resize in resizes {
            match &parked {
                Ok(()) => resize.count(editor),
                Err(_) => resize.discard(editor),
            }
        }
        parked
    }

    /// Gives back the tables that would have replaced it.
    #[cold]
    pub(crate) fn discard<G: Guard>(&self, editor: &Editor<'_, G>) {
        if let Some(link) = self.link {
            let below = (link, self.table.level.down(1));
            discard(editor.reserve, editor.geometry, editor.guard.counters(), below);
        }
    }

    #[inline(always)]
    fn count<G: Guard>(&self, editor: &Editor<'_, G>) {
        let level = self.table.level;
        editor.count(|counters| {
            if let Some(members) = self.dissolves {
                counters.dissolved(level, members as i64);
            }
            if self.link.is_some() {
                counters.leaves(level, false, -1);
                counters.split(1);
            }
        });
        if editor.guard.reason() != Reason::NONE {
            // Copies, so that the others need not be in memory.
            Self::cost(*self, *editor);
        }
    }

    /// Counts what it has cost, after its stores. The new tables are read once for it, about three instructions for each of
    /// their entries; only changes with a reason pay that.
    #[cold]
    #[inline(never)]
    fn cost<G: Guard>(self, editor: Editor<'_, G>) {
        let dissolved = self.dissolves.map_or(0, |members| members as u64 - 1);
        let built = self.link.map_or(0, |link| {
            // They take the place of one leaf, which was no hole.
            tlb_entries(&editor, &editor.below(&self.table, self.index, link)).saturating_sub(1)
        });
        let cost = SplitCost { splits: u64::from(self.link.is_some()), tlb_entries: dissolved + built };
        editor.guard.cost(cost);
    }
}

/// The leaves of tables: those in contiguous runs, and the others.
struct Leaves {
    members: [usize; Level::COUNT],
    others: usize,
}

impl<G: Guard> LiveVisitor<G> for Leaves {
    type Stop = Infallible;

    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Infallible> {
        let (mut members, mut others, table) = (0, 0, at.table);
        let end = editor.each_leaf(at, |Entries { index, entry, .. }| {
            if entry.is_leaf(editor.geometry, table.level) {
                *if entry.is_contiguous() { &mut members } else { &mut others } += 1;
            }
            Ok(index + 1)
        });
        self.members[table.level.ordinal()] += members;
        self.others += others;
        end
    }
}

/// Returns the number of TLB entries that cover a table.
fn tlb_entries<G: Guard>(editor: &Editor<'_, G>, table: &Table) -> u64 {
    let g = editor.geometry;
    let mut leaves = Leaves { members: [0; Level::COUNT], others: 0 };
    let Ok(()) = visit_span(editor, table, table.span_of_all(g), &mut leaves);
    let runs = (-1..=Level::PAGE.number()).map(Level::new).zip(leaves.members);
    (leaves.others + runs.map(|(level, members)| members / g.contiguous_entries(level)).sum::<usize>()) as u64
}

/// Returns true if the other CPUs are parked for a change of size.
#[inline(always)]
pub(crate) fn parks(policy: Policy, in_use: bool) -> bool {
    in_use && policy == Policy::Park
}

/// Performs stores that change the size of leaves, with the other CPUs parked if the policy says so.
///
/// Parked CPUs drop all entries from their TLBs, so nothing is invalidated for these stores.
///
/// # Errors
///
/// CPUs do not park. Nothing was stored.
pub(crate) fn update<G: Guard>(
    editor: &Editor<'_, G>,
    (policy, in_use): (Policy, bool),
    updates: &[EntryUpdate],
) -> Result<(), Stop> {
    if parks(policy, in_use) {
        return park(editor, updates);
    }
    for update in updates {
        // SAFETY: entries of a table that was reached from the root of a live tree, in a hold. The effect on users
        // of the addresses is the responsibility of the operation's caller.
        unsafe { update.carry_out(editor.platform) };
    }
    Ok(())
}

/// Performs stores with the other CPUs parked, if they have answered before the hold.
fn park<G: Guard>(editor: &Editor<'_, G>, updates: &[EntryUpdate]) -> Result<(), Stop> {
    if !editor.answered {
        return Err(Needs::Answers.into());
    }
    // SAFETY: the root of the live tree, and entries of its tables, which were reached from it in the hold that is still
    // held. The effect on users of the addresses is the responsibility of the operation's caller.
    unsafe { editor.platform.park(editor.platform, editor.tables().root(), updates) }?;
    editor.guard.parked();
    Ok(())
}
