//! The promises of a CPU, and the common promises of several. Pure.

use crate::platform::{Features, Promise};

impl Promise {
    /// Returns the promises of a single CPU with these features.
    pub fn of(cpu: &Features) -> Self {
        Self {
            never_aborts: cpu.bbm_promise().never_aborts(),
            range_tlbi: cpu.has_range_tlbi(),
            repeat_tlbi: cpu.needs_repeated_tlbi(),
        }
    }

    /// Returns the promises that both of two CPUs, or groups of CPUs, keep.
    #[must_use]
    pub const fn weakest(self, other: Self) -> Self {
        Self {
            never_aborts: self.never_aborts && other.never_aborts,
            range_tlbi: self.range_tlbi && other.range_tlbi,
            repeat_tlbi: self.repeat_tlbi || other.repeat_tlbi,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMPERE_ONE: u64 = 0xc00f_ac30;
    const CORTEX_A55: u64 = 0x411f_d050;

    #[test]
    fn cpus_promise_what_their_registers_say() {
        let of = |midr, tlb: u64| Promise::of(&Features { midr, isar0: tlb << 56, ..Features::default() });
        let plain = Promise { never_aborts: false, range_tlbi: false, repeat_tlbi: false };
        assert_eq!(of(0, 0), plain);
        assert_eq!(of(0, 2), Promise { range_tlbi: true, ..plain });
        assert!(of(AMPERE_ONE, 0).never_aborts);
        assert!(of(CORTEX_A55, 0).repeat_tlbi);
    }

    #[test]
    fn together_they_promise_what_each_does() {
        let both = [false, true];
        let all = both.into_iter().flat_map(|a| both.into_iter().flat_map(move |b| both.map(|c| (a, b, c))));
        let all = all.map(|(never_aborts, range_tlbi, repeat_tlbi)| Promise {
            never_aborts,
            range_tlbi,
            repeat_tlbi,
        });
        for (a, b) in all.clone().flat_map(|a| all.clone().map(move |b| (a, b))) {
            let together = a.weakest(b);
            assert_eq!(together, b.weakest(a));
            assert!(!together.never_aborts || a.never_aborts && b.never_aborts);
            assert!(!together.range_tlbi || a.range_tlbi && b.range_tlbi);
            assert!(together.repeat_tlbi || !a.repeat_tlbi && !b.repeat_tlbi);
            assert_eq!(together.weakest(a), together);
        }
    }
}
