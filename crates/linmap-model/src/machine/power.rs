//! CPUs that are reset, and translation that is turned off and on.
//!
//! With translation off a CPU walks no tables and its TLB has no effect, but keeps what it holds (D8.16 RNDCMB). So it
//! has left its trees, and comes to those in its registers when translation is on again.
//!
//! After a reset the manual leaves the state of TLBs, and the routine that empties them, IMPLEMENTATION DEFINED
//! (D8.16.1 RBQCDZ, RQNFHZ). The model takes a TLB that may hold anything, which TLBI VMALLE1 or a wider one of this
//! CPU empties, with DSB NSH and ISB. One that another CPU broadcasts does not count: the CPU may have been off. For
//! the trees of stage 2 and EL2 it takes ALLE1 and ALLE2. The MMU is off after a reset of EL1; where there is EL2 or EL3 software there turns it off before it enters EL1.

use super::frames::sequence;
use super::registers::{Registers, Value};
use super::{Finding, Machine};
use crate::fields::{sctlr, tcr};
use crate::space::{Context, Space};
use crate::{CpuId, Register, Rule};

impl Machine {
    pub(super) fn reset(&mut self, cpu: CpuId) -> Result<(), Finding> {
        if let Some(open) = &self.cpu(cpu).operation {
            return Err(sequence(cpu, format!("cpu {cpu} is reset in the midst of {}", open.name)));
        }
        if !self.cpu(cpu).reads_since.is_empty() {
            return Err(sequence(cpu, format!("cpu {cpu} is reset while it reads")));
        }
        let now = self.now;
        let this = self.cpu_mut(cpu);
        this.registers = Registers::reset(now);
        this.ttbr = [None; Register::SLOTS];
        this.came_from = [None; Register::SLOTS];
        this.context = Context::default();
        this.left.clear();
        this.issued.clear();
        this.awaiting_isb.clear();
        this.parked = false;
        this.isb_at = now;
        // Whatever it holds is dropped before it is used, or `tlb_is_known` finds that it is not.
        self.all_stale_mut().for_each(|(_, stale)| stale.forget(cpu));
        Ok(())
    }

    pub(super) fn set_sctlr(&mut self, cpu: CpuId, old: Value, value: u64) -> Result<(), Finding> {
        let on = value & sctlr::M != 0;
        let what = match () {
            () if on && value & sctlr::C == 0 => Some("translation with the data caches off"),
            () if on && value & sctlr::EE != 0 => Some("big-endian tables"),
            () => None,
        };
        if let Some(what) = what {
            return Err(sequence(cpu, format!("sctlr_el1 = {value:#x}: {what}, which is not modelled")));
        }
        if old.written().is_some_and(|old| (old ^ value) & sctlr::CACHED != 0) {
            let (halves, now) = (self.held_halves(cpu), self.now);
            self.cpu_mut(cpu).registers.note_former(Register::Sctlr, halves, now);
        }
        let was_on = old.written().is_none_or(|old| old & sctlr::M != 0);
        match (was_on, on) {
            (true, false) => {
                self.turn_off(cpu);
                Ok(())
            }
            (false, true) => self.turn_on(cpu),
            _ => Ok(()),
        }
    }

    fn turn_off(&mut self, cpu: CpuId) {
        for half in 0..2 {
            self.leave(cpu, half, None);
            self.cpu_mut(cpu).ttbr[half] = None;
        }
    }

    fn turn_on(&mut self, cpu: CpuId) -> Result<(), Finding> {
        self.tlb_is_known(cpu, Space::El1(self.cpu(cpu).context.vmid))?;
        for register in [Register::Tcr, Register::Mair, Register::Ttbr0, Register::Ttbr1] {
            if self.cpu(cpu).registers.get(register) == Value::Unknown && self.matters(cpu, register) {
                let fact =
                    format!("cpu {cpu} turns translation on, and {register} is unknown since its reset");
                return Err(Finding::new(Rule::Reset, fact).on(cpu));
            }
            self.synchronised(cpu, register, "turns translation on")?;
        }
        for register in [Register::Ttbr0, Register::Ttbr1] {
            if let Value::Written(value) = self.cpu(cpu).registers.get(register)
                && self.matters(cpu, register)
            {
                self.load(cpu, register, value)?;
            }
        }
        Ok(())
    }

    /// Judges that the CPU has emptied its TLB since a reset, as far as it translates addresses of a space.
    pub(super) fn tlb_is_known(&self, cpu: CpuId, space: Space) -> Result<(), Finding> {
        let Some(event) = self.cpu(cpu).registers.unknown_since(space) else { return Ok(()) };
        let fact = format!("cpu {cpu} was reset by event {event}, and its TLB may hold anything of {space}");
        let by = match space {
            Space::El1(_) => "VMALLE1",
            Space::El2 => "ALLE2",
            Space::Stage2(_) => "ALLE1",
        };
        let why = format!("it has had no TLBI {by} of its own since, with DSB and ISB");
        Err(Finding::new(Rule::Reset, fact).on(cpu).and(why))
    }

    /// Returns false for a TTBR that TCR disables: no walk reads it.
    pub(super) fn matters(&self, cpu: CpuId, register: Register) -> bool {
        let tcr = self.cpu(cpu).registers.get(Register::Tcr).written().unwrap_or_default();
        match register {
            Register::Ttbr0 => tcr & tcr::EPD[0] == 0,
            Register::Ttbr1 => tcr & tcr::EPD[1] == 0,
            _ => true,
        }
    }
}
