//! Registers of EL2, and the regimes whose trees they load: EL2 or EL2&0, and stage 2 of EL1&0.
//!
//! A tree has the regime of the register that loads it, and one VMID, as it has one ASID. TLBs tell entries apart by these
//! (D8.17 RNWYRD), so the stale ones of each regime and VMID are kept by themselves.

use linmap::arch::{Entry, Leaf};

use super::frames::sequence;
use super::{Finding, Machine, Ttbr};
use crate::pages::{Place, State};
use crate::space::{Context, Space};
use crate::stale::Stale;
use crate::{CpuId, Event, Register};

/// HCR_EL2.TGE and E2H.
const TGE: u64 = 1 << 27;
const E2H: u64 = 1 << 34;

/// The entries of a space in which nothing was ever replaced.
static NONE: Stale = Stale { leaves: Vec::new(), tables: Vec::new() };

impl Machine {
    /// Notes a write of HCR_EL2, which says whether the regime of EL2 has an ASID and whether the TLBIs of EL1 are for it.
    pub(super) fn set_hcr(&mut self, cpu: CpuId, value: u64) -> Result<(), Finding> {
        let (e2h, tge) = (value & E2H != 0, value & TGE != 0);
        let this = self.cpu_mut(cpu);
        let slots = [Register::Ttbr0El2.slot(), Register::Ttbr1El2.slot()];
        if e2h != this.context.e2h && slots.iter().any(|&slot| this.ttbr[slot].is_some()) {
            let fact = "HCR_EL2.E2H changes while trees of EL2 are loaded, which is not modelled";
            return Err(sequence(cpu, fact));
        }
        this.context = Context { e2h, tge, ..this.context };
        Ok(())
    }

    /// Returns what a table base register names: root, ASID and regime. A new VMID is in force from here on.
    pub(super) fn base(&mut self, cpu: CpuId, register: Register, value: u64) -> Result<Ttbr, Finding> {
        let Context { vmid, e2h, .. } = self.cpu(cpu).context;
        let Ttbr { root, asid, .. } = self.base_register(value);
        let space = match register {
            Register::Ttbr1El2 if !e2h => {
                return Err(sequence(cpu, format!("{register} is written, and HCR_EL2.E2H is 0")));
            }
            Register::Ttbr0El2 if !e2h && asid != 0 => {
                let fact =
                    format!("{register} = {value:#x} has an ASID, and without HCR_EL2.E2H there is none");
                return Err(sequence(cpu, fact));
            }
            Register::Ttbr0El2 | Register::Ttbr1El2 => Space::El2,
            Register::Vttbr => {
                self.new_vmid(cpu, asid)?;
                return Ok(Ttbr { root, asid: 0, space: Space::Stage2(asid) });
            }
            _ => Space::El1(vmid),
        };
        Ok(Ttbr { root, asid, space })
    }

    /// Lets a CPU go over to a VMID: the trees of EL1 that it has loaded must be empty, or they would have two.
    fn new_vmid(&mut self, cpu: CpuId, vmid: u16) -> Result<(), Finding> {
        if self.cpus.iter().any(|c| c.core.repeat_tlbi) {
            return Err(sequence(cpu, "stage 2 with a CPU that needs TLBIs twice is not modelled"));
        }
        let old = std::mem::replace(&mut self.cpu_mut(cpu).context.vmid, vmid);
        if old == vmid {
            return Ok(());
        }
        let loaded = self.cpu(cpu).ttbr[..2].iter().flatten();
        if let Some(tree) = loaded.map(|t| t.root).find(|&root| self.pages.has_entries(root)) {
            let fact = format!(
                "the tree at {tree:#x} has VMID {old}, and goes on with {vmid}: load empty tables first"
            );
            return Err(sequence(cpu, fact));
        }
        let space = Space::El1(vmid);
        let mut empty = Vec::new();
        for ttbr in self.cpu_mut(cpu).ttbr[..2].iter_mut().flatten() {
            ttbr.space = space;
            empty.push(ttbr.root);
        }
        for root in empty {
            if let Some(State::Linked(place)) = self.pages.get_mut(root).map(|page| &mut page.state) {
                place.space = space;
            }
        }
        Ok(())
    }

