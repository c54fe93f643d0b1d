//! Register values that send a software-generated interrupt.

/// Returns the affinity of a CPU as GICR_TYPER has it: Aff3 to Aff0 in 32 bits.
pub const fn affinity(mpidr: u64) -> u32 {
    (mpidr >> 32 << 24) as u32 | (mpidr & 0xff_ffff) as u32
}

/// Returns ICC_SGI1R_EL1 for one CPU: the interrupt, the affinity, and in the target list the bit of the CPU among the
/// 16 that the range selector names.
pub const fn sgi1r(mpidr: u64, intid: u32) -> u64 {
    let [aff0, aff1, aff2, _] = affinity(mpidr).to_le_bytes();
    let (aff0, aff1, aff2, aff3) = (aff0 as u64, aff1 as u64, aff2 as u64, mpidr >> 32u32 & 0xff);
    let (range, target) = (aff0 >> 4u32, 1 << (aff0 & 15));
    aff3 << 48 | range << 44 | aff2 << 32 | (intid as u64 & 15) << 24 | aff1 << 16 | target
}

/// Joins two values into one, if their targets differ in the list only.
pub const fn joined(one: u64, other: u64) -> Option<u64> {
    if one >> 16 == other >> 16 { Some(one | other) } else { None }
}

/// Returns GICD_SGIR for the CPU interfaces in a mask.
pub const fn sgir(targets: u8, intid: u32) -> u32 {
    (targets as u32) << 16 | intid & 15
}

/// Returns GICD_SGIR for the CPU that writes it.
pub const fn sgir_self(intid: u32) -> u32 {
    0b10 << 24 | intid & 15
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit 31 is RES1, bit 30 U, bit 24 MT.
    const MPIDR: u64 = 0x12_8134_5600;

    #[test]
    fn affinities_lose_what_is_between_them() {
        assert_eq!(affinity(MPIDR | 0x78), 0x1234_5678);
        assert_eq!(affinity(0x8000_0000), 0);
    }

    #[test]
    fn one_cpu_by_its_affinity() {
        assert_eq!(sgi1r(0x8000_0000, 0), 1);
        assert_eq!(sgi1r(0x8000_0003, 1), 1 << 24 | 1 << 3);
        assert_eq!(sgi1r(0x8000_0103, 15), 15 << 24 | 1 << 16 | 1 << 3);
        assert_eq!(sgi1r(MPIDR | 5, 1), 0x12 << 48 | 0x34 << 32 | 1 << 24 | 0x56 << 16 | 1 << 5);
    }

    #[test]
    fn the_range_selector_has_what_the_list_has_not() {
        assert_eq!(sgi1r(16, 0), 1 << 44 | 1);
        assert_eq!(sgi1r(0xff, 0), 15 << 44 | 1 << 15);
    }

    #[test]
    fn neighbours_share_a_value() {
        let all = (0..4).map(|cpu| sgi1r(0x8000_0100 | cpu, 1)).reduce(|a, b| joined(a, b).unwrap());
        assert_eq!(all, Some(1 << 24 | 1 << 16 | 0b1111));
        assert_eq!(joined(sgi1r(0, 1), sgi1r(0x100, 1)), None);
        assert_eq!(joined(sgi1r(15, 1), sgi1r(16, 1)), None);
        assert_eq!(joined(sgi1r(0, 0), sgi1r(1, 1)), None);
    }

    #[test]
    fn a_mask_of_cpu_interfaces() {
        assert_eq!(sgir(0b1010, 1), 0xa_0001);
        assert_eq!(sgir_self(3), 0x200_0003);
    }
}
