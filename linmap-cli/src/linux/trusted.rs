//! The first release of Linux that changes the size of live leaves on a CPU.
//!
//! Linux 6.18 brought a list of parts and revisions, which is that of [`BbmPromise::Listed`]; it ignores ID
//! registers. From 7.3 on the list is longer, and BBM level 3 counts (`cpu_supports_bbml2_noabort` and
//! `cpu_supports_bbml3` in `arch/arm64/kernel/cpufeature.c`).

use linmap::{BbmPromise, Midr};

use super::release::{SPLITS_LIVE, Version};

/// The first release with BBM level 3 and the parts in [`LATER`].
const LONGER: Version = Version(7, 3);

/// Parts of Arm (implementer 0x41) that Linux lists from [`LONGER`] on: part, name, and the first listed variant and
/// revision.
const LATER: [(u16, &str, u8); 9] = [
    (0xd88, "Cortex-A520AE", 0x00),
    (0xd4d, "Cortex-A715", 0x00),
    (0xd89, "Cortex-A720AE", 0x00),
    (0xd87, "Cortex-A725", 0x00),
    (0xd8e, "Neoverse-N3", 0x00),
    (0xd8a, "C1-Nano", 0x00),
    (0xd8b, "C1-Pro", 0x00),
    (0xd8c, "C1-Ultra", 0x11),
    (0xd90, "C1-Premium", 0x11),
];

/// Returns the first release that splits live leaves on this CPU.
pub(crate) fn from(midr: Midr, mmfr2: u64) -> Option<Version> {
    match BbmPromise::of(midr, mmfr2) {
        BbmPromise::Listed => Some(SPLITS_LIVE),
        BbmPromise::Level3 => Some(LONGER),
        _ => later(midr).filter(|(_, _, first)| revision(midr) >= *first).map(|_| LONGER),
    }
}

/// Returns the common name of a CPU.
pub(crate) fn name(midr: Midr) -> Option<&'static str> {
    midr.name().or_else(|| later(midr).map(|(_, name, _)| name))
}

fn later(midr: Midr) -> Option<(u16, &'static str, u8)> {
    let (implementer, part) = (midr.0 >> 24u32 & 0xff, midr.0 >> 4u32 & 0xfff);
    LATER.into_iter().find(|listed| implementer == 0x41 && u64::from(listed.0) == part)
}

/// Returns variant and revision.
const fn revision(midr: Midr) -> u8 {
    ((midr.0 >> 20 & 0xf) << 4 | midr.0 & 0xf) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_has_its_list() {
        let bbm = |level: u64| level << 52;
        assert_eq!(from(Midr(0xc00f_ac30), 0), Some(Version(6, 18)));
        assert_eq!(from(Midr(0x410f_d8e0), 0), Some(Version(7, 3)));
        // C1-Ultra r1p0, which has an erratum, and r1p1.
        assert_eq!(from(Midr(0x411f_d8c0), bbm(2)), None);
        assert_eq!(from(Midr(0x411f_d8c1), bbm(2)), Some(Version(7, 3)));
        assert_eq!(from(Midr(0x413f_d0c1), bbm(2)), None);
        assert_eq!(from(Midr(0x413f_d0c1), bbm(3)), Some(Version(7, 3)));
        // Another implementer's part of the same number.
        assert_eq!(from(Midr(0x4e0f_d8e0), 0), None);
        assert_eq!(name(Midr(0x411f_d8c1)), Some("C1-Ultra"));
        assert_eq!(name(Midr(0x413f_d0c1)), Some("Neoverse-N1"));
    }
}
