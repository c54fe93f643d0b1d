//! CPU models: those that never abort when a live entry changes its size, and those that need each batch of TLBIs
//! repeated.

use core::fmt;

/// A CPU model: the ID register MIDR_EL1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Midr(pub u64);

/// A CPU that never raises a TLB conflict abort when a live entry changes its size.
struct NeverAborts {
    name: &'static str,
    implementer: u8,
    part: u16,
    /// The first and the last variant and revision known to keep the promise.
    revisions: (Revision, Revision),
    /// The first release of Linux that lists it.
    linux: (u16, u16),
}

/// Variant and revision: the r and p of "r0p2".
type Revision = (u8, u8);

const ALL: (Revision, Revision) = ((0, 0), (0xf, 0xf));

/// Returns all revisions from revision `p` of variant 0 on.
const fn from_r0(p: u8) -> (Revision, Revision) {
    ((0, p), (0, 0xf))
}

/// Returns the entry for all revisions of a part that Linux lists since 6.18.
const fn never_aborts(implementer: u8, part: u16, name: &'static str) -> NeverAborts {
    NeverAborts { name, implementer, part, revisions: ALL, linux: (6, 18) }
}

/// Returns the entry for all revisions of a part that Linux lists since 7.3.
const fn later(part: u16, name: &'static str) -> NeverAborts {
    NeverAborts { linux: (7, 3), ..never_aborts(0x41, part, name) }
}

/// The CPUs known to keep the promise. ID_AA64MMFR2_EL1.BBM = 2 alone is not sufficient (D8.17.2, IHYQMB), and these
/// CPUs keep it whatever the value of that field. They are those of Linux (`cpu_supports_bbml3`).
const NEVER_ABORT: [NeverAborts; 15] = [
    never_aborts(0xc0, 0xac3, "AmpereOne"),
    never_aborts(0xc0, 0xac4, "AmpereOne A"),
    NeverAborts { revisions: from_r0(2), ..never_aborts(0x41, 0xd84, "Neoverse-V3") },
    NeverAborts { revisions: from_r0(2), ..never_aborts(0x41, 0xd83, "Neoverse-V3AE") },
    never_aborts(0x4e, 0x010, "NVIDIA Olympus"),
    NeverAborts { revisions: from_r0(3), ..never_aborts(0x41, 0xd82, "Cortex-X4") },
    later(0xd88, "Cortex-A520AE"),
    later(0xd4d, "Cortex-A715"),
    later(0xd89, "Cortex-A720AE"),
    later(0xd87, "Cortex-A725"),
    later(0xd8e, "Neoverse-N3"),
    later(0xd8a, "C1-Nano"),
    later(0xd8b, "C1-Pro"),
    // Before r1p1 these two have erratum 3683289.
    NeverAborts { revisions: FROM_R1P1, ..later(0xd8c, "C1-Ultra") },
    NeverAborts { revisions: FROM_R1P1, ..later(0xd90, "C1-Premium") },
];

const FROM_R1P1: (Revision, Revision) = ((1, 1), (0xf, 0xf));

/// A CPU on which each batch of TLBIs must be repeated: a TLBI drops the entries, but the DSB after it does not wait
/// for all accesses that were translated by them. Another TLBI and DSB do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepeatedTlbi {
    /// The common name.
    pub name: &'static str,
    implementer: u8,
    /// The first and the last part number.
    parts: (u16, u16),
    revisions: (Revision, Revision),
    /// The manufacturer's number of the erratum, as in Linux's list of silicon errata. Linux lists none for Kryo 4xx
    /// Gold, so it has the number of Cortex-A76, from which it is derived.
    pub erratum: &'static str,
    /// True if the erratum occurs in very rare circumstances only. Linux then repeats TLBIs only if a build option is
    /// turned on, which is off by default. For the other CPUs the option is on by default.
    pub rare: bool,
}

/// Returns the entry for all revisions of a part.
const fn repeats(implementer: u8, part: u16, name: &'static str, erratum: &'static str) -> RepeatedTlbi {
    RepeatedTlbi { name, implementer, parts: (part, part), revisions: ALL, erratum, rare: false }
}

