//! Admission of CPUs: what the system relies on, compared with what a CPU has.

use core::fmt;

use linmap::cpu::{BbmPromise, CacheType, Features};
use linmap::error::RepaintError;
use linmap::{Geometry, OaFormat, Pa, Promise};

use crate::bootargs::Bbml2;

/// Returns true if the CPU with this number (0 is the boot CPU) is taken never to abort.
pub fn claims(bbml2: Bbml2, cpu: usize, promise: BbmPromise) -> bool {
    let may = match bbml2 {
        Bbml2::Auto => true,
        Bbml2::First(first) => cpu < first as usize,
    };
    may && promise.never_aborts()
}

/// The needs of the system, on each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// The geometry of its tables.
    pub geometry: Geometry,
    /// The bits of the highest address that is mapped.
    pub pa_bits: u32,
    /// MAIR_EL1 has a type for memory with allocation tags.
    pub tags: bool,
    /// Live entries change their size in place.
    pub resizes_live: bool,
    /// The promise that operations on the tables use.
    pub promise: Promise,
    /// The maintenance that makes code visible to instruction fetch.
    pub cache: CacheType,
}

/// The terms of admission: what must be done before the CPU uses the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The promise from then on.
    pub promise: Promise,
    /// The maintenance for code from then on: it includes what this CPU needs.
    pub cache: CacheType,
    /// Live entries can no longer change their size in place.
    pub leave_live: bool,
}

/// The reason why a CPU is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It does not have the page size in use.
    Granule {
        /// The geometry in use.
        needed: Geometry,
    },
    /// It does not have so large a VA.
    VaBits {
        /// The geometry in use.
        needed: Geometry,
    },
    /// Its descriptors do not have 52-bit addresses.
    OutputAddresses {
        /// The geometry in use.
        needed: Geometry,
        /// Its physical address size in bits.
        bits: u32,
    },
    /// It does not reach all memory in use.
    PaBits {
        /// Its physical address size in bits.
        bits: u32,
        /// The bits that are needed.
        needed: u32,
    },
    /// It has no memory with allocation tags.
    Tags,
    /// It may abort, live entries change their size, and the map cannot be put into pages.
    MayAbort(BbmPromise, RepaintError),
    /// There was no memory for its stack and the rest that it starts with.
    NoMemory,
    /// The firmware does not start it.
    NotStarted(StartError),
    /// The address of its spin table is not in RAM that is mapped.
    NoRelease(Pa),
    /// It was started and did not report in time.
    Silent,
    /// It cannot be interrupted.
    NoInterrupts,
}

/// The reason why PSCI does not start a CPU (Arm DEN 0022, CPU_ON).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartError {
    /// There is no such CPU, or it is disabled.
    NoSuchCpu,
    /// It runs already, or is about to.
    AlreadyOn,
    /// The firmware has no CPU_ON.
    NotSupported,
    /// The firmware does not allow it.
    Denied,
    /// The firmware takes the address of the code for one that a CPU cannot start at.
    BadAddress,
    /// The firmware has tried, and failed.
    Failed,
    /// Anything else.
    Other,
}

impl fmt::Display for Refusal {
    /// Writes what the CPU lacks and what would be right, as the end of a sentence that starts with the CPU.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granule { needed } => {
                write!(f, "has no {} pages, which are in use; pagesize= chooses others", needed.granule())
            }
            Self::VaBits { needed } => write!(
                f,
                "has no {} VA bits with {} pages; va_bits= of 48 or less is right for it",
                needed.va_bits(),
                needed.granule()
            ),
            Self::OutputAddresses { needed, bits } => write!(
                f,
                "has {bits}-bit physical addresses, and the tables 52-bit ones with {} pages; va_bits= of 48 or \
                 less is right for it",
                needed.granule()
            ),
            Self::PaBits { bits, needed } => {
                write!(f, "has {bits}-bit physical addresses; what is mapped takes {needed}")
            }
            Self::Tags => f.write_str("has no memory tags, and memory is mapped with them"),
            Self::MayAbort(promise, why) if promise.never_aborts() => {
                write!(
                    f,
                    "is not taken to never abort, and the map cannot become pages: {why}; bbml2=auto takes it so"
                )
            }
            Self::MayAbort(promise, why) => {
                write!(
                    f,
                    "{promise}, and the map cannot become pages: {why}; split=park or bbml2=off is right for it"
                )
            }
            Self::NoMemory => f.write_str("has no memory for a stack: more RAM is needed"),
            Self::NoRelease(at) => {
                write!(f, "is not started: its release address {at} is not in RAM that is mapped")
            }
            Self::NotStarted(StartError::NoSuchCpu) => {
                f.write_str("is not known to the firmware: PSCI CPU_ON takes its MPIDR for invalid")
            }
            Self::NotStarted(StartError::AlreadyOn) => {
                f.write_str("runs already: the firmware has to keep it off until PSCI CPU_ON")
            }
            Self::NotStarted(StartError::NotSupported) => {
                f.write_str("is not started: the firmware has no PSCI CPU_ON")
            }
            Self::NotStarted(StartError::Denied) => {
                f.write_str("is refused by the firmware: PSCI CPU_ON returns DENIED")
            }
            Self::NotStarted(StartError::BadAddress) => f.write_str(
                "is refused by the firmware: PSCI CPU_ON takes the address of the image for invalid",
            ),
            Self::NotStarted(StartError::Failed) => {
                f.write_str("is not started: PSCI CPU_ON returns INTERNAL_FAILURE")
            }
            Self::NotStarted(StartError::Other) => {
                f.write_str("is not started: PSCI CPU_ON fails for a reason that it does not have")
            }
            Self::Silent => f.write_str("was started and has not reported in time"),
            Self::NoInterrupts => f.write_str("takes no interrupts, so nothing wakes it"),
        }
    }
}

