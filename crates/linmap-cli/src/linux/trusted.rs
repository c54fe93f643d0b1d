//! The first release of Linux that changes the size of live leaves on a CPU.
//!
//! From 6.18 on it has a list of parts and revisions, which is the library's ([`Midr::in_linux_since`]), and ignores ID registers.
//! From 7.3 on BBM level 3 counts, too (`cpu_supports_bbml2_noabort` and `cpu_supports_bbml3` in
//! `arch/arm64/kernel/cpufeature.c`).

use linmap::cpu::{BbmPromise, Midr};

use super::release::Version;

/// The first release that believes BBM level 3.
const LEVEL_3: Version = Version(7, 3);

/// Returns the first release that splits live leaves on this CPU.
pub(crate) fn from(midr: Midr, mmfr2: u64) -> Option<Version> {
    let listed = midr.in_linux_since().map(|(major, minor)| Version(major.into(), minor.into()));
    listed.or_else(|| BbmPromise::of(midr, mmfr2).never_aborts().then_some(LEVEL_3))
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
    }
}
