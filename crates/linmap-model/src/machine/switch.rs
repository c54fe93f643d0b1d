//! Writes of registers, the trees that table base registers name, and CPUs that leave the map for a while.

use super::asids::has_asids;
use super::frames::sequence;
use super::operation::Moment;
use super::{Finding, Left, Machine, Ttbr};
use crate::pages::{Place, State};
use crate::space::Space;
use crate::{CpuId, Register, Rule};

/// The advice for a tree that was not announced.
const UNANNOUNCED: &str = "nothing was announced of this tree: the events begin and done say what it maps, as `OnCpu::announces` \
    does, before a CPU loads its root";

impl Machine {
    pub(super) fn msr(&mut self, cpu: CpuId, register: Register, value: u64) -> Result<(), Finding> {
        let now = self.now;
        let old = self.cpu_mut(cpu).registers.set(register, value, now);
        match register {
            Register::Tcr => self.set_tcr(cpu, old, value),
            Register::Mair => self.set_mair(cpu, old, value),
            Register::Sctlr => self.set_sctlr(cpu, old, value),
            Register::Ttbr0 | Register::Ttbr1 => {
                self.note_cnp(cpu, register, old.written().unwrap_or(value), value);
                let walked = self.cpu(cpu).registers.is_on() && self.matters(cpu, register);
                if walked { self.load(cpu, register, value) } else { Ok(()) }
            }
            Register::Ttbr0El2 | Register::Ttbr1El2 | Register::Vttbr => self.load(cpu, register, value),
            Register::Hcr => self.set_hcr(cpu, value),
            Register::Vbar => Ok(()),
        }
    }

    /// Lets a CPU walk the tree of a table base register.
    pub(super) fn load(&mut self, cpu: CpuId, register: Register, value: u64) -> Result<(), Finding> {
        let half = register.slot();
        let ttbr = self.base(cpu, register, value)?;
        let place = Place { space: ttbr.space, ..self.place_of_root(ttbr.root, half) };
        let page = self.pages.get(ttbr.root);
        let Some(page) = page.filter(|p| p.state != State::Free) else {
            return Err(sequence(cpu, format!("{register} = {value:#x}: no table page was taken there")));
        };
        let (state, used) = (page.state, self.pages.has_entries(ttbr.root));
        let succeeds = used && self.succeed(cpu, half, ttbr.root);
        match state {
            State::Linked(at) if at == place => self.all_seen(cpu, ttbr.root)?,
            _ => self.link(cpu, ttbr.root, place)?,
        }
        if register.is_upper_half() && used && !self.cpu(cpu).reported {
            let fact = format!(
                "cpu {cpu} loads the tables at {:#x} and has not reported what it promises",
                ttbr.root
            );
            return Err(Finding::new(Rule::Unreported, fact).on(cpu).at(place.va));
        }
        if used {
            self.tlb_is_known(cpu, ttbr.space)?;
            self.one_asid(cpu, ttbr)?;
            self.tree_may_be_local(cpu, (ttbr.root, place))?;
            self.left_is_gone(cpu, half, ttbr)?;
        }
        self.leave(cpu, half, Some(ttbr));
        self.cpu_mut(cpu).ttbr[half] = Some(ttbr);
        if half < Register::Vttbr.slot() {
            self.local_pages_have_one_asid(cpu, half)?;
        }
        if half < 2 {
            self.share_one_table(cpu, half)?;
        }
        if used && half < 2 {
            self.registers_fit(cpu, half)?;
        }
        self.all_stale_mut().for_each(|(_, stale)| stale.newcomer(cpu, ttbr.root));
        let span = (place.va, place.va + ((1 << self.geometry().va_bits()) - 1));
        self.tree_against_stale((ttbr.root, place), span, 1 << cpu)?;
        self.pages_may_be_mapped(ttbr.root, span)?;
        if used {
            // It may have been away while something changed.
            self.nothing_stale(ttbr.root, &[span], 1 << cpu)?;
        }
        let known = self.expected.contains_key(&self.current(ttbr.root));
        if self.cpu(cpu).parked && !succeeds {
            return Ok(());
        }
        self.translates(ttbr.root, span, Moment::Meanwhile)
            .map_err(|found| if known { found } else { found.and(UNANNOUNCED) })
            .map_err(|found| Finding { cpu: Some(cpu), ..found })
    }

    /// Returns the root and the ASID of a register's value.
    pub(super) fn base_register(&self, value: u64) -> Ttbr {
        let root = Register::root(value, self.geometry().oa_format());
        Ttbr { root, asid: (value >> 48) as u16, space: Space::HOME }
    }

    /// Judges that all stores into a tree are visible to a walker that comes to it.
    fn all_seen(&self, cpu: CpuId, root: u64) -> Result<(), Finding> {
        self.nothing_hidden(cpu, root, None)?;
        for (by, table) in self.pages.dirty() {
            if let Some(State::Linked(place)) = self.pages.get(table).map(|p| p.state)
                && place.root == root
            {
                let fact = format!("stores of cpu {by} to the table at {table:#x} have had no DSB");
                return Err(Finding::new(Rule::Unfilled, fact).on(cpu).at(place.va));
            }
        }
        Ok(())
    }

