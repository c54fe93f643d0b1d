//! ASIDs of TLB entries: which accesses may use an entry, and which invalidations are for it.

/// The ASIDs under which a TLB holds an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asid {
    /// All: the entry is global, or its regime has none.
    Global,
    /// One.
    Of(u16),
    /// One, and it is not known which.
    Unknown,
}

impl Asid {
    /// Returns true if accesses under an ASID may use the entry.
    pub(crate) const fn serves(self, current: Self) -> bool {
        match (self, current) {
            (Self::Of(ours), Self::Of(current)) => ours == current,
            _ => true,
        }
    }

    /// Returns true if an invalidation is for the entry: of this ASID and an address, or of all addresses. By address
    /// it is for global entries too (D8.17.5.4).
    pub(crate) const fn is_hit(self, asid: Option<u16>, by_address: bool) -> bool {
        match (self, asid) {
            (_, None) => true,
            (Self::Global, Some(_)) => by_address,
            (Self::Of(ours), Some(named)) => ours == named,
            (Self::Unknown, Some(_)) => false,
        }
    }
}
