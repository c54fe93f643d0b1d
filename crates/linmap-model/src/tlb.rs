//! TLBI instructions: the entries that each form names, and the meaning of its operand.
//!
//! Arm ARM D8.17.5.1 (by address), D8.17.5.2 (by range), D8.17.5.3 (TTL), D8.17.5.4 (what each type applies to).

use std::fmt;

use linmap::{Geometry, Granule, OaFormat};
use serde::{Deserialize, Serialize};

use crate::Register;
use crate::space::{Context, Target};

macro_rules! operations {
    ($($local:ident $inner:ident $outer:ident $local_nxs:ident $inner_nxs:ident $outer_nxs:ident
       = $what:ident, $whose:ident, $asid:literal, $leaf:literal;)*) => {
        /// A TLBI operation, by its mnemonic.
        #[allow(missing_docs)] // the mnemonics are the documentation
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Tlb { $($local, $inner, $outer, $local_nxs, $inner_nxs, $outer_nxs),* }

        impl Tlb {
            /// All of them.
            pub const ALL: &[Self] = &[
                $(Self::$local, Self::$inner, Self::$outer, Self::$local_nxs, Self::$inner_nxs, Self::$outer_nxs),*
            ];

            const fn form(self) -> Form {
                let (what, whose, by_asid, last_level, reach, nxs, name) = match self {
                    $(
                        Self::$local => (What::$what, Whose::$whose, $asid, $leaf, Reach::Local, false, stringify!($local)),
                        Self::$inner => (What::$what, Whose::$whose, $asid, $leaf, Reach::Inner, false, stringify!($inner)),
                        Self::$outer => (What::$what, Whose::$whose, $asid, $leaf, Reach::Outer, false, stringify!($outer)),
                        Self::$local_nxs =>
                            (What::$what, Whose::$whose, $asid, $leaf, Reach::Local, true, stringify!($local_nxs)),
                        Self::$inner_nxs =>
                            (What::$what, Whose::$whose, $asid, $leaf, Reach::Inner, true, stringify!($inner_nxs)),
                        Self::$outer_nxs =>
                            (What::$what, Whose::$whose, $asid, $leaf, Reach::Outer, true, stringify!($outer_nxs)),
                    )*
                };
                Form { what, whose, by_asid, last_level, reach, nxs, name }
            }
        }
    };
}

// On this CPU, on those of the inner shareable domain, on those of the outer one; and the same without waiting for
// accesses that may take long (nXS). The columns: the entries it names and their regime; by ASID; the last level alone.
operations! {
    Vmalle1 Vmalle1is Vmalle1os Vmalle1nxs Vmalle1isnxs Vmalle1osnxs = Everything, E1, false, false;
    Aside1 Aside1is Aside1os Aside1nxs Aside1isnxs Aside1osnxs = Asid, E1, true, false;
    Vae1 Vae1is Vae1os Vae1nxs Vae1isnxs Vae1osnxs = Page, E1, true, false;
    Vale1 Vale1is Vale1os Vale1nxs Vale1isnxs Vale1osnxs = Page, E1, true, true;
    Vaae1 Vaae1is Vaae1os Vaae1nxs Vaae1isnxs Vaae1osnxs = Page, E1, false, false;
    Vaale1 Vaale1is Vaale1os Vaale1nxs Vaale1isnxs Vaale1osnxs = Page, E1, false, true;
    Rvae1 Rvae1is Rvae1os Rvae1nxs Rvae1isnxs Rvae1osnxs = Range, E1, true, false;
    Rvale1 Rvale1is Rvale1os Rvale1nxs Rvale1isnxs Rvale1osnxs = Range, E1, true, true;
    Rvaae1 Rvaae1is Rvaae1os Rvaae1nxs Rvaae1isnxs Rvaae1osnxs = Range, E1, false, false;
    Rvaale1 Rvaale1is Rvaale1os Rvaale1nxs Rvaale1isnxs Rvaale1osnxs = Range, E1, false, true;
    Alle2 Alle2is Alle2os Alle2nxs Alle2isnxs Alle2osnxs = Everything, E2, false, false;
    Vae2 Vae2is Vae2os Vae2nxs Vae2isnxs Vae2osnxs = Page, E2, true, false;
    Vale2 Vale2is Vale2os Vale2nxs Vale2isnxs Vale2osnxs = Page, E2, true, true;
    Rvae2 Rvae2is Rvae2os Rvae2nxs Rvae2isnxs Rvae2osnxs = Range, E2, true, false;
    Rvale2 Rvale2is Rvale2os Rvale2nxs Rvale2isnxs Rvale2osnxs = Range, E2, true, true;
    Alle1 Alle1is Alle1os Alle1nxs Alle1isnxs Alle1osnxs = Everything, EveryVm, false, false;
    Vmalls12e1 Vmalls12e1is Vmalls12e1os Vmalls12e1nxs Vmalls12e1isnxs Vmalls12e1osnxs = Everything, Vm, false, false;
    Ipas2e1 Ipas2e1is Ipas2e1os Ipas2e1nxs Ipas2e1isnxs Ipas2e1osnxs = Page, Stage2, false, false;
    Ipas2le1 Ipas2le1is Ipas2le1os Ipas2le1nxs Ipas2le1isnxs Ipas2le1osnxs = Page, Stage2, false, true;
    Ripas2e1 Ripas2e1is Ripas2e1os Ripas2e1nxs Ripas2e1isnxs Ripas2e1osnxs = Range, Stage2, false, false;
    Ripas2le1 Ripas2le1is Ripas2le1os Ripas2le1nxs Ripas2le1isnxs Ripas2le1osnxs = Range, Stage2, false, true;
}

