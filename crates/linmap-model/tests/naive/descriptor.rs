//! The meaning of a descriptor, bit by bit: 4K granule, 48-bit addresses, stage 1 (Arm ARM D8.3.1).

pub(crate) const VALID: u64 = 1;
/// Set in tables and pages, clear in blocks.
pub(crate) const TABLE_OR_PAGE: u64 = 1 << 1;
pub(crate) const MEMORY_TYPE: u64 = 0b111 << 2;
pub(crate) const READ_ONLY: u64 = 1 << 7;
pub(crate) const SHAREABILITY: u64 = 0b11 << 8;
pub(crate) const ACCESSED: u64 = 1 << 10;
/// In a descriptor that is not valid the bit says that the leaf is kept: hardware ignores it there. Then bit 1 is what
/// it would be in a valid leaf if the leaf is global, and the other value if it is not.
pub(crate) const NOT_GLOBAL: u64 = 1 << 11;
pub(crate) const DIRTY_MANAGED: u64 = 1 << 51;
pub(crate) const CONTIGUOUS: u64 = 1 << 52;
pub(crate) const PXN: u64 = 1 << 53;
pub(crate) const UXN: u64 = 1 << 54;
/// Hardware ignores them.
pub(crate) const SOFTWARE: u64 = 0b1111 << 55;
/// One of them that means nothing to the library either: its leaves may merge.
pub(crate) const SOFTWARE_BIT: u64 = 1 << 55;

const NON_SECURE: u64 = 1 << 5;
const GUARDED: u64 = 1 << 50;
/// Bits 63:59 of a leaf.
const UPPER: u64 = 0b1_1111 << 59;
const USER: u64 = 1 << 6;

/// Everything in a leaf that is neither its address nor its kind.
pub(crate) const ATTRIBUTES: u64 = MEMORY_TYPE
    | USER
    | READ_ONLY
    | SHAREABILITY
    | ACCESSED
    | NOT_GLOBAL
    | GUARDED
    | DIRTY_MANAGED
    | PXN
    | UXN
    | SOFTWARE
    | NON_SECURE
    | UPPER;

/// Kernel memory: normal, inner shareable, read-write, never executed, global.
pub(crate) const RAM: u64 = 1 << 2 | SHAREABILITY | ACCESSED | PXN | UXN;

pub(crate) const PAGE: u64 = 1 << 12;
pub(crate) const BLOCK: u64 = 1 << 21;

/// The meaning of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    Hole,
    Leaf(Leaf),
    Table(u64),
    Reserved,
}

impl Meaning {
    /// Returns the leaf, if there is one that a walker may use.
    pub(crate) fn translating(self) -> Option<Leaf> {
        match self {
            Self::Leaf(leaf) => Some(leaf).filter(|leaf| leaf.translates()),
            _ => None,
        }
    }
}

/// A block or a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    pub(crate) oa: u64,
    pub(crate) attributes: u64,
    pub(crate) contiguous: bool,
    pub(crate) valid: bool,
}

impl Leaf {
    /// Returns true if a walker may use it: it is valid, and an access would not raise an access flag fault.
    pub(crate) fn translates(self) -> bool {
        self.valid && self.attributes & ACCESSED != 0
    }
}

/// Returns the bytes that a descriptor at level 2 or 3 translates.
pub(crate) fn span(level: u8) -> u64 {
    if level == 2 { BLOCK } else { PAGE }
}

/// Bits that must be zero in a valid descriptor at level 2 or 3.
fn must_be_zero(value: u64, level: u8) -> u64 {
    match level {
        2 if value & TABLE_OR_PAGE != 0 => 0b111 << 48,
        2 => 0b11 << 48 | (BLOCK - PAGE),
        _ => 0b11 << 48,
    }
}

/// Returns the meaning of a descriptor at level 2 or 3.
pub(crate) fn meaning(value: u64, level: u8) -> Meaning {
    let oa = value & 0x0000_ffff_ffff_f000 & !(span(level) - 1);
    let contiguous = value & CONTIGUOUS != 0;
    match (value & VALID != 0, value & TABLE_OR_PAGE != 0) {
        (true, _) if value & must_be_zero(value, level) != 0 => Meaning::Reserved,
        (true, true) if level == 2 => Meaning::Table(value & 0x0000_ffff_ffff_f000),
        (true, false) if level == 3 => Meaning::Reserved,
        (true, _) => Meaning::Leaf(Leaf { oa, attributes: value & ATTRIBUTES, contiguous, valid: true }),
        (false, page) if value & NOT_GLOBAL != 0 => {
            let local = if page == (level == 3) { 0 } else { NOT_GLOBAL };
            let attributes = value & ATTRIBUTES & !NOT_GLOBAL | local;
            Meaning::Leaf(Leaf { oa, attributes, contiguous, valid: false })
        }
        (false, _) => Meaning::Hole,
    }
}