    /// Judges that the TLB holds no entry of another tree for the same half.
    fn left_is_gone(&self, cpu: CpuId, half: usize, new: Ttbr) -> Result<(), Finding> {
        let this = self.cpu(cpu);
        let current = this.ttbr[half].map(|ttbr| (ttbr, None));
        let left = this.left.iter().filter(|l| l.half == half).map(|l| (l.ttbr, l.until));
        // With another VMID all entries are told apart, and with another ASID those of the lower half.
        let apart = |old: Ttbr| {
            old.space != new.space
                || (has_asids(half) && old.asid != new.asid && !self.has_global(old.root, half))
        };
        for (old, until) in left.chain(current) {
            if old.root == new.root || apart(old) || !self.pages.has_entries(old.root) {
                continue;
            }
            let fact = format!(
                "cpu {cpu} may hold entries of the tree at {:#x} and loads {:#x}",
                old.root, new.root
            );
            let when = match until {
                None => "it has had no ISB since it used the first".into(),
                Some(isb) => format!(
                    "no TLBI of everything after its ISB (event {isb}), with DSB and ISB, has dropped them"
                ),
            };
            let va = self.place_of_root(old.root, half).va;
            return Err(Finding::new(Rule::TtbrSwitch, fact).on(cpu).at(va).and(when));
        }
        Ok(())
    }

    pub(super) fn has_global(&self, root: u64, half: usize) -> bool {
        let g = self.geometry();
        let place = self.place_of_root(root, half);
        let span = (place.va, place.va + ((1 << g.va_bits()) - 1));
        self.pages
            .walk((root, place), span, g, &mut |piece| match piece.entry {
                linmap::arch::Entry::Leaf(l)
                    if l.valid && !l.attributes.contains(linmap::Attributes::NOT_GLOBAL) =>
                {
                    Err(())
                }
                _ => Ok(()),
            })
            .is_err()
    }

    /// Remembers the tree that the CPU walked.
    pub(super) fn leave(&mut self, cpu: CpuId, half: usize, new: Option<Ttbr>) {
        let old = self.cpu(cpu).ttbr[half].filter(|&old| Some(old) != new);
        if let Some(old) = old.filter(|old| self.expected.contains_key(&self.current(old.root))) {
            self.cpu_mut(cpu).came_from[half] = Some(old.root);
        }
        let Some(ttbr) = old.filter(|old| self.pages.has_entries(old.root)) else { return };
        self.cpu_mut(cpu).left.push(Left { half, ttbr, until: None });
    }

    pub(super) fn park(&mut self, cpu: CpuId) -> Result<(), Finding> {
        if std::mem::replace(&mut self.cpu_mut(cpu).parked, true) {
            return Err(sequence(cpu, format!("cpu {cpu} is parked already")));
        }
        Ok(())
    }

    /// Lets the CPU go on: all changes made meanwhile must be right.
    pub(super) fn unpark(&mut self, cpu: CpuId) -> Result<(), Finding> {
        if !std::mem::replace(&mut self.cpu_mut(cpu).parked, false) {
            return Err(sequence(cpu, format!("cpu {cpu} is not parked")));
        }
        self.in_force(cpu, 0b1111)?;
        let this = self.cpu(cpu);
        for half in [Register::Ttbr1, Register::Ttbr1El2].map(Register::slot) {
            let was_mapped = this.came_from[half].is_some_and(|old| self.pages.has_entries(old));
            if let Some(ttbr) = this.ttbr[half].filter(|t| was_mapped && !self.pages.has_entries(t.root)) {
                let fact =
                    format!("cpu {cpu} comes back on the tree at {:#x}, which maps nothing", ttbr.root);
                return Err(Finding::new(Rule::InUse, fact).on(cpu).at(self.place_of_root(ttbr.root, 1).va));
            }
        }
        let roots: Vec<u64> = self.cpu(cpu).ttbr.iter().flatten().map(|t| self.current(t.root)).collect();
        let touched: Vec<_> = self
            .cpus
            .iter()
            .filter_map(|c| c.operation.as_ref())
            .filter(|o| roots.contains(&o.root))
            .flat_map(|o| o.touched.iter().map(|&span| (o.root, span)))
            .collect();
        for (root, span) in touched {
            let judged = self.translates(root, span, Moment::Meanwhile);
            judged.map_err(|found| Finding { cpu: Some(cpu), ..found })?;
        }
        Ok(())
    }

    /// Returns the root's place, in the half that it translates.
    pub(super) fn root_place(&self, root: u64) -> Option<crate::pages::Place> {
        match self.pages.get(root)?.state {
            State::Linked(place) if place.root == root => Some(place),
            State::Offline => Some(self.place_of_root(root, self.half_of(root).unwrap_or(1))),
            _ => None,
        }
    }

    /// Returns the half that a root which no CPU has loaded yet is to map.
    fn half_of(&self, root: u64) -> Option<usize> {
        self.expected.get(&self.current(root))?.first().map(|va| (va >> 63u32) as usize)
    }
}