/// The meaning of a form's name.
struct Form {
    what: What,
    whose: Whose,
    by_asid: bool,
    last_level: bool,
    reach: Reach,
    nxs: bool,
    name: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Everything,
    Asid,
    Page,
    Range,
}

/// The regime that a form names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// EL1&0 with the current VMID; where HCR_EL2.E2H and TGE are 1, EL2&0 instead.
    E1,
    /// EL2 or EL2&0.
    E2,
    /// Both stages of EL1&0 with the current VMID.
    Vm,
    /// Both stages of EL1&0 with any VMID.
    EveryVm,
    /// Stage 2 alone, with the current VMID.
    Stage2,
}

/// The CPUs for which a form is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Local,
    Inner,
    Outer,
}

impl fmt::Display for Tlb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.form().name.to_ascii_lowercase())
    }
}

/// The entries that an invalidation reaches, from its operation and operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Invalidation {
    /// The regime, the stages of it and the VMID.
    pub(crate) target: Target,
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
    /// It waits for no access whose memory has the XS attribute, and need not drop such entries.
    pub(crate) nxs: bool,
}

impl Tlb {
    /// Returns true if it reaches all CPUs. Those of the inner shareable domain are in the outer one.
    pub(crate) fn is_broadcast(self) -> bool {
        self.form().reach != Reach::Local
    }

    /// Returns true if it is for the outer shareable domain (FEAT_TLBIOS).
    pub(crate) fn is_outer(self) -> bool {
        self.form().reach == Reach::Outer
    }

    /// Returns true if it names a range of addresses (FEAT_TLBIRANGE).
    pub(crate) fn is_range(self) -> bool {
        self.form().what == What::Range
    }

    /// Returns true if its operand has an address.
    pub fn is_by_address(self) -> bool {
        matches!(self.form().what, What::Page | What::Range)
    }

    /// Returns the form of the operation with another reach and with or without nXS. The reach is 0 for the CPU that issues it, 1 for
    /// the inner shareable domain, 2 for the outer one.
    #[must_use]
    pub fn with(self, reach: usize, nxs: bool) -> Self {
        // The forms of one operation stand side by side.
        let at = Self::ALL.iter().position(|op| *op == self).unwrap_or_default();
        Self::ALL.get(at / 6 * 6 + reach % 3 + if nxs { 3 } else { 0 }).copied().unwrap_or(self)
    }