    /// Judges a store into a tree: CPUs may share an empty one in several regimes, but it is filled in one.
    pub(super) fn root_has_one_space(&self, cpu: CpuId, table: u64, place: Place) -> Result<(), Finding> {
        let mut loaded = self.cpus.iter().flat_map(|c| c.ttbr.iter().flatten()).filter(|t| t.root == table);
        match loaded.find(|t| t.space != place.space) {
            None => Ok(()),
            Some(other) => {
                let fact = format!(
                    "the tree at {table:#x} is filled while CPUs have it loaded for {} and for {}",
                    place.space, other.space
                );
                Err(sequence(cpu, fact))
            }
        }
    }

    /// Judges a leaf of the regime of EL2: without E2H that has no ASID.
    pub(super) fn may_be_local(&self, cpu: CpuId, leaf: Leaf) -> Result<(), Finding> {
        let e2h = self.cpus.iter().any(|c| c.context.e2h);
        if e2h || !leaf.attributes.contains(linmap::Attributes::NOT_GLOBAL) {
            return Ok(());
        }
        Err(sequence(cpu, "a leaf of EL2 has nG, and without HCR_EL2.E2H there is no ASID"))
    }

    /// Returns the slots of the trees by which a CPU works in the two halves: those of EL2&0 where it is a host there.
    pub(super) fn slots_at_work(&self, cpu: CpuId) -> [usize; 2] {
        let this = self.cpu(cpu);
        let el2 = [Register::Ttbr0El2.slot(), Register::Ttbr1El2.slot()];
        let is_host =
            this.context.e2h && this.context.tge && el2.iter().any(|&slot| this.ttbr[slot].is_some());
        if is_host { el2 } else { [0, 1] }
    }

    /// Returns true for a tree of stage 2, whose descriptors say other things.
    pub(super) fn is_of_stage_2(&self, root: u64) -> bool {
        self.root_place(root).is_some_and(|place| place.space.is_stage_2())
    }

    /// Judges the leaves of a tree that a CPU loads for EL2.
    pub(super) fn tree_may_be_local(&self, cpu: CpuId, tree: (u64, Place)) -> Result<(), Finding> {
        if tree.1.space != Space::El2 {
            return Ok(());
        }
        let span = (tree.1.va, tree.1.va + ((1 << self.geometry().va_bits()) - 1));
        self.pages.walk(tree, span, self.geometry(), &mut |piece| match piece.entry {
            Entry::Leaf(leaf) => self.may_be_local(cpu, leaf),
            _ => Ok(()),
        })
    }

    /// Returns the entries of a space that TLBs may hold though they are not in the tables.
    pub(super) fn stale_of(&self, space: Space) -> &Stale {
        match space {
            Space::HOME => &self.stale,
            _ => self.other_stale.iter().find(|s| s.0 == space).map_or(&NONE, |s| &s.1),
        }
    }

    pub(super) fn stale_of_mut(&mut self, space: Space) -> &mut Stale {
        if space == Space::HOME {
            return &mut self.stale;
        }
        let known = self.other_stale.iter().position(|s| s.0 == space);
        let at = known.unwrap_or_else(|| {
            self.other_stale.push((space, Stale::default()));
            self.other_stale.len() - 1
        });
        &mut self.other_stale[at].1
    }

    /// Returns those of all spaces.
    pub(super) fn all_stale(&self) -> impl Iterator<Item = (Space, &Stale)> {
        std::iter::once((Space::HOME, &self.stale)).chain(self.other_stale.iter().map(|s| (s.0, &s.1)))
    }

    pub(super) fn all_stale_mut(&mut self) -> impl Iterator<Item = (Space, &mut Stale)> {
        let others = self.other_stale.iter_mut().map(|(space, stale)| (*space, stale));
        std::iter::once((Space::HOME, &mut self.stale)).chain(others)
    }

    /// Returns what the registers of a CPU said at an event that the log still has.
    pub(super) fn context_at(&self, cpu: CpuId, event: usize) -> Context {
        let mut context = self.cpu(cpu).context;
        let before = self.log.iter().filter(|(number, e)| *number < event && e.cpu() == cpu);
        for (_, event) in before {
            match *event {
                Event::Msr { register: Register::Hcr, value, .. } => {
                    context = Context { e2h: value & E2H != 0, tge: value & TGE != 0, ..context };
                }
                Event::Msr { register: Register::Vttbr, value, .. } => {
                    context.vmid = (value >> 48u32) as u16;
                }
                _ => {}
            }
        }
        context
    }
}
