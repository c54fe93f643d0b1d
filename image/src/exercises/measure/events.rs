//! Counts of the PMU: cycles, and the events of TLBs that the CPU has.
//!
//! The first event counter is that of `pmu`; these are the next ones. A CPU without a PMU, without an event or without a
//! counter for it counts less (Arm ARM D14.2 has the events, D24.5.4 and D24.5.5 the registers that name those of a CPU).

use core::arch::asm;

use linmap::arm64::Cpu;

/// The events, by name and number.
const EVENTS: [(&str, u64); 4] =
    [("l1d_tlb_refill", 0x05), ("l2d_tlb_refill", 0x2d), ("dtlb_walk", 0x34), ("stall_backend", 0x24)];

/// The number of values that are read: cycles and the events.
pub(super) const VALUES: usize = 1 + EVENTS.len();

/// One value for cycles and each event; none for those that are not counted.
pub(super) type Values = [Option<u64>; VALUES];

/// The bit of the cycle counter in PMCNTENSET_EL0 and PMCNTENCLR_EL0.
const CYCLES: u64 = 1 << 31;
/// Bits of PMCR_EL0: all counters count; the cycle counter counts each 64th cycle; it has 64 bits.
const ENABLE: u64 = 1;
const DIVIDE: u64 = 1 << 3;
const LONG: u64 = 1 << 6;

/// Reads a system register by its name.
macro_rules! read {
    ($register:literal) => {{
        let value: u64;
        // SAFETY: reading a register of the PMU has no side effect. Not `nomem`, so that the work stays inside.
        unsafe { asm!(concat!("mrs {}, ", $register), out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}

/// Writes a system register by its name.
macro_rules! write {
    ($register:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: the counters are used here and in `pmu`, which has the first; they change nothing else.
        unsafe { asm!(concat!("msr ", $register, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
    }};
}

/// The counters of the CPU that runs this.
#[derive(Clone, Copy)]
pub(super) struct Events {
    /// There is a PMU.
    present: bool,
    /// The events that are counted.
    counted: [bool; EVENTS.len()],
}

impl Events {
    /// Returns those that this CPU has.
    pub(super) fn of_this_cpu() -> Self {
        if !Cpu::features().has_counters() {
            return Self { present: false, counted: [false; EVENTS.len()] };
        }
        let counters = read!("pmcr_el0") >> 11u32 & 0x1f;
        let common = (read!("pmceid0_el0") & 0xffff_ffff) | read!("pmceid1_el0") << 32u32;
        let mut counted = [false; EVENTS.len()];
        for (n, (_, number)) in EVENTS.into_iter().enumerate() {
            counted[n] = n as u64 + 1 < counters && common >> number & 1 != 0;
        }
        Self { present: true, counted }
    }

    /// Iterates over the names of what is counted.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let counted = move |(n, (name, _)): (usize, (&'static str, u64))| self.counted[n].then_some(name);
        self.present.then_some("cycles").into_iter().chain(EVENTS.into_iter().enumerate().filter_map(counted))
    }

    /// Starts them.
    pub(super) fn start(self) {
        if !self.present {
            return;
        }
        let event = |n: usize| EVENTS[n].1;
        if self.counted[0] {
            write!("pmevtyper1_el0", event(0));
        }
        if self.counted[1] {
            write!("pmevtyper2_el0", event(1));
        }
        if self.counted[2] {
            write!("pmevtyper3_el0", event(2));
        }
        if self.counted[3] {
            write!("pmevtyper4_el0", event(3));
        }
        write!("pmccfiltr_el0", 0);
        write!("pmcr_el0", read!("pmcr_el0") & !DIVIDE | ENABLE | LONG);
        write!("pmcntenset_el0", self.mask());
        aarch64_cpu::asm::barrier::isb(aarch64_cpu::asm::barrier::SY);
    }

    /// Stops them.
    pub(super) fn stop(self) {
        if self.present {
            write!("pmcntenclr_el0", self.mask());
        }
    }

    /// Returns what each has counted so far. Event counters may have 32 bits, so that only the lower ones are taken.
    #[inline(always)]
    pub(super) fn read(self) -> Values {
        if !self.present {
            return [None; VALUES];
        }
        aarch64_cpu::asm::barrier::isb(aarch64_cpu::asm::barrier::SY);
        [
            Some(read!("pmccntr_el0")),
            self.counted[0].then(|| read!("pmevcntr1_el0")),
            self.counted[1].then(|| read!("pmevcntr2_el0")),
            self.counted[2].then(|| read!("pmevcntr3_el0")),
            self.counted[3].then(|| read!("pmevcntr4_el0")),
        ]
    }

    fn mask(self) -> u64 {
        let bits = self.counted.iter().enumerate().filter(|(_, counted)| **counted).map(|(n, _)| 2 << n);
        bits.fold(CYCLES, |mask, bit| mask | bit)
    }
}

/// Returns the names of all values.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    core::iter::once("cycles").chain(EVENTS.iter().map(|event| event.0))
}

/// Returns what was counted between two readings.
pub(super) fn between(before: &Values, after: &Values) -> Values {
    core::array::from_fn(|n| {
        let (before, after) = before[n].zip(after[n])?;
        let count = after.wrapping_sub(before);
        // Up to 2^32 are exact in either width.
        Some(if n == 0 { count } else { count & 0xffff_ffff })
    })
}
