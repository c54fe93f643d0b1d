//! The manner of a change: when it invalidates, and what it does with holes.

bitflags::bitflags! {
    /// The manner in which a range changes. Without any flag a change invalidates at once and refuses holes. Whether it
    /// may wait for other callers is the platform's answer ([`Hardware::wait`](crate::Hardware::wait)), and each call may
    /// have a platform of its own.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
    pub struct ChangeFlags: u32 {
        /// Leaves the invalidations to a later [`flush`](crate::SharedSpace::flush) of the range, or of one that contains
        /// it. Until then CPUs may use the old translations and permissions. The range counts as *pending*: it is not
        /// collapsed, and another operation on any of its addresses invalidates first.
        const LATER = 1 << 0;
        /// Leaves out what is not mapped, instead of refusing the range.
        const SKIP_HOLES = 1 << 1;
    }
}
