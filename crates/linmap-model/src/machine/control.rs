//! TCR_EL1 and MAIR_EL1. What they say must be true of the tables in use; a TLB may hold what they said before, until
//! everything is invalidated; CPUs on one map must agree; and a write takes effect with a context synchronisation event.

use linmap::Attributes;
use linmap::arch::{Entry, Leaf};

use super::frames::sequence;
use super::registers::Value;
use super::{Finding, Machine};
use crate::fields::{sctlr, tcr};
use crate::space::Space;
use crate::{CpuId, Register, Rule};

/// The attribute of tagged memory. But for the tags it is normal memory (B2.11).
const TAGGED: u8 = 0xf0;
const NORMAL: u8 = 0xff;

impl Machine {
    pub(super) fn set_tcr(&mut self, cpu: CpuId, old: Value, value: u64) -> Result<(), Finding> {
        if let Some(old) = old.written() {
            let halves = tcr::halves_that_differ(old, value) & self.held_halves(cpu);
            let now = self.now;
            self.cpu_mut(cpu).registers.note_former(Register::Tcr, halves, now);
        }
        self.asids_are_modelled(cpu)?;
        for half in (0..2).filter(|&half| self.in_use(cpu, half)) {
            self.tcr_is_right(cpu, half)?;
            self.agree(cpu, half)?;
        }
        // Where there were no walks, there are some now.
        let began = tcr::EPD.map(|epd| old.written().is_some_and(|old| old & epd != 0) && value & epd == 0);
        for (half, register) in [Register::Ttbr0, Register::Ttbr1].into_iter().enumerate() {
            let ttbr = self.cpu(cpu).registers.get(register).written();
            if let Some(ttbr) = ttbr.filter(|_| began[half] && self.cpu(cpu).registers.is_on()) {
                self.load(cpu, register, ttbr)?;
            }
        }
        Ok(())
    }

    /// Judges that TCR says what the tables of a half need.
    fn tcr_is_right(&self, cpu: CpuId, half: usize) -> Result<(), Finding> {
        let this = self.cpu(cpu);
        let (Some(value), Some(ttbr)) = (this.registers.get(Register::Tcr).written(), this.ttbr[half]) else {
            return Ok(());
        };
        let place = self.place_of_root(ttbr.root, half);
        let says = |what: String| format!("tcr_el1 of cpu {cpu} is {value:#x}: {what}");
        let wrong = |what| Err(Finding::new(Rule::Control, says(what)).on(cpu).at(place.va));
        let refused =
            |what: &str| Err(sequence(cpu, says(format!("{what}, which is not modelled"))).at(place.va));
        if let Some(what) = tcr::contradicts(value, half, self.geometry()) {
            return wrong(what);
        }
        if value & tcr::EPD[half] != 0 {
            return refused("no walks in a half that has tables");
        }
        let walks = tcr::walks(value, half);
        if walks & 3 == 0 || walks >> 2u32 & 3 == 0 || walks >> 4u32 == 0 {
            return refused("walks that are not cacheable or not shareable");
        }
        let end = 1u64 << tcr::pa_bits(value);
        match self.beyond(cpu, half, end) {
            Some(pa) => wrong(format!("its IPS ends at {end:#x}, and the map reaches {pa:#x}")),
            None => Ok(()),
        }
    }

    /// Returns a physical address of a map that is not below an end.
    fn beyond(&self, cpu: CpuId, half: usize, end: u64) -> Option<u64> {
        let tables = self.setup.tables_at + ((self.setup.tables as u64) << self.geometry().page_shift()) - 1;
        if end >= 1 << self.geometry().oa_bits() {
            return None;
        }
        if tables >= end {
            return Some(tables);
        }
        self.find_leaf(cpu, half, |leaf, last| Some(leaf.oa.0 + last).filter(|&pa| pa >= end)).map(|f| f.1)
    }

    /// Looks at the valid leaves of a half, and returns what the function finds first, with the address. It takes a
    /// leaf and the offset of the last byte that the leaf maps.
    fn find_leaf<T>(
        &self,
        cpu: CpuId,
        half: usize,
        find: impl Fn(&Leaf, u64) -> Option<T>,
    ) -> Option<(u64, T)> {
        let root = self.cpu(cpu).ttbr[half]?.root;
        let (g, place) = (self.geometry(), self.place_of_root(root, half));
        let span = (place.va, place.va + ((1 << g.va_bits()) - 1));
        let found = self.pages.walk((root, place), span, g, &mut |piece| match piece.entry {
            Entry::Leaf(leaf) if leaf.valid => {
                find(&leaf, piece.last - piece.start).map_or(Ok(()), |found| Err((piece.va, found)))
            }
            _ => Ok(()),
        });
        found.err()
    }

