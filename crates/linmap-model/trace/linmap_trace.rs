//! The steps of a kernel in its page tables, as lines that `linmap-model replay --observed` judges: the same as `linmap_trace.h`, for a
//! kernel in Rust. One file, to be included by `#[path]` or copied; no allocation, no `std`.
//!
//! Call [`Trace::machine`] once, then each function where its instruction is: at every store into a table, barrier, TLBI, and write of a
//! register that says how a CPU translates. Lines of two CPUs must not mix, and come in the order of what they tell.

#![allow(unreachable_pub, dead_code)] // included as a module of its user, who may need only some of it

use core::fmt::{Result, Write};

/// Where lines go: of one CPU.
pub struct Trace<'a, W> {
    /// The writer.
    pub out: &'a mut W,
    /// The number of the CPU.
    pub cpu: u32,
}

/// Returns the place in the code where it is called; 0 on a host.
#[inline(always)]
pub fn here() -> u64 {
    #[cfg(target_arch = "aarch64")]
    {
        let pc: u64;
        // SAFETY: it reads no memory and changes nothing but its own register.
        unsafe { core::arch::asm!("adr {}, .", out(reg) pc, options(nomem, nostack, preserves_flags)) };
        pc
    }
    #[cfg(not(target_arch = "aarch64"))]
    0
}

impl<W: Write> Trace<'_, W> {
    /// Describes the machine: its page size (`4k`, `16k` or `64k`), the bits of virtual addresses, and the number of CPUs. Each CPU
    /// counts as one that may abort when a live leaf changes size. Once a CPU writes TCR_EL1, that says page size and bits instead.
    ///
    /// # Errors
    ///
    /// Those of the writer, as of all others here.
    pub fn machine(&mut self, granule: &str, va_bits: u32, cpus: u32) -> Result {
        write!(self.out, r#"{{"event":"machine","granule":"{granule}","va_bits":{va_bits},"format":"48","#)?;
        write!(self.out, r#""tables_at":"0x0","tables":0,"cpus":["#)?;
        for cpu in 0..cpus {
            let comma = if cpu == 0 { "" } else { "," };
            write!(self.out, r#"{comma}{{"ttl":true,"range_tlbi":true,"outer_tlbi":true,"xs":true}}"#)?;
        }
        writeln!(self.out, "]}}")
    }

    /// A descriptor is stored at a physical address.
    #[inline(always)]
    pub fn store(&mut self, slot: u64, value: u64) -> Result {
        let (table, index) = (slot & !0xfff, (slot & 0xfff) / 8);
        self.line(
            here(),
            "write",
            format_args!(r#","table":"{table:#x}","index":{index},"value":"{value:#x}""#),
        )
    }

    /// The next store is a store-release, or a DMB is here.
    #[inline(always)]
    pub fn release(&mut self) -> Result {
        self.line(here(), "release", format_args!(""))
    }

    /// DSB, by its kind: `ish`, `ishst`, `nsh`, `sy` and so on.
    #[inline(always)]
    pub fn dsb(&mut self, kind: &str) -> Result {
        self.line(here(), "dsb", format_args!(r#","kind":"{kind}""#))
    }

    /// ISB, or another context synchronisation event.
    #[inline(always)]
    pub fn isb(&mut self) -> Result {
        self.line(here(), "isb", format_args!(""))
    }

    /// TLBI, by its mnemonic, as `vaae1is`, and the register that it takes, or 0.
    #[inline(always)]
    pub fn tlbi(&mut self, op: &str, operand: u64) -> Result {
        self.line(here(), "tlbi", format_args!(r#","op":"{op}","operand":"{operand:#x}""#))
    }

    /// MSR of `ttbr0_el1`, `ttbr1_el1`, `tcr_el1`, `mair_el1` or `sctlr_el1`.
    #[inline(always)]
    pub fn msr(&mut self, register: &str, value: u64) -> Result {
        self.line(here(), "msr", format_args!(r#","register":"{register}","value":"{value:#x}""#))
    }

    /// The first use of an address that this CPU has mapped.
    #[inline(always)]
    pub fn access(&mut self, va: u64) -> Result {
        self.line(here(), "access", format_args!(r#","va":"{va:#x}","how":"read""#))
    }

    /// The CPU returns to a lower exception level, or idles: it has ended what it did in its tables.
    #[inline(always)]
    pub fn leave(&mut self) -> Result {
        self.line(here(), "leave", format_args!(""))
    }

    fn line(&mut self, pc: u64, event: &str, rest: core::fmt::Arguments<'_>) -> Result {
        let cpu = self.cpu;
        writeln!(self.out, r#"{{"event":"{event}","cpu":{cpu}{rest},"pc":"{pc:#x}"}}"#)
    }
}
