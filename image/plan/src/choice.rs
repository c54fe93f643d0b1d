//! The choice of page size, VA size and address sizes: what was asked for, compared with what the CPU has.

use core::fmt;

use linmap::cpu::Features;
use linmap::error::GeometryError;
use linmap::{Geometry, Granule, OaFormat};

use crate::bootargs::BootArgs;

/// The default VA size, and the largest without 52-bit translation.
const USUAL_VA_BITS: u32 = 48;

/// The reason why the geometry is not the one asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The CPU or the build lacks the granule.
    Granule {
        /// The one asked for.
        asked: Granule,
        /// The nearest that both have.
        used: Granule,
    },
    /// The CPU lacks 52-bit translation with this granule.
    VaBits {
        /// The VA size asked for.
        asked: u32,
        /// The granule in use.
        granule: Granule,
    },
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granule { asked, used } => {
                let whose = if Granule::BUILT.contains(asked) { "CPU" } else { "build" };
                write!(f, "this {whose} has no {asked} pages; using {used}")
            }
            Self::VaBits { asked, granule } => {
                write!(f, "this CPU has no {asked} VA bits with {granule} pages; using {USUAL_VA_BITS}")
            }
        }
    }
}

/// There is no granule that both the CPU and the build have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoGranule;

/// Returns the geometry to run with: the one asked for, or the nearest that the CPU has. Calls `fell_back` if it is not
/// the one asked for.
///
/// # Errors
///
/// The CPU reports no granule that the build has.
pub fn geometry(
    args: &BootArgs<'_>,
    features: &Features,
    mut fell_back: impl FnMut(Fallback),
) -> Result<Geometry, NoGranule> {
    // The first that is there will do if none was asked for.
    let (mut asked, mut nearest) = (args.page_size, None);
    for &granule in Granule::BUILT.iter().filter(|granule| features.has(**granule)) {
        let asked = *asked.get_or_insert(granule);
        let distance = granule.page_shift().abs_diff(asked.page_shift());
        if nearest.is_none_or(|(least, _)| distance < least) {
            nearest = Some((distance, granule));
        }
    }
    let ((_, granule), asked) = nearest.zip(asked).ok_or(NoGranule)?;
    if granule != asked {
        fell_back(Fallback::Granule { asked, used: granule });
    }
    let mut va_bits = args.va_bits.unwrap_or(USUAL_VA_BITS);
    if va_bits > USUAL_VA_BITS && !features.has_large_va(granule) {
        fell_back(Fallback::VaBits { asked: va_bits, granule });
        va_bits = USUAL_VA_BITS;
    }
    let format = oa_format(granule, va_bits, features);
    Geometry::new(granule, va_bits, format).map_err(|_: GeometryError| NoGranule)
}

/// Returns the format of output addresses: 52 bits with VA sizes above 48 bits, if the CPU has them; up to 48 bits the
/// format that every CPU has.
fn oa_format(granule: Granule, va_bits: u32, features: &Features) -> OaFormat {
    match granule {
        _ if va_bits <= USUAL_VA_BITS => OaFormat::Bits48,
        Granule::K4 | Granule::K16 => OaFormat::Lpa2,
        Granule::K64 if features.pa_bits() >= 52 => OaFormat::Lpa,
        Granule::K64 => OaFormat::Bits48,
    }
}

/// Returns the physical address size in bits: what the CPU has and descriptors can hold.
pub fn pa_bits(features: &Features, geometry: Geometry) -> u32 {
    features.pa_bits().min(geometry.oa_bits())
}

