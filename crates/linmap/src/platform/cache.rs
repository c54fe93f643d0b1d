//! The maintenance that makes new code visible to instruction fetch, on CPUs that differ. Pure: the caller provides the
//! register values.

use crate::format::Va;

/// CTR_EL0: the caches between stores and instruction fetch, of one CPU or of several (Arm ARM B2.7.4.2).
///
/// Maintenance by address reaches all CPUs that share the memory, but each CPU has its own requirements. A CPU whose
/// caches need no maintenance may not leave it out if another CPU needs it. So code is synchronised for the weakest
/// CPU.
///
/// ```
/// use linmap::cpu::CacheType;
///
/// // Both have lines of 64 bytes; the second needs no maintenance.
/// let (little, big) = (CacheType::of(0x8444_c004), CacheType::of(0xb444_c004));
/// assert_eq!((big.data_line(), big.code_line()), (None, None));
/// assert_eq!(big.weakest(little).code_line(), Some(64));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheType(u64);

/// The positions of log2 of the words in the smallest line of all instruction caches, and of all data caches.
const CODE_LINE: u32 = 0;
const DATA_LINE: u32 = 16;
const LINE: u64 = 0xf;
/// IDC: instruction fetch sees stores without DC CVAU.
const DATA_COHERENT: u64 = 1 << 28;
/// DIC: instruction caches see stores without IC IVAU.
const CODE_COHERENT: u64 = 1 << 29;

impl CacheType {
    /// Returns the cache type that a CPU's CTR_EL0 describes.
    pub const fn of(ctr_el0: u64) -> Self {
        Self(ctr_el0 & (LINE << CODE_LINE | LINE << DATA_LINE | DATA_COHERENT | CODE_COHERENT))
    }

    /// Returns the fields in their positions of CTR_EL0.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the type that is sufficient for both CPUs: the smaller lines, and all maintenance that either of them
    /// needs.
    #[must_use]
    pub const fn weakest(self, other: Self) -> Self {
        let coherent = self.0 & other.0 & (DATA_COHERENT | CODE_COHERENT);
        Self(coherent | self.smaller(other, CODE_LINE) | self.smaller(other, DATA_LINE))
    }

    const fn smaller(self, other: Self, field: u32) -> u64 {
        let (one, two) = (self.0 & LINE << field, other.0 & LINE << field);
        if one < two { one } else { two }
    }

    /// Returns the bytes of a line for DC CVAU, or `None` if it is not needed.
    pub const fn data_line(self) -> Option<u64> {
        if self.0 & DATA_COHERENT != 0 { None } else { Some(4 << (self.0 >> DATA_LINE & LINE)) }
    }

    /// Returns the bytes of a line for IC IVAU, or `None` if it is not needed.
    pub const fn code_line(self) -> Option<u64> {
        if self.0 & CODE_COHERENT != 0 { None } else { Some(4 << (self.0 >> CODE_LINE & LINE)) }
    }

    /// Returns the addresses of the lines that contain `bytes` bytes from `va` on; none if `line` is `None`.
    pub fn lines(line: Option<u64>, va: Va, bytes: u64) -> impl Iterator<Item = Va> {
        let (first, count) = Self::first_and_count(line, va, bytes);
        (0..count).map(move |n| Va(first.0.wrapping_add(n.wrapping_mul(line.unwrap_or(0)))))
    }

    /// Returns the first of these lines, and their number.
    pub(crate) fn first_and_count(line: Option<u64>, va: Va, bytes: u64) -> (Va, u64) {
        let line = line.unwrap_or(0);
        let within = va.0 & line.wrapping_sub(1);
        let count = if line == 0 { 0 } else { bytes.saturating_add(within).div_ceil(line) };
        (Va(va.0 - within), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;
    extern crate std;
    use std::vec::Vec;

    /// Cortex-A53; Neoverse-N1 without the workaround that hides DIC; a CPU with lines of 32 and 128 bytes.
    const A53: u64 = 0x8444_8004;
    const N1: u64 = 0xb444_c004;
    const ODD: u64 = 0x8445_c003;

    #[test]
    fn what_one_cpu_needs() {
        let needs = |ctr| (CacheType::of(ctr).data_line(), CacheType::of(ctr).code_line());
        assert_eq!(needs(A53), (Some(64), Some(64)));
        assert_eq!(needs(N1), (None, None));
        assert_eq!(needs(ODD), (Some(128), Some(32)));
        assert_eq!(needs(A53 | DATA_COHERENT), (None, Some(64)));
    }

    #[test]
    fn mixed_cpus_need_what_the_weakest_needs() {
        let mixed = |a, b| {
            let weakest = CacheType::of(a).weakest(CacheType::of(b));
            (weakest.data_line(), weakest.code_line())
        };
        assert_eq!(mixed(N1, A53), (Some(64), Some(64)));
        assert_eq!(mixed(A53, ODD), (Some(64), Some(32)));
        // Each CPU needs one of the two.
        assert_eq!(mixed(A53 | DATA_COHERENT, A53 | CODE_COHERENT), (Some(64), Some(64)));
        assert_eq!(mixed(N1, A53 | DATA_COHERENT), (None, Some(64)));
    }

    proptest! {
        /// The order of the CPUs does not matter: all maintenance that one of them needs is kept, and no line is
        /// skipped.
        #[test]
        fn any_cpus(a: u64, b: u64, c: u64) {
            let [a, b, c] = [a, b, c].map(CacheType::of);
            let all = a.weakest(b).weakest(c);
            prop_assert_eq!(all, c.weakest(b.weakest(a)));
            prop_assert_eq!(all.weakest(b), all);
            prop_assert_eq!(CacheType::of(all.bits()), all);
            for one in [a, b, c] {
                prop_assert!(one.data_line().is_none_or(|line| all.data_line().is_some_and(|l| l <= line)));
                prop_assert!(one.code_line().is_none_or(|line| all.code_line().is_some_and(|l| l <= line)));
            }
        }

        #[test]
        fn lines_cover_the_bytes_and_no_more(va: u64, bytes in 0u64..4096, shift in 2u32..18) {
            let line = 1 << shift;
            let lines: Vec<u64> = CacheType::lines(Some(line), Va(va), bytes).map(|va| va.0).collect();
            let last = va.wrapping_add(bytes.max(1) - 1);
            prop_assert!(lines.iter().all(|l| l % line == 0));
            if bytes == 0 { return Ok(()) }
            prop_assert_eq!(lines.first().copied(), Some(va & !(line - 1)));
            prop_assert_eq!(lines.last().copied(), Some(last & !(line - 1)));
            prop_assert!(lines.windows(2).all(|w| w[1] == w[0].wrapping_add(line)));
            prop_assert_eq!(CacheType::lines(None, Va(va), bytes).count(), 0);
        }
    }
}
