//! The registers of one CPU: what it wrote, what of that has not been synchronised, and the former values that its TLB
//! may hold.

use crate::Register;
use crate::fields::sctlr;
use crate::space::{Space, Target};

/// The value of a register, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// Never written: translation is on, and configured as the setup says.
    Setup,
    /// Nothing, since the CPU was reset.
    Unknown,
    Written(u64),
}

impl Value {
    pub(super) const fn written(self) -> Option<u64> {
        match self {
            Self::Written(value) => Some(value),
            Self::Setup | Self::Unknown => None,
        }
    }
}

/// The registers of a CPU.
pub(super) struct Registers {
    values: [Value; Register::ALL.len()],
    /// The events that wrote a register, since when there was no context synchronisation event.
    unsynchronised: [Option<usize>; Register::ALL.len()],
    /// The values that the TLB may hold though the registers have others.
    pub(super) former: Vec<Former>,
    /// The last reset of the CPU.
    pub(super) reset: Option<WasReset>,
}

/// A reset, after which the TLB may hold anything.
pub(super) struct WasReset {
    at: usize,
    /// The targets whose entries the CPU has all dropped since.
    pub(super) emptied: Vec<Target>,
}

/// A former value of a register that the TLB may hold.
#[derive(Clone, Copy)]
pub(super) struct Former {
    pub(super) register: Register,
    /// The halves that it is about, as bits.
    pub(super) halves: u8,
    pub(super) since: usize,
    /// The ISB after which the TLB takes the new one.
    until: Option<usize>,
}

impl Registers {
    /// Returns those of a CPU that has written none.
    pub(super) const fn new() -> Self {
        let values = [Value::Setup; Register::ALL.len()];
        Self { values, unsynchronised: [None; Register::ALL.len()], former: Vec::new(), reset: None }
    }

    /// Returns those of a CPU that was reset by an event: nothing is known but that the MMU is off.
    pub(super) fn reset(now: usize) -> Self {
        let mut registers = Self { values: [Value::Unknown; Register::ALL.len()], ..Self::new() };
        registers.values[Register::Sctlr as usize] = Value::Written(0);
        registers.reset = Some(WasReset { at: now, emptied: Vec::new() });
        registers
    }

    pub(super) const fn get(&self, register: Register) -> Value {
        self.values[register as usize]
    }

    /// Writes a register. Returns what it was before.
    pub(super) fn set(&mut self, register: Register, value: u64, now: usize) -> Value {
        let old = std::mem::replace(&mut self.values[register as usize], Value::Written(value));
        if old != Value::Written(value) {
            self.unsynchronised[register as usize] = Some(now);
        }
        old
    }

    /// Returns true if nothing was written that an unwritten register would not say.
    pub(super) fn are_as_the_setup_says(&self) -> bool {
        let others = [Register::Tcr, Register::Mair, Register::Sctlr];
        self.former.is_empty() && others.iter().all(|&register| self.get(register) == Value::Setup)
    }

    /// Returns true if stage 1 translation is enabled.
    pub(super) const fn is_on(&self) -> bool {
        match self.get(Register::Sctlr) {
            Value::Setup => true,
            Value::Unknown => false,
            Value::Written(value) => value & sctlr::M != 0,
        }
    }

    /// Returns the event that wrote a register, if there was no context synchronisation event since.
    pub(super) const fn unsynchronised(&self, register: Register) -> Option<usize> {
        self.unsynchronised[register as usize]
    }

    /// Returns the event that reset the CPU, if its TLB may hold anything of a space since.
    pub(super) fn unknown_since(&self, space: Space) -> Option<usize> {
        let reset = self.reset.as_ref()?;
        (!reset.emptied.iter().any(|target| target.has(space))).then_some(reset.at)
    }

    /// Notes that the TLB may hold a former value of a register.
    pub(super) fn note_former(&mut self, register: Register, halves: u8, now: usize) {
        if halves != 0 {
            self.former.push(Former { register, halves, since: now, until: None });
        }
    }

    /// A context synchronisation event.
    pub(super) fn synchronise(&mut self, now: usize) {
        self.unsynchronised = [None; Register::ALL.len()];
        self.former.iter_mut().for_each(|f| f.until = f.until.or(Some(now)));
    }

    /// All entries that the TLB had at an event are dropped.
    pub(super) fn tlb_was_emptied(&mut self, at: usize) {
        self.former.retain(|f| f.until.is_none_or(|until| at < until));
    }
}