/// Returns the terms on which a CPU can use the system's tables. `claims` is true if the CPU is taken never to abort
/// ([`claims`]).
///
/// # Errors
///
/// The CPU lacks something that the tables need. What the system can do without is in the terms instead.
pub fn admit(system: &Needs, cpu: &Features, claims: bool) -> Result<Terms, Refusal> {
    let needed = system.geometry;
    let (granule, bits) = (needed.granule(), cpu.pa_bits());
    if !cpu.has(granule) {
        return Err(Refusal::Granule { needed });
    }
    if needed.va_bits() > 48 && !cpu.has_large_va(granule) {
        return Err(Refusal::VaBits { needed });
    }
    let has_format = match needed.oa_format() {
        OaFormat::Bits48 => true,
        OaFormat::Lpa => bits >= 52,
        OaFormat::Lpa2 => cpu.has_large_va(granule),
    };
    if !has_format {
        return Err(Refusal::OutputAddresses { needed, bits });
    }
    if bits < system.pa_bits {
        return Err(Refusal::PaBits { bits, needed: system.pa_bits });
    }
    if system.tags && !cpu.has_tags() {
        return Err(Refusal::Tags);
    }
    let Promise { never_aborts, range_tlbi, repeat_tlbi } = system.promise;
    let promise = Promise {
        never_aborts: never_aborts && claims,
        range_tlbi: range_tlbi && cpu.has_range_tlbi(),
        repeat_tlbi: repeat_tlbi || cpu.needs_repeated_tlbi(),
    };
    let cache = system.cache.weakest(cpu.cache_type());
    Ok(Terms { promise, cache, leave_live: system.resizes_live && !claims })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::Granule;
    use linmap::cpu::Midr;
    use std::string::ToString;
    use test_support::prelude::*;

    /// QEMU's max with AmpereOne's name, without FEAT_LPA2, with allocation tags.
    const GOOD: Features = Features {
        midr: 0xc00f_ac30,
        isar0: 2 << 56,
        mmfr0: 0x0010_1126,
        mmfr1: 0,
        mmfr2: 1 << 16,
        mmfr3: 0,
        pfr1: 3 << 8,
        dfr0: 0,
        ctr: COHERENT,
    };

    /// A cache type with lines of 64 bytes, IDC and DIC.
    const COHERENT: u64 = 0xb444_c004;

    fn needs(granule: Granule, va_bits: u32, format: OaFormat) -> Needs {
        Needs {
            geometry: Geometry::new(granule, va_bits, format).unwrap(),
            pa_bits: 34,
            tags: false,
            resizes_live: true,
            promise: Promise { never_aborts: true, range_tlbi: true, repeat_tlbi: false },
            cache: CacheType::of(COHERENT),
        }
    }

    fn usual() -> Needs {
        needs(Granule::K4, 48, OaFormat::Bits48)
    }

    #[test]
    fn a_cpu_like_the_first_changes_nothing() {
        let Needs { promise, cache, .. } = usual();
        let terms = Terms { promise, cache, leave_live: false };
        assert_eq!(admit(&usual(), &GOOD, true), Ok(terms));
        assert_eq!(admit(&Needs { tags: true, ..usual() }, &GOOD, true), Ok(terms));
        assert_eq!(admit(&Needs { pa_bits: 52, ..usual() }, &GOOD, true), Ok(terms));
    }

    #[test]
    fn what_tables_are_made_with_each_cpu_must_have() {
        let large = |granule, format| needs(granule, 52, format);
        let lpa2 = Features { mmfr0: 0x1020_1126, ..GOOD };
        let short = Features { mmfr0: 0x0010_1125, ..GOOD };
        for (needs, cpu, refusal) in [
            (usual(), Features { mmfr0: 0xf010_1126, ..GOOD }, "has no 4K pages, which are in use"),
            (
                needs(Granule::K16, 48, OaFormat::Bits48),
                Features { mmfr0: 0x1126, ..GOOD },
                "has no 16K pages, which are in use",
            ),
            (
                needs(Granule::K64, 48, OaFormat::Bits48),
                Features { mmfr0: 0x0f00_1126, ..GOOD },
                "has no 64K pages, which are in use",
            ),
            (large(Granule::K4, OaFormat::Lpa2), GOOD, "has no 52 VA bits with 4K pages"),
            (large(Granule::K16, OaFormat::Lpa2), GOOD, "has no 52 VA bits with 16K pages"),
            (
                large(Granule::K64, OaFormat::Lpa),
                Features { mmfr2: 0, ..GOOD },
                "has no 52 VA bits with 64K pages",
            ),
            (
                large(Granule::K64, OaFormat::Lpa),
                short,
                "has 48-bit physical addresses, and the tables 52-bit",
            ),
            (
                needs(Granule::K4, 48, OaFormat::Lpa2),
                GOOD,
                "has 52-bit physical addresses, and the tables 52-bit",
            ),
            (
                Needs { pa_bits: 49, ..usual() },
                short,
                "has 48-bit physical addresses; what is mapped takes 49",
            ),
            (Needs { tags: true, ..usual() }, Features { pfr1: 1 << 8, ..GOOD }, "has no memory tags"),
        ] {
            let said = admit(&needs, &cpu, true).unwrap_err().to_string();
            assert!(said.starts_with(refusal), "{said} instead of {refusal}");
        }
        assert!(admit(&large(Granule::K4, OaFormat::Lpa2), &lpa2, true).is_ok());
        assert!(admit(&large(Granule::K64, OaFormat::Lpa), &GOOD, true).is_ok());
        assert!(admit(&large(Granule::K64, OaFormat::Bits48), &short, true).is_ok());
    }

    #[test]
    fn what_can_be_done_without_is_given_up() {
        let terms = |needs: Needs, cpu, claims| admit(&needs, &cpu, claims).unwrap();
        let without = terms(usual(), Features { isar0: 1 << 56, ..GOOD }, true);
        assert_eq!(without.promise, Promise { range_tlbi: false, ..usual().promise });
        let repeats = terms(usual(), Features { midr: 0x410f_d0c1, ..GOOD }, true);
        assert_eq!(repeats.promise, Promise { repeat_tlbi: true, ..usual().promise });
        let aborts = terms(usual(), GOOD, false);
        assert_eq!(aborts.promise, Promise { never_aborts: false, ..usual().promise });
        assert!(aborts.leave_live);
        // Nothing changes its size, so there is nothing to leave.
        assert!(!terms(Needs { resizes_live: false, ..usual() }, GOOD, false).leave_live);
    }

    /// A CPU with DIC clear joins those that have it set: from then on code needs IC IVAU on all of them.
    #[test]
    fn code_is_synchronised_for_the_weakest_cpu() {
        let (no_dic, no_idc) = (COHERENT & !(1 << 29), COHERENT & !(1 << 28));
        let joined =
            |cache, ctr| admit(&Needs { cache, ..usual() }, &Features { ctr, ..GOOD }, true).unwrap().cache;
        let takes = |cache: CacheType| (cache.data_line(), cache.code_line());
        let coherent = joined(usual().cache, COHERENT);
        assert_eq!(takes(coherent), (None, None));
        let mixed = joined(coherent, no_dic);
        assert_eq!(takes(mixed), (None, Some(64)));
        // A CPU that comes later restores nothing, whatever it needs.
        assert_eq!(joined(mixed, COHERENT), mixed);
        assert_eq!(takes(joined(mixed, no_idc)), (Some(64), Some(64)));
        // Lines of 32 bytes and of 128.
        assert_eq!(takes(joined(mixed, 0x8445_c003)), (Some(64), Some(32)));
        // A CPU that is refused changes nothing: there are no terms.
        assert!(admit(&usual(), &Features { mmfr0: 0xf010_1126, ctr: no_dic, ..GOOD }, true).is_err());
    }

    #[test]
    fn who_is_taken_never_to_abort() {
        let (listed, max) = (BbmPromise::Listed, BbmPromise::of(Midr(0x000f_0510), 2 << 52));
        let taken = |bbml2| [0, 1, 2].map(|cpu| claims(bbml2, cpu, listed));
        assert_eq!(taken(Bbml2::Auto), [true; 3]);
        assert_eq!(taken(Bbml2::First(0)), [false; 3]);
        assert_eq!(taken(Bbml2::First(1)), [true, false, false]);
        assert_eq!(taken(Bbml2::First(2)), [true, true, false]);
        assert!([Bbml2::Auto, Bbml2::First(9)].iter().all(|b| !claims(*b, 0, max)));
    }

    #[test]
    fn each_refusal_says_what_is_missing_and_what_would_be_right() {
        let promise = BbmPromise::MayAbort(2);
        for (refusal, said) in [
            (
                Refusal::MayAbort(promise, RepaintError::OutOfFrames { taken: 3 }),
                "has BBM level 2, which may abort, and is not listed as one that never does, and the map cannot \
                 become pages: out of table pages after 3; give the frame source more memory; split=park or \
                 bbml2=off is right for it",
            ),
            (
                Refusal::MayAbort(BbmPromise::Listed, RepaintError::OutOfFrames { taken: 3 }),
                "is not taken to never abort, and the map cannot become pages: out of table pages after 3; give \
                 the frame source more memory; bbml2=auto takes it so",
            ),
            (Refusal::Silent, "was started and has not reported in time"),
            (Refusal::NoInterrupts, "takes no interrupts, so nothing wakes it"),
            (Refusal::NoMemory, "has no memory for a stack: more RAM is needed"),
            (
                Refusal::NoRelease(Pa(0xd8)),
                "is not started: its release address 0xd8 is not in RAM that is mapped",
            ),
            (
                Refusal::NotStarted(StartError::Denied),
                "is refused by the firmware: PSCI CPU_ON returns DENIED",
            ),
            (
                Refusal::NotStarted(StartError::BadAddress),
                "is refused by the firmware: PSCI CPU_ON takes the address of the image for invalid",
            ),
            (Refusal::NotStarted(StartError::Failed), "is not started: PSCI CPU_ON returns INTERNAL_FAILURE"),
            (
                Refusal::NotStarted(StartError::Other),
                "is not started: PSCI CPU_ON fails for a reason that it does not have",
            ),
        ] {
            assert_eq!(refusal.to_string(), said);
        }
    }

    proptest! {
        /// With any values of its registers, an admitted CPU has what the tables need, and no promise is added.
        #[test]
        fn any_cpu(
            (midr, isar0, mmfr0, mmfr2) in any::<(u64, u64, u64, u64)>(),
            (pfr1, dfr0, ctr, used, claims) in any::<(u64, u64, u64, u64, bool)>(),
            granule in prop::sample::select(Granule::ALL.to_vec()),
            va_bits in 36u32..=52,
            bits in 32u32..=52,
            (tags, resizes_live, never_aborts, range_tlbi, repeat_tlbi) in any::<(bool, bool, bool, bool, bool)>(),
        ) {
            let format = match granule {
                _ if va_bits <= 48 => OaFormat::Bits48,
                Granule::K64 => OaFormat::Lpa,
                Granule::K4 | Granule::K16 => OaFormat::Lpa2,
            };
            let geometry = Geometry::new(granule, va_bits, format).expect("a geometry");
            let promise = Promise { never_aborts, range_tlbi, repeat_tlbi };
            let cache = CacheType::of(used);
            let system = Needs { geometry, pa_bits: bits, tags, resizes_live, promise, cache };
            let cpu = Features { midr, isar0, mmfr0, mmfr2, pfr1, dfr0, ctr, ..Features::default() };
            match admit(&system, &cpu, claims) {
                Ok(Terms { promise: after, cache, leave_live }) => {
                    prop_assert_eq!(cache, system.cache.weakest(cpu.cache_type()));
                    prop_assert!(cpu.has(granule) && cpu.pa_bits() >= bits);
                    prop_assert!(va_bits <= 48 || cpu.has_large_va(granule));
                    prop_assert!(!tags || cpu.has_tags());
                    prop_assert!(!after.never_aborts || never_aborts && claims);
                    prop_assert!(!after.range_tlbi || range_tlbi && cpu.has_range_tlbi());
                    prop_assert!(after.repeat_tlbi == (repeat_tlbi || cpu.needs_repeated_tlbi()));
                    prop_assert!(leave_live == (resizes_live && !claims));
                }
                Err(why) => prop_assert!(!why.to_string().is_empty()),
            }
        }
    }
}