/// These CPUs, as Linux lists them (ARM64_WORKAROUND_REPEAT_TLBI). All from Cortex-A76 on have CVE-2025-10263
/// (ARM64_ERRATUM_4118414).
const REPEAT_TLBI: [RepeatedTlbi; 28] = [
    RepeatedTlbi { rare: true, ..repeats(0x41, 0xd05, "Cortex-A55", "2441007") },
    RepeatedTlbi {
        rare: true,
        revisions: ((0, 0), (1, 1)),
        ..repeats(0x41, 0xd46, "Cortex-A510", "2441009")
    },
    RepeatedTlbi { revisions: ((0, 0), (0, 0)), ..repeats(0x51, 0x800, "Falkor", "E1009") },
    RepeatedTlbi { parts: (0x200, 0x2ff), ..repeats(0x51, 0x200, "Kryo", "E1009") },
    // Its revisions rcpe to rfpe correspond to Cortex-A76 r0p0 to r3p0.
    RepeatedTlbi {
        rare: true,
        revisions: ((0xc, 0xe), (0xf, 0xe)),
        ..repeats(0x51, 0x804, "Kryo 4xx Gold", "1286807")
    },
    // Of these, r0p0 to r3p0 also have erratum 1286807.
    repeats(0x41, 0xd0b, "Cortex-A76", "4193800"),
    repeats(0x41, 0xd0c, "Neoverse-N1", "4193800"),
    repeats(0x41, 0xd0d, "Cortex-A77", "4193798"),
    repeats(0x41, 0xd0e, "Cortex-A76AE", "4193801"),
    repeats(0x41, 0xd40, "Neoverse-V1", "4193790"),
    repeats(0x41, 0xd41, "Cortex-A78", "4193791"),
    repeats(0x41, 0xd42, "Cortex-A78AE", "4193793"),
    repeats(0x41, 0xd44, "Cortex-X1", "4193791"),
    repeats(0x41, 0xd47, "Cortex-A710", "4193788"),
    repeats(0x41, 0xd48, "Cortex-X2", "4193788"),
    repeats(0x41, 0xd49, "Neoverse-N2", "4193789"),
    repeats(0x41, 0xd4b, "Cortex-A78C", "4193794"),
    repeats(0x41, 0xd4c, "Cortex-X1C", "4193792"),
    repeats(0x41, 0xd4e, "Cortex-X3", "4193786"),
    repeats(0x41, 0xd4f, "Neoverse-V2", "4193787"),
    repeats(0x41, 0xd82, "Cortex-X4", "4118414"),
    repeats(0x41, 0xd83, "Neoverse-V3AE", "4193784"),
    repeats(0x41, 0xd84, "Neoverse-V3", "4193784"),
    repeats(0x41, 0xd85, "Cortex-X925", "4193781"),
    repeats(0x41, 0xd8c, "C1-Ultra", "4193780"),
    repeats(0x41, 0xd90, "C1-Premium", "4193780"),
    repeats(0x4e, 0x010, "NVIDIA Olympus", "T410-OLY-1029"),
    repeats(0x6d, 0xd49, "Azure Cobalt 100", "4193789"),
];

impl NeverAborts {
    fn has(&self, midr: Midr) -> bool {
        (self.revisions.0..=self.revisions.1).contains(&midr.revision())
    }
}

impl RepeatedTlbi {
    fn is_part(&self, midr: Midr) -> bool {
        self.implementer == midr.implementer() && (self.parts.0..=self.parts.1).contains(&midr.part())
    }
}

/// Writes the reason, as the end of a sentence that starts with the CPU.
impl fmt::Display for RepeatedTlbi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "needs each batch of TLB invalidations repeated (erratum {})", self.erratum)
    }
}

/// Other parts whose name is useful in messages.
const OTHER_NAMES: [(u8, u16, &str); 5] = [
    (0x00, 0x051, "QEMU max"),
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x46, 0x001, "Fujitsu A64FX"),
];

impl Midr {
    /// Returns the implementer, bits 31:24.
    pub const fn implementer(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Returns variant and revision, bits 23:20 and 3:0: the r and p of "r0p2".
    pub const fn revision(self) -> (u8, u8) {
        ((self.0 >> 20) as u8 & 0xf, self.0 as u8 & 0xf)
    }

    /// Returns the part number, bits 15:4.
    pub const fn part(self) -> u16 {
        (self.0 >> 4) as u16 & 0xfff
    }

    /// Returns the common name, if the model is known.
    pub fn name(self) -> Option<&'static str> {
        let repeats = || REPEAT_TLBI.iter().find(|r| r.is_part(self)).map(|r| r.name);
        let other =
            || OTHER_NAMES.iter().find(|n| (n.0, n.1) == (self.implementer(), self.part())).map(|n| n.2);
        self.listed().map(|l| l.name).or_else(repeats).or_else(other)
    }

