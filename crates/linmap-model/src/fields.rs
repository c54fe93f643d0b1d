//! The fields of registers that say how a CPU translates, as data.

/// Fields of SCTLR_EL1 (D24.2.175).
pub(crate) mod sctlr {
    /// Stage 1 translation is on.
    pub(crate) const M: u64 = 1;
    /// Data accesses and walks may be cached.
    pub(crate) const C: u64 = 1 << 2;
    /// Memory that can be written cannot be executed.
    pub(crate) const WXN: u64 = 1 << 19;
    /// Tables are big-endian.
    pub(crate) const EE: u64 = 1 << 25;
    /// The bits that a TLB may hold: EPAN, CMOW, LSMAOE, nTLSMD, EE and WXN.
    pub(crate) const CACHED: u64 = 1 << 57 | 1 << 32 | 1 << 29 | 1 << 28 | EE | WXN;
}

/// Fields of TCR_EL1 (D24.2.194).
pub(crate) mod tcr {
    use linmap::{Geometry, Granule, OaFormat};

    /// EPD0 and EPD1: no walks.
    pub(crate) const EPD: [u64; 2] = [1 << 7, 1 << 23];
    /// The ASID is that of TTBR1.
    pub(crate) const A1: u64 = 1 << 22;
    /// ASIDs have 16 bits.
    pub(crate) const AS: u64 = 1 << 36;
    /// Walkers set access flags.
    pub(crate) const HA: u64 = 1 << 39;
    /// With HA walkers manage dirty state.
    pub(crate) const HD: u64 = 1 << 40;
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
    pub(crate) const fn halves_that_differ(old: u64, new: u64) -> u8 {
        // A one in EPDn is held by no TLB.
        let held = !(old & (EPD[0] | EPD[1]));
        let differ = (old ^ new) & held;
        (differ & HALVES[0] != 0) as u8 | ((differ & HALVES[1] != 0) as u8) << 1
    }

    /// Returns SH, ORGN and IRGN of a half: the attributes of its walks.
    pub(crate) const fn walks(value: u64, half: usize) -> u64 {
        value >> (8 + 16 * half) & 0x3f
    }

    /// Returns the number of bits of the largest physical address.
    pub(crate) const fn pa_bits(value: u64) -> u32 {
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

    /// Returns the value of TGn that stands for a granule in a half.
    const fn granule(granule: Granule, half: usize) -> u64 {
        match granule {
            Granule::K4 => [0, 2][half],
            Granule::K16 => [2, 1][half],
            Granule::K64 => [1, 3][half],
        }
    }

    /// Returns the geometry of the tables of a half: TnSZ, TGn and DS, and of 64K pages IPS. `None` if there is no such geometry.
    pub(crate) fn geometry(value: u64, half: usize) -> Option<Geometry> {
        let field = |low: usize, bits: u32| value >> (low + 16 * half) & ((1 << bits) - 1);
        let all = [Granule::K4, Granule::K16, Granule::K64];
        let granule = all.into_iter().find(|&g| granule(g, half) == field(14, 2))?;
        let format = match granule {
            Granule::K64 if pa_bits(value) == 52 => OaFormat::Lpa,
            Granule::K4 | Granule::K16 if value >> 59u32 & 1 == 1 => OaFormat::Lpa2,
            _ => OaFormat::Bits48,
        };
        Geometry::new(granule, 64 - field(0, 6) as u32, format).ok()
    }

    /// Returns the first field that says something else of a half than the geometry of its tables.
    pub(crate) fn contradicts(value: u64, half: usize, g: Geometry) -> Option<String> {
        let field = |low: usize, bits: u32| value >> (low + 16 * half) & ((1 << bits) - 1);
        let size = 64 - u64::from(g.va_bits());
        let ds = u64::from(g.oa_format() == OaFormat::Lpa2);
        let fields = [
            (format!("T{half}SZ"), field(0, 6), size),
            (format!("TG{half}"), field(14, 2), granule(g.granule(), half)),
            ("DS".to_owned(), value >> 59u32 & 1, ds),
        ];
        let (name, is, wanted) = fields.into_iter().find(|f| f.1 != f.2)?;
        Some(format!("{name} is {is:#x}, and the tables need {wanted:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use linmap::Granule;

    use super::tcr::geometry;

    #[test]
    fn tcr_has_a_geometry_for_each_half() {
        // 4K pages, 48 bits above; 64K pages, 42 bits below.
        let tcr = 2 << 30u64 | 16 << 16u64 | 1 << 14u64 | 22;
        let at = |half| geometry(tcr, half).map(|g| (g.granule(), g.va_bits()));
        assert_eq!([at(0), at(1)], [Some((Granule::K64, 42)), Some((Granule::K4, 48))]);
        assert_eq!(geometry(0, 1), None);
    }
}