/// Returns the geometry of the lower half for a 1:1 map that reaches `end`, with the same granule and format.
///
/// # Errors
///
/// `end` lies beyond what any VA size of this format reaches.
pub fn identity_geometry(upper: Geometry, end: u64) -> Result<Geometry, GeometryError> {
    let bits = (64 - end.saturating_sub(1).leading_zeros()).max(Geometry::MIN_VA_BITS);
    Geometry::new(upper.granule(), bits, upper.oa_format())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    const A72: Features = Features {
        midr: 0x410f_d083,
        isar0: 0,
        mmfr0: 0x1124,
        mmfr1: 0,
        mmfr2: 0,
        mmfr3: 0,
        pfr1: 0,
        dfr0: 0,
        ctr: 0,
    };
    const MAX: Features = Features { mmfr0: 0x1020_1126, ..A72 };

    fn choose(line: &str, features: &Features) -> (Granule, u32, Vec<String>) {
        let mut notes = Vec::new();
        let args = BootArgs::parse(line, |_| {});
        let g = geometry(&args, features, |f| notes.push(f.to_string())).unwrap();
        (g.granule(), g.va_bits(), notes)
    }

    #[test]
    fn the_default_is_the_smallest_page_and_48_bits() {
        assert_eq!(choose("", &MAX), (Granule::K4, 48, Vec::new()));
        assert_eq!(choose("", &Features { mmfr0: 0xf010_1124 | 1 << 24, ..A72 }).0, Granule::K16);
    }

    #[test]
    fn what_the_cpu_lacks_falls_back_to_the_nearest_and_says_so() {
        let (g, _, notes) = choose("pagesize=16k", &A72);
        assert_eq!((g, notes), (Granule::K4, std::vec!["this CPU has no 16K pages; using 4K".to_string()]));
        let only_64k = Features { mmfr0: 0xf000_1124, ..A72 };
        assert_eq!(choose("pagesize=4k", &only_64k).0, Granule::K64);
        let (_, bits, notes) = choose("va_bits=52", &A72);
        assert_eq!(
            (bits, notes),
            (48, std::vec!["this CPU has no 52 VA bits with 4K pages; using 48".to_string()])
        );
        assert_eq!(choose("va_bits=36", &MAX).1, 36);
        let none = Features { mmfr0: 0xff00_1124, ..A72 };
        assert_eq!(geometry(&BootArgs::default(), &none, |_| {}), Err(NoGranule));
    }

    #[test]
    fn large_addresses_need_the_feature_of_their_granule() {
        let geometry = |line: &str, features: &Features| {
            geometry(&BootArgs::parse(line, |_| {}), features, |_| {}).unwrap()
        };
        let lva = Features { mmfr2: 1 << 16, ..MAX };
        for (line, features, va_bits, format) in [
            ("pagesize=4k va_bits=52", MAX, 52, OaFormat::Lpa2),
            ("pagesize=16k va_bits=49", MAX, 49, OaFormat::Lpa2),
            ("pagesize=64k va_bits=52", MAX, 48, OaFormat::Bits48),
            ("pagesize=64k va_bits=52", lva, 52, OaFormat::Lpa),
            ("pagesize=64k va_bits=52", Features { mmfr0: 0x1020_1125, ..lva }, 52, OaFormat::Bits48),
            ("pagesize=4k va_bits=48", MAX, 48, OaFormat::Bits48),
        ] {
            let g = geometry(line, &features);
            assert_eq!((g.va_bits(), g.oa_format()), (va_bits, format), "{line}");
        }
        let g = geometry("va_bits=52", &MAX);
        assert_eq!((pa_bits(&MAX, g), pa_bits(&A72, g), pa_bits(&MAX, geometry("", &MAX))), (52, 44, 48));
    }

    #[test]
    fn the_identity_map_reaches_the_highest_address_and_no_further() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        assert_eq!(identity_geometry(g, 0x8000_0000).unwrap().va_bits(), 36);
        assert_eq!(identity_geometry(g, 1 << 40).unwrap().va_bits(), 40);
        assert_eq!(identity_geometry(g, (1 << 40) + 1).unwrap().va_bits(), 41);
        assert!(identity_geometry(g, (1 << 48) + 1).is_err());
    }
}