    /// Returns the erratum that makes the CPU need each batch of TLBIs repeated, if it has one.
    ///
    /// ```
    /// let midr = linmap::cpu::Midr(0x412f_d050);
    /// let why = midr.repeated_tlbi().expect("a Cortex-A55");
    /// assert!(why.rare && why.erratum == "2441007");
    /// ```
    pub fn repeated_tlbi(self) -> Option<&'static RepeatedTlbi> {
        let has =
            |r: &&RepeatedTlbi| r.is_part(self) && (r.revisions.0..=r.revisions.1).contains(&self.revision());
        REPEAT_TLBI.iter().find(has)
    }

    /// Returns true if the CPU needs each batch of TLBIs repeated.
    pub fn needs_repeated_tlbi(self) -> bool {
        self.repeated_tlbi().is_some()
    }

    /// Returns the first release of Linux that lists this CPU, in this revision, as one that never aborts when a live entry
    /// changes its size: major and minor number. Returns `None` if none does, whatever the CPU's ID registers promise.
    ///
    /// ```
    /// use linmap::cpu::Midr;
    ///
    /// assert_eq!(Midr(0x410f_d8e0).in_linux_since(), Some((7, 3))); // Neoverse-N3
    /// assert_eq!(Midr(0x411f_d8c0).in_linux_since(), None); // C1-Ultra r1p0
    /// ```
    pub fn in_linux_since(self) -> Option<(u16, u16)> {
        self.listed().filter(|listed| listed.has(self)).map(|listed| listed.linux)
    }

    /// Returns the entry of its part in the list, for whatever revisions.
    fn listed(self) -> Option<&'static NeverAborts> {
        NEVER_ABORT.iter().find(|l| (l.implementer, l.part) == (self.implementer(), self.part()))
    }
}

/// A CPU's promise about live changes of size, and the reason for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BbmPromise {
    /// It never aborts: its MIDR is in the list.
    Listed,
    /// It never aborts: its BBM field is above 2 (FEAT_BBML3; taken from the manual, not tested on such a CPU).
    Level3,
    /// It may abort: the part is in the list, but this revision is not known to keep the promise.
    OtherRevision,
    /// It may abort: BBM is 1 or 2, which permits TLB conflict aborts until the TLBI completes.
    MayAbort(u8),
    /// It needs break-before-make: BBM is 0.
    NeedsBreakBeforeMake,
}

impl BbmPromise {
    /// Returns the promise of a CPU, from its MIDR_EL1 and ID_AA64MMFR2_EL1.
    ///
    /// ```
    /// use linmap::cpu::{BbmPromise, Midr};
    ///
    /// assert!(BbmPromise::of(Midr(0xc00f_ac30), 2 << 52).never_aborts());
    /// assert_eq!(BbmPromise::of(Midr(0x410f_d0c0), 2 << 52), BbmPromise::MayAbort(2));
    /// ```
    pub fn of(midr: Midr, id_aa64mmfr2: u64) -> Self {
        let bbm = (id_aa64mmfr2 >> 52u32) as u8 & 0xf;
        match (midr.listed(), bbm) {
            (Some(listed), _) if listed.has(midr) => Self::Listed,
            (_, 3..) => Self::Level3,
            (Some(_), _) => Self::OtherRevision,
            (None, 0) => Self::NeedsBreakBeforeMake,
            (None, level) => Self::MayAbort(level),
        }
    }

    /// Returns true if live entries may change their size in place.
    pub const fn never_aborts(self) -> bool {
        matches!(self, Self::Listed | Self::Level3)
    }
}

