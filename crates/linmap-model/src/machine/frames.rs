//! Table pages: taken and given back.

use std::collections::HashSet;

use linmap::arch::{Entry, Leaf, Level, TableLimits};
use linmap::{Geometry, OaFormat};

use super::{Finding, Machine, named};
use crate::pages::{Place, State};
use crate::{CpuId, Rule};

impl Machine {
    pub(super) fn alloc(&mut self, cpu: CpuId, table: u64) -> Result<(), Finding> {
        self.not_while_parked(cpu, "allocates")?;
        match self.pages.get(table).map(|p| p.state) {
            Some(State::Free) => {
                self.pages.take(table);
                self.uncached.forget(table, self.setup.geometry.page_size());
                Ok(())
            }
            Some(_) => Err(sequence(cpu, format!("the page at {table:#x} is taken already"))),
            None => Err(sequence(cpu, format!("{table:#x} is not a table page of this machine"))),
        }
    }

    pub(super) fn free(&mut self, cpu: CpuId, table: u64) -> Result<(), Finding> {
        self.not_while_parked(cpu, "frees")?;
        let Some(page) = self.pages.get(table) else {
            return Err(sequence(cpu, format!("{table:#x} is not a table page of this machine")));
        };
        match page.state {
            State::Free => return Err(sequence(cpu, format!("the page at {table:#x} is free already"))),
            State::Linked(place) => self.not_reachable(table, place)?,
            State::Unlinked => self.not_walkable(table, "is given back")?,
            State::Offline => {}
        }
        self.not_under_reader(table, "is given back")?;
        self.nothing_pending_below(cpu, table)?;
        self.pages.give_back(table);
        for fresh in self.fresh.iter_mut().filter(|f| f.slot.is_some_and(|s| s.0 == table)) {
            fresh.slot = None;
        }
        self.forget_root(table);
        Ok(())
    }

    /// Judges that a page of a tree goes: no TLB can hold entries of the tree.
    fn not_reachable(&self, table: u64, place: Place) -> Result<(), Finding> {
        let holders = self.holders(place.root);
        if holders == 0 {
            return Ok(());
        }
        let fact = format!(
            "the table at {table:#x}, level {}, is given back but can be reached from the root {:#x}",
            place.level.number(),
            place.root
        );
        let by = format!("{} may walk that tree", named(holders));
        Err(Finding::new(Rule::Freed, fact).on(super::lowest(holders)).at(place.va).and(by))
    }

    /// Returns true if a walk may come to a table: it is in a tree, or walk caches lead to it.
    pub(super) fn is_walked(&self, table: u64) -> bool {
        match self.pages.get(table).map(|p| p.state) {
            Some(State::Linked(_)) => true,
            Some(State::Unlinked) => self.not_walkable(table, "").is_err(),
            _ => false,
        }
    }

    /// Judges that no walk cache leads to the page.
    pub(super) fn not_walkable(&self, table: u64, what: &str) -> Result<(), Finding> {
        let mut tables = self.all_stale().flat_map(|(_, stale)| &stale.tables);
        let Some(stale) = tables.find(|t| t.table == table && t.walkable) else {
            return Ok(());
        };
        let cpu = super::lowest(stale.holders);
        let fact = format!(
            "the table at {table:#x}, unlinked by event {}, {what} while walk caches may lead to it",
            stale.since
        );
        Err(Finding::new(Rule::Freed, fact).on(cpu).at(stale.va).and(self.why_table_remains(stale, cpu)))
    }

    pub(super) fn not_while_parked(&self, cpu: CpuId, what: &str) -> Result<(), Finding> {
        let parked = self.cpus_that(|c| c.parked);
        if parked == 0 {
            return Ok(());
        }
        let fact = format!("cpu {cpu} {what} while {} is parked", named(parked));
        Err(Finding::new(Rule::Parked, fact).on(cpu))
    }

    /// Judges a tree that no CPU has loaded, before it is walked: no table is there twice. For others `link` has.
    ///
    /// A few tables that lead to one another from all of their slots would be a map of more pages than can be looked at.
    pub(super) fn no_table_twice(&self, cpu: CpuId, root: u64) -> Result<(), Finding> {
        if !self.is_offline(root) {
            return Ok(());
        }
        let (mut seen, g) = (HashSet::new(), self.geometry());
        let mut next: Vec<_> = self.root_place(root).map(|place| (root, place)).into_iter().collect();
        while let Some((table, place)) = next.pop() {
            if !seen.insert(table) {
                let text = format!(
                    "the table at {table:#x} is in the tree at {root:#x} twice; the model knows one place for each table"
                );
                return Err(sequence(cpu, text).at(place.va));
            }
            next.extend(self.pages.children(table, place, g));
        }
        Ok(())
    }

