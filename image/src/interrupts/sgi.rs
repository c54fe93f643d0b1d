//! The interrupts that CPUs send each other, and interrupts as a controller hands them over.

/// Software-generated interrupts, by their INTIDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Sgi {
    /// Ends a WFI, and no more.
    Wake = 0,
    /// Asks a CPU to park.
    Park = 1,
    /// Asks a CPU to do nothing for a moment.
    Hold = 2,
}

/// The SGIs as a mask of INTIDs.
pub(super) const SGIS: u32 = 1 << Sgi::Wake as u32 | 1 << Sgi::Park as u32 | 1 << Sgi::Hold as u32;

/// An acknowledged interrupt.
#[derive(Clone, Copy)]
pub(super) struct Acknowledged {
    /// The register as it was read.
    pub(super) raw: u32,
    /// The INTID in it.
    pub(super) intid: u32,
}
