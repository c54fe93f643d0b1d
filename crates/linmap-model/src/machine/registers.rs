//! The registers of one CPU: what it wrote, what of that has not been synchronised, and the former values that its TLB
//! may hold. The fields of TCR and SCTLR as data.

use linmap::{Geometry, Granule, OaFormat};

use crate::Register;
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

/// Fields of SCTLR_EL1 (D24.2.175).
pub(super) mod sctlr {
    /// Stage 1 translation is on.
    pub(in super::super) const M: u64 = 1;
    /// Data accesses and walks may be cached.
    pub(in super::super) const C: u64 = 1 << 2;
    /// Memory that can be written cannot be executed.
    pub(in super::super) const WXN: u64 = 1 << 19;
    /// Tables are big-endian.
    pub(in super::super) const EE: u64 = 1 << 25;
    /// The bits that a TLB may hold: EPAN, CMOW, LSMAOE, nTLSMD, EE and WXN.
    pub(in super::super) const CACHED: u64 = 1 << 57 | 1 << 32 | 1 << 29 | 1 << 28 | EE | WXN;
}

/// Fields of TCR_EL1 (D24.2.194).
pub(super) mod tcr {
    use super::{Geometry, Granule, OaFormat};

    /// EPD0 and EPD1: no walks.
    pub(in super::super) const EPD: [u64; 2] = [1 << 7, 1 << 23];
    /// The ASID is that of TTBR1.
    pub(in super::super) const A1: u64 = 1 << 22;
    /// ASIDs have 16 bits.
    pub(in super::super) const AS: u64 = 1 << 36;
    /// IPS, AS, HA, HD and DS, which are of both halves.
    const COMMON: u64 = 7 << 32 | 1 << 36 | 3 << 39 | 1 << 59;
    /// All that a TLB may hold of each half: everything but A1, and EPDn only where it is 0.
    const HALVES: [u64; 2] = [
        COMMON | 0xffbf | 1 << 37 | 1 << 41 | 0xf << 43 | 1 << 51 | 1 << 53 | 1 << 55 | 1 << 57 | 1 << 60,
        COMMON
            | 0xffbf << 16
            | 1 << 38
            | 1 << 42
            | 0xf << 47
            | 1 << 52
            | 1 << 54
            | 1 << 56
            | 1 << 58
            | 1 << 61,
    ];

    /// Returns the halves for which a TLB may hold what differs between two values, as bits.
    pub(in super::super) const fn halves_that_differ(old: u64, new: u64) -> u8 {
        // A one in EPDn is held by no TLB.
        let held = !(old & (EPD[0] | EPD[1]));
        let differ = (old ^ new) & held;
        (differ & HALVES[0] != 0) as u8 | ((differ & HALVES[1] != 0) as u8) << 1
    }

    /// Returns SH, ORGN and IRGN of a half: the attributes of its walks.
    pub(in super::super) const fn walks(value: u64, half: usize) -> u64 {
        value >> (8 + 16 * half) & 0x3f
    }

    /// Returns the number of bits of the largest physical address.
    pub(in super::super) const fn pa_bits(value: u64) -> u32 {
        match value >> 32 & 7 {
            0 => 32,
            1 => 36,
            2 => 40,
            3 => 42,
            4 => 44,
            5 => 48,
            _ => 52,
        }
    }

    /// Returns the first field that says something else of a half than the geometry of its tables.
    pub(in super::super) fn contradicts(value: u64, half: usize, g: Geometry) -> Option<String> {
        let field = |low: usize, bits: u32| value >> (low + 16 * half) & ((1 << bits) - 1);
        let size = 64 - u64::from(g.va_bits());
        let granule = match g.granule() {
            Granule::K4 => [0, 2],
            Granule::K16 => [2, 1],
            Granule::K64 => [1, 3],
        };
        let ds = u64::from(g.oa_format() == OaFormat::Lpa2);
        let fields = [
            (format!("T{half}SZ"), field(0, 6), size),
            (format!("TG{half}"), field(14, 2), granule[half]),
            ("DS".to_owned(), value >> 59u32 & 1, ds),
        ];
        let (name, is, wanted) = fields.into_iter().find(|f| f.1 != f.2)?;
        Some(format!("{name} is {is:#x}, and the tables need {wanted:#x}"))
    }
}
