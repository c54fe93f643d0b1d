//! Probes: accesses that may fault, and return the fault (`probe_read` and its siblings in `entry.s`).

use core::fmt;

use linmap::Va;

/// The reason why a probe could not access an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Nothing is mapped there; the walk ended at this level.
    Translation(i8),
    /// The leaf, at this level, does not permit it.
    Permission(i8),
    /// Something else: the fault status code (Arm ARM D24.2, ESR_EL1, ISS).
    Other(u8),
}

impl Fault {
    /// Returns the fault that a syndrome (ESR_EL1) reports.
    pub(crate) const fn of(esr: u64) -> Self {
        let code = (esr & 0x3f) as u8;
        match code {
            0x04..=0x07 => Self::Translation((code & 3) as i8),
            0x0c..=0x0f => Self::Permission((code & 3) as i8),
            0x2b => Self::Translation(-1),
            _ => Self::Other(code),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Translation(level) => write!(f, "translation fault at level {level}"),
            Self::Permission(level) => write!(f, "permission fault at level {level}"),
            Self::Other(code) => write!(f, "fault status {code:#04x}"),
        }
    }
}

/// The result of a probe as `entry.s` returns it.
#[repr(C)]
struct Probed {
    /// The value that was read, or the syndrome.
    value: u64,
    faulted: u64,
}

impl Probed {
    const fn result(self) -> Result<u64, Fault> {
        if self.faulted == 0 { Ok(self.value) } else { Err(Fault::of(self.value)) }
    }
}

unsafe extern "C" {
    fn probe_read(va: u64) -> Probed;
    fn probe_write(va: u64, value: u64) -> Probed;
    fn probe_execute(va: u64) -> Probed;
}

/// Reads the aligned word at an address.
///
/// # Errors
///
/// The fault that the read ended in.
pub(crate) fn try_read(va: Va) -> Result<u64, Fault> {
    // SAFETY: a read of memory changes nothing, and a fault is recovered from. No device is mapped but
    // the console, whose registers may be read.
    unsafe { probe_read(va.0) }.result()
}

/// Writes the aligned word at an address.
///
/// # Errors
///
/// The fault that the write ended in; nothing was written.
///
/// # Safety
///
/// If the write succeeds, it is of memory that the caller owns.
pub(crate) unsafe fn try_write(va: Va, value: u64) -> Result<(), Fault> {
    // SAFETY: the caller's promise; a fault is recovered from.
    unsafe { probe_write(va.0, value) }.result().map(|_| ())
}

/// Calls the code at an address.
///
/// # Errors
///
/// The fault that the fetch of its first instruction ended in.
///
/// # Safety
///
/// If it can be executed, there is a function there, of the C convention, that can be called.
pub(crate) unsafe fn try_execute(va: Va) -> Result<(), Fault> {
    // SAFETY: the caller's promise; a fault of the fetch is recovered from.
    unsafe { probe_execute(va.0) }.result().map(|_| ())
}