/// Writes the reason, as the end of a sentence that starts with the CPU.
impl fmt::Display for BbmPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed => f.write_str("never aborts when a live block changes size (listed by MIDR)"),
            Self::Level3 => f.write_str("never aborts when a live block changes size (BBM above 2)"),
            Self::OtherRevision => f.write_str("is not of a revision known never to abort"),
            Self::MayAbort(level) => {
                write!(f, "has BBM level {level}, which may abort, and is not listed as one that never does")
            }
            Self::NeedsBreakBeforeMake => f.write_str("has BBM level 0: no live block can change size"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn the_promise_follows_the_list_and_the_revision() {
        use BbmPromise::*;
        let rows = [
            (0xc00f_ac30, 0, Listed),
            (0xc00f_ac4f, 2, Listed),
            (0x410f_d841, 2, OtherRevision),
            (0x410f_d842, 2, Listed),
            (0x410f_d84f, 2, Listed),
            (0x411f_d840, 2, OtherRevision),
            (0x411f_d840, 3, Level3),
            (0x410f_d831, 2, OtherRevision),
            (0x410f_d832, 2, Listed),
            (0x410f_d822, 2, OtherRevision),
            (0x410f_d823, 2, Listed),
            (0x4e0f_0100, 2, Listed),
            (0x410f_d880, 2, Listed),
            (0x410f_d4d0, 2, Listed),
            (0x410f_d890, 2, Listed),
            (0x410f_d870, 2, Listed),
            (0x413f_d8e1, 2, Listed),
            (0x4e0f_d8e0, 0, NeedsBreakBeforeMake),
            (0x410f_d8a0, 2, Listed),
            (0x410f_d8b0, 2, Listed),
            (0x410f_d8cf, 2, OtherRevision),
            (0x411f_d8c0, 2, OtherRevision),
            (0x411f_d8c1, 2, Listed),
            (0x412f_d8c0, 2, Listed),
            (0x411f_d900, 2, OtherRevision),
            (0x411f_d901, 2, Listed),
            (0x000f_0510, 2, MayAbort(2)),
            (0x410f_d0c1, 0, NeedsBreakBeforeMake),
            (0x410f_d0c1, 1, MayAbort(1)),
        ];
        for (midr, bbm, expected) in rows {
            let promise = BbmPromise::of(Midr(midr), bbm << 52 | 0x1122);
            assert_eq!(promise, expected, "{midr:#x}");
            assert_eq!(promise.never_aborts(), matches!(expected, Listed | Level3));
        }
        assert_eq!(Midr(0xc00f_ac30).name(), Some("AmpereOne"));
        assert_eq!(Midr(0x000f_0510).name(), Some("QEMU max"));
        assert_eq!(Midr(0x410f_d841).name(), Some("Neoverse-V3"));
        assert_eq!(Midr(0x413f_d0c1).name(), Some("Neoverse-N1"));
        assert_eq!(Midr(0).name(), None);
    }

    #[test]
    fn the_repeated_tlbi_follows_its_own_list() {
        let rows = [
            (0x410f_d0b0, true),
            (0x414f_d0c1, true),
            (0x410f_d493, true),
            (0x6d0f_d490, true),
            (0x411f_d842, true),
            (0x4e0f_0100, true),
            // The implementer is compared as well: A64FX is 0x46/0x001, AmpereOne 0xc0/0xac3.
            (0x4e0f_d0b0, false),
            (0x410f_0100, false),
            (0x461f_0010, false),
            (0xc00f_ac30, false),
            (0x410f_d083, false),
            (0x000f_0510, false),
            // CPUs for which Linux repeats TLBIs, from the first to the last of their revisions.
            (0x410f_d050, true),
            (0x412f_d050, true),
            (0x410f_d460, true),
            (0x411f_d461, true),
            (0x411f_d462, false),
            (0x412f_d460, false),
            (0x510f_8000, true),
            (0x510f_8001, false),
            (0x511f_8000, false),
            (0x510f_c000, false),
            (0x511f_2011, true),
            (0x510f_2050, true),
            (0x511f_2110, true),
            (0x51cf_804e, true),
            (0x51df_8040, true),
            (0x51ff_804e, true),
            (0x51cf_804d, false),
            (0x51ff_804f, false),
            (0x517f_803c, false),
        ];
        for (midr, expected) in rows {
            assert_eq!(Midr(midr).needs_repeated_tlbi(), expected, "{midr:#x}");
        }
    }

    #[test]
    fn each_repeated_tlbi_has_a_source_and_is_rare_or_not() {
        let rare: std::vec::Vec<_> = REPEAT_TLBI.iter().filter(|r| r.rare).map(|r| r.erratum).collect();
        assert_eq!(rare, ["2441007", "2441009", "1286807"]);
        for (n, one) in REPEAT_TLBI.iter().enumerate() {
            assert!(!one.name.is_empty() && !one.erratum.is_empty());
            assert!(one.parts.0 <= one.parts.1 && one.revisions.0 <= one.revisions.1, "{one:?}");
            let others = REPEAT_TLBI[n + 1..].iter();
            let apart = |o: &RepeatedTlbi| {
                o.implementer != one.implementer || o.parts.1 < one.parts.0 || one.parts.1 < o.parts.0
            };
            assert!(others.clone().all(apart), "{one:?}");
        }
        let why = |midr| Midr(midr).repeated_tlbi().map(ToString::to_string);
        let a55 = "needs each batch of TLB invalidations repeated (erratum 2441007)";
        assert_eq!(why(0x412f_d050).as_deref(), Some(a55));
        assert_eq!(why(0x410f_d083), None);
        assert_eq!(Midr(0x411f_d462).name(), Some("Cortex-A510"));
    }
}
