//! Pure: chooses the CPU whose registers are those of the kernel.
//!
//! A kernel that uses VHE runs at EL2; its tables are in TTBR1_EL2, and the registers of EL1 are stale. HCR_EL2.E2H
//! and the exception level tell the two apart; a stub without HCR_EL2 has no EL2 to show.

use super::super::regime::{Regime, RegimeError};

/// Registers of one CPU, as far as the stub shows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Registers {
    /// The processor state: exception level in bits 3:2.
    pub(super) cpsr: Option<u64>,
    pub(super) hcr_el2: Option<u64>,
    pub(super) el1: Stage,
    pub(super) el2: Stage,
    pub(super) mmfr0: Option<u64>,
    pub(super) mmfr2: Option<u64>,
}

/// Registers that control the translation of one exception level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Stage {
    pub(super) sctlr: Option<u64>,
    pub(super) ttbr1: Option<u64>,
    pub(super) tcr: Option<u64>,
    pub(super) mair: Option<u64>,
}

/// HCR_EL2.E2H: EL2 has two halves, as EL1 has.
const E2H: u64 = 1 << 34;
/// HCR_EL2.TGE: exceptions of EL0 go to EL2.
const TGE: u64 = 1 << 27;
/// SCTLR.M: translation is on.
const M: u64 = 1;

/// A rank of CPUs by how well they show the kernel's tables, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rank {
    /// Translation is off, or the registers are not shown.
    Useless,
    /// In user space, where a kernel can have replaced its tables by others.
    User,
    /// In EL1, with VHE enabled at EL2: the kernel of a guest, or one under a hypervisor.
    PerhapsGuest,
    /// In the kernel.
    Kernel,
}

impl Registers {
    /// Returns true if the kernel runs at EL2.
    pub(super) const fn is_vhe(&self) -> bool {
        match (self.hcr_el2, self.level()) {
            (Some(hcr), 2) => hcr & E2H != 0,
            (Some(hcr), 0) => hcr & E2H != 0 && hcr & TGE != 0,
            _ => false,
        }
    }

    /// Returns the exception level; 1 if it is not shown.
    const fn level(&self) -> u64 {
        match self.cpsr {
            Some(cpsr) => cpsr >> 2 & 3,
            None => 1,
        }
    }

    /// Returns the registers that translate the kernel's addresses.
    pub(super) const fn stage(&self) -> &Stage {
        if self.is_vhe() { &self.el2 } else { &self.el1 }
    }

    /// Returns how well they show the kernel's tables.
    pub(super) fn rank(&self) -> Rank {
        let stage = self.stage();
        let off = stage.sctlr.is_some_and(|sctlr| sctlr & M == 0);
        match self.level() {
            _ if off || stage.ttbr1.is_none() || stage.tcr.is_none() => Rank::Useless,
            0 => Rank::User,
            1 if self.hcr_el2.is_some_and(|hcr| hcr & E2H != 0) => Rank::PerhapsGuest,
            2 if !self.is_vhe() => Rank::Useless,
            3 => Rank::Useless,
            _ => Rank::Kernel,
        }
    }

    /// Returns root and geometry of the tables; `None` for a useless CPU.
    pub(super) fn regime(&self) -> Option<Result<Regime, RegimeError>> {
        let stage = self.stage();
        Some(Regime::of_registers(stage.ttbr1?, stage.tcr?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(el: u64, hcr_el2: Option<u64>) -> Registers {
        let stage = |ttbr1| Stage { sctlr: Some(1), ttbr1: Some(ttbr1), tcr: Some(0), mair: None };
        Registers { cpsr: Some(el << 2), hcr_el2, el1: stage(1), el2: stage(2), ..Registers::default() }
    }

    #[test]
    fn the_kernel_is_where_e2h_and_the_level_say() {
        let vhe = Some(E2H | TGE);
        let rows = [
            (registers(1, None), 1, Rank::Kernel),
            (registers(0, None), 1, Rank::User),
            (registers(1, Some(0)), 1, Rank::Kernel),
            (registers(2, vhe), 2, Rank::Kernel),
            (registers(0, vhe), 2, Rank::User),
            (registers(1, Some(E2H)), 1, Rank::PerhapsGuest),
            (registers(0, Some(E2H)), 1, Rank::User),
            (registers(2, Some(0)), 1, Rank::Useless),
            (registers(3, vhe), 1, Rank::Useless),
            (Registers { cpsr: None, ..registers(0, None) }, 1, Rank::Kernel),
            (Registers::default(), 0, Rank::Useless),
        ];
        for (registers, ttbr1, rank) in rows {
            let found = (registers.stage().ttbr1.unwrap_or(0), registers.rank());
            assert_eq!(found, (ttbr1, rank), "{registers:x?}");
        }
        let mut off = registers(1, None);
        off.el1.sctlr = Some(0);
        assert_eq!(off.rank(), Rank::Useless);
    }
}
