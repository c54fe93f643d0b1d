//! CnP: CPUs whose table base registers have it set use one another's TLB entries (D8.16.3.4).
//!
//! While two registers for one half, VMID and ASID have the bit set, they must name one table (RQLGWZ), and whatever one
//! of the CPUs holds of its tree the other may use (RFWQJZ). The ASID is that of the register itself; global entries are
//! shared whatever it is. The bit of VTTBR_EL2 is not modelled: stage 1 counts as shared without it (RZVRZW).

use super::{Finding, Machine};
use crate::{CpuId, Register, Rule};

impl Machine {
    /// Returns true if a CPU has CnP set for a half in which it walks a tree.
    fn is_common(&self, cpu: CpuId, half: usize) -> bool {
        let this = self.cpu(cpu);
        let register = if half == 0 { Register::Ttbr0 } else { Register::Ttbr1 };
        let set = this.registers.get(register).written().is_some_and(|value| value & 1 != 0);
        this.core.cnp && set && this.ttbr[half].is_some()
    }

    /// Returns true if two CPUs use one another's entries of a half.
    pub(super) fn share(&self, cpu: CpuId, other: CpuId, half: usize) -> bool {
        self.share_global(cpu, other, half) && self.have_one_asid(cpu, other, half)
    }

    /// Returns true if they use one another's global entries, for which the ASID does not matter.
    fn share_global(&self, cpu: CpuId, other: CpuId, half: usize) -> bool {
        let space = |cpu| self.cpu(cpu).ttbr[half].map(|t| t.space);
        self.is_common(cpu, half) && self.is_common(other, half) && space(cpu) == space(other)
    }

    fn have_one_asid(&self, cpu: CpuId, other: CpuId, half: usize) -> bool {
        let asid = |cpu| self.cpu(cpu).ttbr[half].map(|t| t.asid);
        asid(cpu) == asid(other)
    }

    /// Judges that the CPUs with which a CPU shares entries have loaded the same table.
    pub(super) fn share_one_table(&self, cpu: CpuId, half: usize) -> Result<(), Finding> {
        let root = |cpu| self.cpu(cpu).ttbr[half].map_or(0, |t| t.root);
        let mut others = (0..self.cpus.len() as CpuId).filter(|&other| other != cpu);
        let global = |cpu| self.has_global(root(cpu), half);
        let clash = |other: &CpuId| {
            let other = *other;
            root(other) != root(cpu)
                && self.share_global(cpu, other, half)
                && (self.have_one_asid(cpu, other, half) || global(cpu) || global(other))
        };
        match others.find(clash) {
            None => Ok(()),
            Some(other) => {
                let what = if self.have_one_asid(cpu, other, half) {
                    "for the same ASID"
                } else {
                    "for another ASID, and some of their pages are global"
                };
                let fact = format!(
                    "cpu {cpu} loads {:#x} with CnP, and cpu {other} has {:#x} with CnP {what}",
                    root(cpu),
                    root(other)
                );
                let va = self.place_of_root(root(cpu), half).va;
                Err(Finding::new(Rule::Common, fact).on(cpu).at(va))
            }
        }
    }

    /// Notes that CnP changes while the TLB may hold something: the bit may be in the TLB too (IYVLVD).
    pub(super) fn note_cnp(&mut self, cpu: CpuId, register: Register, old: u64, value: u64) {
        let half = 1 << usize::from(register == Register::Ttbr1);
        if self.cpu(cpu).core.cnp && (old ^ value) & 1 != 0 {
            let (halves, now) = (self.held_halves(cpu) & half, self.now);
            self.cpu_mut(cpu).registers.note_former(register, halves, now);
        }
    }

    /// Returns the CPUs that may use what some CPUs hold of a tree, as bits.
    pub(super) fn users_of_entries(&self, holders: u8, root: u64) -> u8 {
        if !self.shared_entries {
            return holders;
        }
        let on = |cpu: CpuId, half: usize| self.cpu(cpu).ttbr[half].is_some_and(|t| t.root == root);
        let cpus = || 0..self.cpus.len() as CpuId;
        let held = |cpu: CpuId, half: usize| {
            cpus().any(|other| holders & 1 << other != 0 && on(other, half) && self.share(cpu, other, half))
        };
        let shares = |cpu: &CpuId| (0..2).any(|half| on(*cpu, half) && held(*cpu, half));
        cpus().filter(shares).fold(holders, |bits, cpu| bits | 1 << cpu)
    }
}