    /// Makes a page, and all below it, part of a tree that walkers reach.
    pub(super) fn link(&mut self, cpu: CpuId, table: u64, place: Place) -> Result<(), Finding> {
        let g = self.geometry();
        let fact = |text: String| Finding::new(Rule::Unfilled, text).on(cpu).at(place.va);
        let Some(page) = self.pages.get(table) else {
            return Err(sequence(cpu, format!("{table:#x} is not a table page of this machine")).at(place.va));
        };
        match page.state {
            State::Free => return Err(fact(format!("the table at {table:#x} is a free page"))),
            State::Linked(at) if at == place => return Ok(()),
            // Nobody walks there: a table in use keeps its restrictions.
            State::Linked(at) if Place { limits: place.limits, ..at } == place => {}
            // It is also below the root that this one replaces, and is found from here from now on.
            State::Linked(at) if self.is_shared(at, place) => {}
            State::Linked(at) => {
                let text = format!(
                    "the table at {table:#x} translates {:#x} already; the model knows one place for each table",
                    at.va
                );
                return Err(sequence(cpu, text).at(place.va));
            }
            State::Offline | State::Unlinked => {}
        }
        if page.unseen != 0 {
            let text = format!(
                "stores of {} to the table at {table:#x} have had no DSB; a walker may read what was there before",
                named(page.unseen)
            );
            return Err(fact(text));
        }
        self.not_hidden(cpu, table).map_err(|found| found.at(place.va))?;
        if let Some(index) =
            page.words.iter().take(g.entries(place.level)).position(|&w| w == crate::pages::POISON)
        {
            let va = place.va.wrapping_add((index as u64) << g.level_shift(place.level));
            let text = format!("slot {index} of the table at {table:#x} was never written");
            return Err(Finding::new(Rule::Unfilled, text).on(cpu).at(va));
        }
        if let Some((index, value)) = page
            .words
            .iter()
            .take(g.entries(place.level))
            .enumerate()
            .find_map(|(i, &w)| meaningless(w, place, g).then_some((i, w)))
        {
            let va = place.va.wrapping_add((index as u64) << g.level_shift(place.level));
            return Err(reserved(value, place, g).on(cpu).at(va));
        }
        for (child, below) in self.pages.children(table, place, g) {
            self.link(cpu, child, below)?;
        }
        if let Some(page) = self.pages.get_mut(table) {
            page.state = State::Linked(place);
        }
        Ok(())
    }
}

/// Returns true if the model cannot give a descriptor a meaning. At stage 2 the bits of restrictions are RES0, and NSTable
/// is of Secure state (D8.4.1.2 ISRRJF, D8.4.6.1).
pub(super) fn meaningless(value: u64, place: Place, g: Geometry) -> bool {
    let descriptor = linmap::arch::Descriptor(value);
    let refused = if place.space.is_stage_2() { TableLimits::all() } else { TableLimits::NON_SECURE };
    let other = match descriptor.decode(g, place.level) {
        Entry::Reserved => true,
        Entry::Table(_) => TableLimits::of(descriptor).intersects(refused),
        _ => false,
    };
    other || value & must_be_zero(value, place.level, g) != 0
}

/// Returns the bits of a valid descriptor that are RES0 in every regime (D8.3.1, tables D8-50 to D8-53): those between the
/// attributes and the address, the contiguous bit where there are no runs (D8.7.1), and bit 50 of a table. nT is not modelled,
/// so bit 16 of a block is one of them.
fn must_be_zero(value: u64, level: Level, g: Geometry) -> u64 {
    let (bits, alone): (u32, u64) = match linmap::arch::Descriptor(value).decode(g, level) {
        Entry::Table(_) => (g.page_shift(), 1 << 50),
        Entry::Leaf(Leaf { valid: true, .. }) if g.contiguous_entries(level) == 1 => {
            (g.level_shift(level), 1 << 52)
        }
        Entry::Leaf(Leaf { valid: true, .. }) => (g.level_shift(level), 0),
        _ => return 0,
    };
    let below = ((1u64 << bits) - 1) >> 12u32 << 12u32;
    alone
        | match g.oa_format() {
            OaFormat::Bits48 => below | 0b11 << 48u32,
            // Bits 15:12 are bits 51:48 of the address.
            OaFormat::Lpa => below >> 16u32 << 16u32 | 0b11 << 48u32,
            OaFormat::Lpa2 => below,
        }
}

pub(super) fn reserved(value: u64, place: Place, g: Geometry) -> Finding {
    let (level, zero) = (place.level.number(), value & must_be_zero(value, place.level, g));
    let text = match zero {
        0 => format!(
            "the descriptor {value:#x} has no meaning at level {level}, or restricts what lies below it, which is not modelled there"
        ),
        bits => format!("the bits {bits:#x} of the descriptor {value:#x} must be zero at level {level}"),
    };
    Finding::new(Rule::Reserved, text)
}

pub(super) fn sequence(cpu: CpuId, fact: impl Into<String>) -> Finding {
    Finding::new(Rule::Sequence, fact).on(cpu)
}
