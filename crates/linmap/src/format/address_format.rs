//! Where descriptors keep the bits of an output address, by format (Arm ARM D8.3.1).

use crate::format::address::Pa;
use crate::format::attributes::Attributes;
use crate::format::geometry::{Geometry, OaFormat};

/// The attribute fields of a leaf; with LPA2 bits 9:8 are address bits.
pub(crate) const fn attribute_mask(format: OaFormat) -> u64 {
    match format {
        OaFormat::Lpa2 => Attributes::all().bits() & !Attributes::INNER_SHAREABLE.bits(),
        OaFormat::Bits48 | OaFormat::Lpa => Attributes::all().bits(),
    }
}

/// The number of low bits of an address that a format keeps in place.
pub(crate) const fn in_place_bits(format: OaFormat) -> u32 {
    match format {
        OaFormat::Bits48 | OaFormat::Lpa => 48,
        OaFormat::Lpa2 => 50,
    }
}

/// The bits of an address that a format moves: the lowest of them, the descriptor bit that holds it, and the mask of
/// the field.
pub(crate) const fn high_field(format: OaFormat) -> Option<(u32, u32, u64)> {
    match format {
        OaFormat::Bits48 => None,
        OaFormat::Lpa => Some((48, 12, 0b1111)),
        OaFormat::Lpa2 => Some((50, 8, 0b11)),
    }
}

pub(crate) const fn in_place(format: OaFormat) -> u64 {
    (1 << in_place_bits(format)) - 1
}

#[inline(always)]
pub(crate) const fn encode_oa(oa: Pa, format: OaFormat) -> u64 {
    // Below 2^48 every format keeps addresses in place. Most are, and every fill calls this.
    if oa.0 >> 48u32 == 0 { oa.0 } else { encode_high_oa(oa, format) }
}

#[cold]
const fn encode_high_oa(oa: Pa, format: OaFormat) -> u64 {
    match format {
        OaFormat::Bits48 => oa.0 & in_place(OaFormat::Bits48),
        OaFormat::Lpa => oa.0 & in_place(OaFormat::Lpa) | (oa.0 >> 48 & 0b1111) << 12,
        OaFormat::Lpa2 => oa.0 & in_place(OaFormat::Lpa2) | (oa.0 >> 50 & 0b11) << 8,
    }
}

#[inline]
pub(crate) const fn decode_oa(bits: u64, geometry: Geometry, shift: u32) -> Pa {
    let format = geometry.oa_format();
    let low = bits & in_place(format) & (u64::MAX << shift);
    Pa(match high_field(format) {
        Some((to, from, mask)) => low | ((bits >> from) & mask) << to,
        None => low,
    })
}
