//! A page walk as the manual tells it (Arm ARM D8.2 and D8.3.1), with only `Memory::load` in common.

use linmap::host::HostMemory;
use linmap::{Geometry, OaFormat, Pa, Slot};

use crate::fewest::manual::Manual;
use crate::raw::load;

/// The output address of an address and the attribute fields of its descriptor, or a fault.
pub(crate) fn translate(memory: &HostMemory, g: Geometry, root: Pa, va: u64) -> Option<(u64, u64)> {
    let manual = Manual::of(g);
    if va < u64::MAX << manual.va_bits {
        return None;
    }
    let inside = va & !(u64::MAX << manual.va_bits);
    let (mut table, mut level) = (root, manual.root);
    loop {
        let span = manual.span(level);
        let index = (inside / span % (manual.page() / 8)) as usize;
        let bits = load(memory, Slot { table, index }).0;
        let address = address(bits, g.oa_format());
        match (bits & 3, level) {
            (3, ..3) => (table, level) = (Pa(address & !(manual.page() - 1)), level + 1),
            (1, ..3) | (3, 3) if manual.leaf(level, 1).is_some() => {
                return Some(((address & !(span - 1)) + inside % span, bits & fields(g.oa_format())));
            }
            _ => return None,
        }
    }
}

/// The address in a descriptor, with low bits that belong to other fields.
fn address(bits: u64, format: OaFormat) -> u64 {
    match format {
        OaFormat::Bits48 => bits & 0x0000_ffff_ffff_f000,
        OaFormat::Lpa => bits & 0x0000_ffff_ffff_0000 | (bits & 0xf000) << 36,
        OaFormat::Lpa2 => bits & 0x0003_ffff_ffff_f000 | (bits & 0x300) << 42,
    }
}

/// UXN, PXN, GP, nG, AF, SH, AP and AttrIndx; the contiguous bit is no attribute.
fn fields(format: OaFormat) -> u64 {
    let shareability = if format == OaFormat::Lpa2 { 0 } else { 0x300 };
    0x0064_0000_0000_0cdc | shareability
}