    /// Returns the registers of EL2 that say for whom it is.
    pub(crate) fn depends_on(self, context: Context) -> &'static [Register] {
        match (self.form().whose, context) {
            (Whose::E1, Context { e2h: true, tge: true, .. }) | (Whose::E2, _) => &[Register::Hcr],
            (Whose::E1, _) => &[Register::Hcr, Register::Vttbr],
            (Whose::Vm | Whose::Stage2, _) => &[Register::Vttbr],
            (Whose::EveryVm, _) => &[],
        }
    }

    /// Returns true if it waits for no access with the XS attribute (FEAT_XS).
    pub const fn is_nxs(self) -> bool {
        self.form().nxs
    }

    /// Returns the entries that it invalidates with this operand, on a CPU with or without TTL.
    ///
    /// # Errors
    ///
    /// The mistake in the operand.
    pub(crate) fn decode(
        self,
        operand: u64,
        g: Geometry,
        ttl: bool,
        context: Context,
    ) -> Result<Invalidation, String> {
        let Form { what, whose, by_asid, last_level, nxs, .. } = self.form();
        // Without E2H the regime of EL2 has no ASID, and the field is zero.
        let asid = (by_asid && (whose != Whose::E2 || context.e2h)).then_some((operand >> 48u32) as u16);
        let all = Invalidation {
            target: target(whose, context),
            addresses: None,
            asid,
            last_level,
            broadcast: self.is_broadcast(),
            level: None,
            other_granule: false,
            range: what == What::Range,
            nxs,
        };
        let above = operand >> 48u32;
        if above != 0 && asid.is_none() {
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
                let page = operand & ((1 << 44) - 1);
                if whose == Whose::Stage2 && page >> 40 != 0 {
                    return Err(format!(
                        "bits 43:40 are {:#x} and must be zero: {self} takes an IPA",
                        page >> 40
                    ));
                }
                let va = extended(page << 12) & !(g.page_size() - 1);
                let (level, other_granule) = page_hint(hint, g);
                let addresses = Some((va, va | (g.page_size() - 1)));
                Ok(Invalidation { addresses, level, other_granule, ..all })
            }
            What::Range => decode_range(operand, g, ttl, all),
        }
    }
}

/// Returns the entries that a form names, by what the registers of its CPU say.
const fn target(whose: Whose, Context { vmid, e2h, tge }: Context) -> Target {
    match whose {
        Whose::E1 if e2h && tge => Target::El2,
        Whose::E1 => Target::El1(vmid),
        Whose::E2 => Target::El2,
        Whose::Vm => Target::Vm(vmid),
        Whose::EveryVm => Target::EveryVm,
        Whose::Stage2 => Target::Stage2(vmid),
    }
}

/// Bits 63:56 are taken to be copies of bit 55 (RJGGKN).
const fn extended(va: u64) -> u64 {
    ((va << 8) as i64 >> 8) as u64
}

/// The level that a four-bit TTL names, and whether it is of another granule (table D8-123).
const fn page_hint(hint: u64, g: Geometry) -> (Option<i8>, bool) {
    let (granule, level) = (hint >> 2u32, (hint & 3) as i8);
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
        Granule::K4 => (1, 12i32),
        Granule::K16 => (2, 14i32),
        Granule::K64 => (3, 16i32),
    };
    let lpa2 = matches!(g.oa_format(), OaFormat::Lpa2);
    let base = operand & ((1 << 37u32) - 1);
    // BaseADDR[48:12], [50:14] or, with DS=1 and for 64K, [52:16] (RQNPXY and what follows it).
    let shift = if lpa2 { 16i32 } else { shift };
    let from = match all.target {
        Target::Stage2(_) => base << shift,
        _ => ((base << (64i32 - 37i32)) as i64 >> (64i32 - 37i32 - shift)) as u64,
    };
    // Without a hint a range may start anywhere, with DS=1 as well: the first bullet of ITYBWT says otherwise for 4K,
    // but not the description of any of the instructions (C5.5), nor their pseudocode (J1.1.3.451 TLBIRange).
    let level = match (hint, lpa2, g.granule()) {
        (0, ..) | (1, false, Granule::K16) => None,
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
