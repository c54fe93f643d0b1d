//! The real CPU: barriers, invalidation and ID registers. The only assembly of the library.
//!
//! Everything here is for EL1.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Dsb, Features, Geometry, Instruction, Tlbi, Va};

/// This CPU, with a count of every primitive that was used.
#[derive(Debug, Default)]
pub struct Cpu {
    tlbi: AtomicU64,
    dsb: AtomicU64,
    isb: AtomicU64,
}

/// How often each primitive was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Uses {
    /// TLB invalidations issued.
    pub tlbi: u64,
    /// Data synchronisation barriers.
    pub dsb: u64,
    /// Instruction synchronisation barriers.
    pub isb: u64,
}

impl Cpu {
    /// A CPU of which nothing has been used yet.
    pub const fn new() -> Self {
        Self { tlbi: AtomicU64::new(0), dsb: AtomicU64::new(0), isb: AtomicU64::new(0) }
    }

    /// What has been used so far.
    pub fn uses(&self) -> Uses {
        let Self { tlbi, dsb, isb } = self;
        Uses { tlbi: tlbi.load(Relaxed), dsb: dsb.load(Relaxed), isb: isb.load(Relaxed) }
    }

    /// Counts primitives that were used otherwise: by assembly, or by other CPUs that do not count themselves.
    pub fn note(&self, uses: Uses) {
        self.tlbi.fetch_add(uses.tlbi, Relaxed);
        self.dsb.fetch_add(uses.dsb, Relaxed);
        self.isb.fetch_add(uses.isb, Relaxed);
    }

    /// What the ID registers of the CPU that runs this say.
    pub fn features() -> Features {
        macro_rules! read {
            ($register:literal) => {{
                let value: u64;
                // SAFETY: reading an ID register at EL1 has no side effect.
                unsafe { asm!(concat!("mrs {}, ", $register), out(reg) value, options(nomem, nostack)) }
                value
            }};
        }
        Features {
            midr: read!("midr_el1"),
            isar0: read!("id_aa64isar0_el1"),
            mmfr0: read!("id_aa64mmfr0_el1"),
            mmfr2: read!("id_aa64mmfr2_el1"),
            pfr1: read!("id_aa64pfr1_el1"),
            dfr0: read!("id_aa64dfr0_el1"),
        }
    }
}

/// The primitives of [`Hardware`](crate::Hardware), for a platform to build on. None of them is `nomem`, so
/// the compiler keeps accesses to table memory on their side of it.
impl Cpu {
    /// A data synchronisation barrier.
    #[inline]
    pub fn dsb(&self, kind: Dsb) {
        self.dsb.fetch_add(1, Relaxed);
        // SAFETY: a barrier changes nothing but order.
        unsafe {
            match kind {
                Dsb::Ishst => asm!("dsb ishst", options(nostack, preserves_flags)),
                Dsb::Ish => asm!("dsb ish", options(nostack, preserves_flags)),
            }
        }
    }

    /// A context synchronisation event.
    #[inline]
    pub fn isb(&self) {
        self.isb.fetch_add(1, Relaxed);
        // SAFETY: a context synchronisation event changes nothing but order.
        unsafe { asm!("isb", options(nostack, preserves_flags)) }
    }

    /// A TLB invalidation.
    #[inline]
    pub fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        macro_rules! issue {
            ($instruction:literal, $operand:ident) => {
                asm!(concat!($instruction, ", {}"), in(reg) $operand, options(nostack, preserves_flags))
            };
        }
        self.tlbi.fetch_add(1, Relaxed);
        let (instruction, operand) = op.encode(geometry);
        // SAFETY: dropping TLB entries is always allowed; they are fetched again from the tables.
        unsafe {
            match instruction {
                Instruction::Vmalle1is => asm!("tlbi vmalle1is", options(nostack, preserves_flags)),
                Instruction::Vaae1is => issue!("tlbi vaae1is", operand),
                Instruction::Vaale1is => issue!("tlbi vaale1is", operand),
                // The names need a target feature; these are their encodings (C5.5.30, C5.5.33).
                Instruction::Rvaae1is => issue!("sys #0, c8, c2, #3", operand),
                Instruction::Rvaale1is => issue!("sys #0, c8, c2, #7", operand),
                Instruction::Vale1is => issue!("tlbi vale1is", operand),
            }
        }
    }

    /// Makes what was written to `bytes` bytes from `va` on visible to instruction fetch: the sequence of Arm ARM
    /// B2.7.4.2, with what CTR_EL0 says is not needed left out. The addresses can be read.
    pub fn sync_code(&self, va: Va, bytes: u64) {
        let cache: u64;
        // SAFETY: reading an ID register at EL1 has no side effect.
        unsafe { asm!("mrs {}, ctr_el0", out(reg) cache, options(nomem, nostack, preserves_flags)) };
        // The smallest lines, as powers of two of words; IDC and DIC.
        let (data_line, code_line) = (4u64 << (cache >> 16 & 0xf), 4u64 << (cache & 0xf));
        let (data_coherent, code_coherent) = (cache & 1 << 28 != 0, cache & 1 << 29 != 0);
        let lines = |line: u64| {
            let first = va.0 & !(line - 1);
            let count = (va.0 - first + bytes).div_ceil(line);
            (0..count).map(move |n| first + n * line)
        };
        if !data_coherent {
            for line in lines(data_line) {
                // SAFETY: cleaning a line of memory that can be read changes nothing that is in it.
                unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
            }
        }
        self.dsb(Dsb::Ish);
        if !code_coherent {
            for line in lines(code_line) {
                // SAFETY: dropping a line of an instruction cache is always allowed.
                unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
            }
            self.dsb(Dsb::Ish);
        }
        self.isb();
    }
}
