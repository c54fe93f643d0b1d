//! The real CPU: barriers, invalidation and ID registers. All assembly of the library is here.
//!
//! All functions are for EL1.

use core::arch::asm;

#[macro_use]
mod lines;
mod caches;
mod counting;
mod cpus;
#[cfg(not(miri))]
mod pairs;
#[cfg(not(target_feature = "neon"))]
mod series;
mod start;
mod uses;

pub use counting::Counting;
pub use cpus::{Cpus, Held};
#[cfg(not(miri))]
pub(crate) use pairs::{load_pair, store_pair};
#[cfg(not(target_feature = "neon"))]
pub(crate) use series::write_series;
pub use start::{Start, start};
pub use uses::Uses;

use crate::format::{Geometry, Instruction, Tlbi, Va};
use crate::platform::cache::CacheType;
use crate::platform::features::Features;
use crate::platform::hardware::Dsb;

/// This CPU. Its methods are only the instructions that they name and access no memory, so they can be used with the
/// MMU off. Those of [`Counting`] cannot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Cpu {
    /// Returns the features in the ID registers of the CPU that runs this.
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
            mmfr1: read!("id_aa64mmfr1_el1"),
            mmfr2: read!("id_aa64mmfr2_el1"),
            // ID_AA64MMFR3_EL1, 0 on CPUs that are older than it.
            mmfr3: read!("s3_0_c0_c7_3"),
            pfr1: read!("id_aa64pfr1_el1"),
            dfr0: read!("id_aa64dfr0_el1"),
            ctr: read!("ctr_el0"),
        }
    }
}

/// The primitives of [`Hardware`](crate::Hardware), from which a platform is made. None is `nomem`, so the compiler
/// moves no access to table memory across them.
impl Cpu {
    /// Executes a data synchronisation barrier.
    #[inline]
    pub fn dsb(self, kind: Dsb) {
        // SAFETY: a barrier changes nothing but order.
        unsafe {
            match kind {
                Dsb::Ishst => asm!("dsb ishst", options(nostack, preserves_flags)),
                Dsb::Ish => asm!("dsb ish", options(nostack, preserves_flags)),
            }
        }
    }

    /// Executes a context synchronisation event.
    #[inline]
    pub fn isb(self) {
        // SAFETY: a context synchronisation event changes nothing but order.
        unsafe { asm!("isb", options(nostack, preserves_flags)) }
    }

    /// Issues a TLB invalidation.
    #[inline]
    pub fn tlbi(self, op: Tlbi, geometry: Geometry) {
        macro_rules! issue {
            ($instruction:literal, $operand:ident) => {
                asm!(concat!($instruction, ", {}"), in(reg) $operand, options(nostack, preserves_flags))
            };
        }
        let (instruction, operand) = op.encode(geometry);
        // SAFETY: dropping TLB entries is always allowed; they are fetched again from the tables.
        unsafe {
            match instruction {
                Instruction::Vmalle1is => asm!("tlbi vmalle1is", options(nostack, preserves_flags)),
                Instruction::Vaae1is => issue!("tlbi vaae1is", operand),
                Instruction::Vaale1is => issue!("tlbi vaale1is", operand),
                // The mnemonics need a target feature. These are their encodings (C5.5.30, C5.5.33).
                Instruction::Rvaae1is => issue!("sys #0, c8, c2, #3", operand),
                Instruction::Rvaale1is => issue!("sys #0, c8, c2, #7", operand),
                Instruction::Vale1is => issue!("tlbi vale1is", operand),
            }
        }
    }

    /// Makes `bytes` bytes from `va` on, which were written as data, visible to instruction fetch: the sequence of Arm
    /// ARM B2.7.4.2, without the parts that `cache` makes unnecessary. The addresses must be readable. Returns the
    /// barriers that were used.
    ///
    /// `cache` is that of the weakest CPU that will execute the code ([`CacheType::weakest`]).
    pub fn sync_code(self, cache: CacheType, va: Va, bytes: u64) -> Uses {
        // SAFETY: cleaning a line of readable memory does not change its contents.
        unsafe { each_line!("dc cvau", cache.data_line(), va, bytes) };
        self.dsb(Dsb::Ish);
        let mut uses = Uses { tlbi: 0, dsb: 1, isb: 1 };
        if cache.code_line().is_some() {
            // SAFETY: dropping a line of an instruction cache is always allowed.
            unsafe { each_line!("ic ivau", cache.code_line(), va, bytes) };
            self.dsb(Dsb::Ish);
            uses.dsb += 1;
        }
        self.isb();
        uses
    }
}

/// `Cpu` has no fields, so its methods access no memory.
const _: () = assert!(size_of::<Cpu>() == 0);