    /// Judges that both halves have one ASID, of as many bits as TCR says: what else TCR can say is not modelled.
    fn asids_are_modelled(&self, cpu: CpuId) -> Result<(), Finding> {
        let this = self.cpu(cpu);
        let Some(value) = this.registers.get(Register::Tcr).written() else { return Ok(()) };
        let asids: Vec<u16> = this.ttbr[..2].iter().flatten().map(|t| t.asid).collect();
        if value & tcr::A1 != 0 && asids.windows(2).any(|w| w[0] != w[1]) {
            let fact = "with TCR_EL1.A1 = 1 and two ASIDs in TTBR0 and TTBR1: that the second is for both halves \
                        is not modelled; write it to both";
            return Err(sequence(cpu, fact));
        }
        match asids.iter().find(|&asid| value & tcr::AS == 0 && asid >> 8u32 != 0) {
            Some(asid) => {
                Err(sequence(cpu, format!("ASID {asid:#x}, and TCR_EL1.AS says that it has 8 bits")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn set_mair(&mut self, cpu: CpuId, old: Value, value: u64) -> Result<(), Finding> {
        let used: Vec<usize> = (0..2).filter(|&half| self.in_use(cpu, half)).collect();
        if old == Value::Setup && !used.is_empty() {
            let fact = "MAIR_EL1 is written while the CPU uses a map, and the model does not know what it was: write it \
                        before the CPU loads a tree";
            return Err(sequence(cpu, fact));
        }
        if let Some(old) = old.written().filter(|&old| old != value) {
            for &half in &used {
                self.no_type_changes(cpu, half, [old, value])?;
            }
            let (halves, now) = (self.held_halves(cpu), self.now);
            self.cpu_mut(cpu).registers.note_former(Register::Mair, halves, now);
        }
        used.into_iter().try_for_each(|half| self.agree(cpu, half))
    }

    /// Judges that no leaf of a half that is in use has a memory type that changes.
    fn no_type_changes(&self, cpu: CpuId, half: usize, values: [u64; 2]) -> Result<(), Finding> {
        let changed = self.find_leaf(cpu, half, |leaf, _| {
            let index = usize::from(leaf.attributes.memory_type().index());
            let [old, new] = values.map(|value| value.to_le_bytes()[index]);
            let used = leaf.attributes.contains(Attributes::ACCESSED);
            (used && untagged(old) != untagged(new)).then_some((index, old, new))
        });
        let Some((va, (index, old, new))) = changed else { return Ok(()) };
        let fact =
            format!("the map has type {index} here, which mair_el1 changes from {old:#04x} to {new:#04x}");
        let may = format!("cpu {cpu} may use it: as for a descriptor, this takes break-before-make");
        Err(Finding::new(Rule::Control, fact).on(cpu).at(va).and(may))
    }

    /// Judges that the CPUs on one map agree on what it means.
    fn agree(&self, cpu: CpuId, half: usize) -> Result<(), Finding> {
        let this = self.cpu(cpu);
        let Some(ttbr) = this.ttbr[half] else { return Ok(()) };
        let map = self.current(ttbr.root);
        for (n, other) in self.cpus.iter().enumerate().filter(|(n, _)| *n != usize::from(cpu)) {
            if other.ttbr[half].is_none_or(|t| self.current(t.root) != map) {
                continue;
            }
            for register in [Register::Tcr, Register::Mair, Register::Sctlr] {
                let values = [this, other].map(|c| c.registers.get(register).written());
                let [Some(ours), Some(theirs)] = values else { continue };
                let same = if self.share(cpu, n as CpuId, half) { is_the_same } else { means_the_same };
                if same(register, half, [ours, theirs]) {
                    continue;
                }
                let va = self.place_of_root(ttbr.root, half).va;
                let fact = format!(
                    "{register} of cpu {cpu} is {ours:#x}, and of cpu {n}, on the same map, {theirs:#x}"
                );
                return Err(Finding::new(Rule::Control, fact).on(cpu).at(va));
            }
        }
        Ok(())
    }

    /// Returns true if a half of a CPU maps something.
    pub(super) fn in_use(&self, cpu: CpuId, half: usize) -> bool {
        self.cpu(cpu).ttbr[half].is_some_and(|t| self.pages.has_entries(t.root))
    }

    /// Returns the halves that a CPU's TLB may hold entries of, as bits.
    pub(super) fn held_halves(&self, cpu: CpuId) -> u8 {
        let this = self.cpu(cpu);
        // What a complete invalidation covers is gone: only accesses under way may use it until the ISB.
        let el1 = Space::El1(this.context.vmid);
        let emptied = this.awaiting_isb.iter().filter(|i| i.empties(el1)).map(|i| i.at).max();
        let held = |until: Option<usize>| until.is_none_or(|until| emptied.is_none_or(|at| at < until));
        let left = |half| this.left.iter().any(|l| l.half == half && held(l.until));
        (0..2).filter(|&half| self.in_use(cpu, half) || left(half)).fold(0, |bits, half| bits | 1 << half)
    }

    /// Judges that a CPU may go on with its work in some halves: what it wrote to its registers is in force.
    pub(super) fn in_force(&self, cpu: CpuId, halves: u8) -> Result<(), Finding> {
        let of_el2 = [Register::Ttbr0El2, Register::Ttbr1El2].into_iter();
        for register in of_el2.filter(|register| halves & 1 << register.slot() != 0) {
            self.synchronised(cpu, register, "goes on with its work")?;
            self.synchronised(cpu, Register::Hcr, "goes on with its work")?;
        }
        let registers = &self.cpu(cpu).registers;
        if !registers.is_on() {
            return Ok(());
        }
        let ttbrs = [Register::Ttbr0, Register::Ttbr1].into_iter().enumerate();
        let ttbrs = ttbrs.filter(|(half, _)| halves & 1 << half != 0).map(|(_, register)| register);
        for register in ttbrs.chain([Register::Tcr, Register::Mair, Register::Sctlr]) {
            self.synchronised(cpu, register, "goes on with its work")?;
        }
        if registers.are_as_the_setup_says() {
            return Ok(());
        }
        let mut used = (0..2).filter(|&half| halves & 1 << half != 0 && self.in_use(cpu, half));
        used.try_for_each(|half| self.registers_fit(cpu, half))
    }

    /// Judges that the registers of a CPU are right for the tree that it has loaded.
    pub(super) fn registers_fit(&self, cpu: CpuId, half: usize) -> Result<(), Finding> {
        self.tcr_is_right(cpu, half)?;
        self.asids_are_modelled(cpu)?;
        self.no_former(cpu, half)?;
        self.agree(cpu, half)
    }

    /// Judges that the last write of a register was followed by a context synchronisation event.
    pub(super) fn synchronised(&self, cpu: CpuId, register: Register, before: &str) -> Result<(), Finding> {
        let Some(event) = self.cpu(cpu).registers.unsynchronised(register) else { return Ok(()) };
        let fact = format!("cpu {cpu} wrote {register} (event {event}), and {before} without an ISB");
        Err(Finding::new(Rule::NotInForce, fact).on(cpu))
    }

    /// Judges that the TLB holds no former value of a register for a half in use.
    fn no_former(&self, cpu: CpuId, half: usize) -> Result<(), Finding> {
        let former = self.cpu(cpu).registers.former.iter().find(|f| f.halves & 1 << half != 0);
        let Some(former) = former else { return Ok(()) };
        let fact = format!(
            "the TLB of cpu {cpu} may hold what {} said before event {}",
            former.register, former.since
        );
        let why = "no TLBI of everything after the ISB that follows it, with DSB and ISB, has dropped that";
        let va = self.cpu(cpu).ttbr[half].map_or(0, |t| self.place_of_root(t.root, half).va);
        Err(Finding::new(Rule::Control, fact).on(cpu).at(va).and(why))
    }
}

/// Returns true if CPUs on one map may have these values: the map means the same to both.
fn means_the_same(register: Register, half: usize, [ours, theirs]: [u64; 2]) -> bool {
    match register {
        Register::Tcr => tcr::walks(ours, half) == tcr::walks(theirs, half),
        Register::Mair => ours.to_le_bytes().map(untagged) == theirs.to_le_bytes().map(untagged),
        Register::Sctlr => (ours ^ theirs) & sctlr::EE == 0,
        _ => true,
    }
}

/// Returns true if CPUs that share TLB entries may have these values: what a TLB may hold is equal (D8.16.3.4 RLGDJT).
const fn is_the_same(register: Register, half: usize, [ours, theirs]: [u64; 2]) -> bool {
    match register {
        Register::Tcr => tcr::halves_that_differ(ours, theirs) & 1 << half == 0,
        Register::Mair => ours == theirs,
        Register::Sctlr => (ours ^ theirs) & sctlr::CACHED == 0,
        _ => true,
    }
}

const fn untagged(attribute: u8) -> u8 {
    if attribute == TAGGED { NORMAL } else { attribute }
}
