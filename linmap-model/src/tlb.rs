//! TLBI instructions: the entries that each form names, and the meaning of its operand.
//!
//! Arm ARM D8.17.5.1 (by address), D8.17.5.2 (by range), D8.17.5.3 (TTL).

use std::fmt;

use linmap::{Geometry, Granule, OaFormat};
use serde::{Deserialize, Serialize};

macro_rules! operations {
    ($($name:ident = $text:literal, $what:ident, $asid:literal, $leaf:literal, $broadcast:literal;)*) => {
        /// A TLBI operation of EL1, by its mnemonic.
        #[allow(missing_docs)] // the mnemonics are the documentation
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Tlb { $($name),* }

        impl Tlb {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            const fn traits(self) -> (What, bool, bool, bool, &'static str) {
                match self { $(Self::$name => (What::$what, $asid, $leaf, $broadcast, $text),)* }
            }
        }
    };
}

operations! {
    Vmalle1 = "vmalle1", Everything, false, false, false;
    Vmalle1is = "vmalle1is", Everything, false, false, true;
    Aside1is = "aside1is", Asid, true, false, true;
    Vae1 = "vae1", Page, true, false, false;
    Vae1is = "vae1is", Page, true, false, true;
    Vale1 = "vale1", Page, true, true, false;
    Vale1is = "vale1is", Page, true, true, true;
    Vaae1 = "vaae1", Page, false, false, false;
    Vaae1is = "vaae1is", Page, false, false, true;
    Vaale1 = "vaale1", Page, false, true, false;
    Vaale1is = "vaale1is", Page, false, true, true;
    Rvaae1 = "rvaae1", Range, false, false, false;
    Rvaae1is = "rvaae1is", Range, false, false, true;
    Rvaale1 = "rvaale1", Range, false, true, false;
    Rvaale1is = "rvaale1is", Range, false, true, true;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Everything,
    Asid,
    Page,
    Range,
}

impl fmt::Display for Tlb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.traits().4)
    }
}

/// The entries that an invalidation reaches, from its operation and operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Invalidation {
    /// The addresses, both ends included; none when it is not by address.
    pub(crate) addresses: Option<(u64, u64)>,
    /// The ASID that non-global entries must have; none when any will do.
    pub(crate) asid: Option<u16>,
    /// Only entries of the last level of a walk: walk caches stay.
    pub(crate) last_level: bool,
    /// On all CPUs, or on the one that issues it.
    pub(crate) broadcast: bool,
    /// The level that leaves must have, where the operand hints at one.
    pub(crate) level: Option<i8>,
    /// Nothing is sure to be invalidated: the operand names another granule.
    pub(crate) other_granule: bool,
    /// By range: a CPU without such operations need not heed it.
    pub(crate) range: bool,
}

impl Tlb {
    /// Returns true if it reaches all CPUs.
    pub(crate) const fn is_broadcast(self) -> bool {
        self.traits().3
    }

    /// Returns true if it names a range of addresses.
    pub(crate) fn is_range(self) -> bool {
        self.traits().0 == What::Range
    }

    /// Returns the entries that it invalidates with this operand, on a CPU with or without TTL.
    ///
    /// # Errors
    ///
    /// The mistake in the operand.
    pub(crate) fn decode(self, operand: u64, g: Geometry, ttl: bool) -> Result<Invalidation, String> {
        let (what, by_asid, last_level, broadcast, _) = self.traits();
        let asid = by_asid.then_some((operand >> 48) as u16);
        let all = Invalidation {
            addresses: None,
            asid,
            last_level,
            broadcast,
            level: None,
            other_granule: false,
            range: what == What::Range,
        };
        let above = operand >> 48;
        if above != 0 && !by_asid {
            return Err(format!("bits 63:48 are {above:#x} and must be zero: {self} takes no ASID"));
        }
        match what {
            What::Everything | What::Asid => match operand & ((1 << 48) - 1) {
                0 => Ok(all),
                rest => Err(format!("bits 47:0 are {rest:#x} and must be zero: {self} takes no address")),
            },
            What::Page => {
                let hint = operand >> 44 & 0xf;
                if hint != 0 && !ttl {
                    return Err(format!("bits 47:44 are {hint:#x} and must be zero without FEAT_TTL"));
                }
                let va = extended((operand & ((1 << 44) - 1)) << 12) & !(g.page_size() - 1);
                let (level, other_granule) = page_hint(hint, g);
                let addresses = Some((va, va | (g.page_size() - 1)));
                Ok(Invalidation { addresses, level, other_granule, ..all })
            }
            What::Range => decode_range(operand, g, ttl, all),
        }
    }
}

/// Bits 63:56 are taken to be copies of bit 55 (RJGGKN).
const fn extended(va: u64) -> u64 {
    ((va << 8) as i64 >> 8) as u64
}

/// The level that a four-bit TTL names, and whether it is of another granule (table D8-123).
const fn page_hint(hint: u64, g: Geometry) -> (Option<i8>, bool) {
    let (granule, level) = (hint >> 2, (hint & 3) as i8);
    let ours = match g.granule() {
        Granule::K4 => 1,
        Granule::K16 => 2,
        Granule::K64 => 3,
    };
    let lpa2 = matches!(g.oa_format(), OaFormat::Lpa2);
    let reserved = match granule {
        0 => true,
        1 => level == 0 && !lpa2,
        2 => level == 0 || (level == 1 && !lpa2),
        _ => level == 0,
    };
    if reserved { (None, false) } else { (Some(level), granule != ours) }
}

fn decode_range(operand: u64, g: Geometry, ttl: bool, all: Invalidation) -> Result<Invalidation, String> {
    let field = |low: u32, bits: u32| operand >> low & ((1 << bits) - 1);
    let (tg, scale, num, hint) = (field(46, 2), field(44, 2), field(39, 5), field(37, 2));
    if hint != 0 && !ttl {
        return Err(format!("bits 38:37 are {hint} and must be zero without FEAT_TTL"));
    }
    let (ours, shift) = match g.granule() {
        Granule::K4 => (1, 12),
        Granule::K16 => (2, 14),
        Granule::K64 => (3, 16),
    };
    let lpa2 = matches!(g.oa_format(), OaFormat::Lpa2);
    let base = operand & ((1 << 37) - 1);
    // BaseADDR[48:12], [50:14] or, with DS=1 and for 64K, [52:16] (RQNPXY and what follows it).
    let shift = if lpa2 { 16 } else { shift };
    let from = ((base << (64 - 37)) as i64 >> (64 - 37 - shift)) as u64;
    let level = match (hint, lpa2, g.granule()) {
        (0, true, Granule::K4) | (0, _, _) | (1, false, Granule::K16) => None,
        (hint, ..) => Some(hint as i8),
    };
    if let Some(at) = level {
        let size = 1u64 << (g.page_shift() + (3 - at as u32) * g.index_bits());
        if from & (size - 1) != 0 {
            return Err(format!(
                "the range starts at {from:#x}, which is not aligned to level {at}: unpredictable"
            ));
        }
    }
    let pages = (num + 1) << (5 * scale + 1);
    let bytes = u128::from(pages) << g.page_shift();
    let last = (u128::from(from) + bytes - 1).min(u128::from(u64::MAX)) as u64;
    Ok(Invalidation { addresses: Some((from, last)), level, other_granule: tg != ours, ..all })
}
