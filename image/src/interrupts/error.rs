//! Errors of the interrupt controller and the timer.

use core::fmt;
use core::ops::Range;

use linmap::Pa;

/// The reason why there are no interrupts, or none on a CPU.
#[derive(Debug)]
pub(crate) enum Error {
    /// The device tree has no controller that is known.
    NoController,
    /// The device tree does not say which interrupt the virtual timer has.
    NoTimer,
    /// The timer does not say how fast it counts.
    NoFrequency,
    /// The controller's registers are in RAM, or at no address.
    NotRegisters(Range<Pa>),
    /// The registers cannot be mapped.
    Map(linmap::error::ChangeError),
    /// It is a GICv3, and the CPU has no system registers for it.
    NoSystemRegisters,
    /// No redistributor belongs to the CPU.
    NoRedistributor {
        /// The CPU's affinity.
        mpidr: u64,
    },
    /// A register did not change as it should.
    Stuck(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoController => f.write_str("the device tree has no GICv2 and no GICv3"),
            Self::NoTimer => {
                f.write_str("the device tree does not say which interrupt the virtual timer has")
            }
            Self::NoFrequency => f.write_str("CNTFRQ_EL0 does not say how fast the timer counts"),
            Self::NotRegisters(range) => {
                write!(f, "no interrupt controller can be at {range:?}: that is RAM or no address")
            }
            Self::Map(e) => write!(f, "the interrupt controller cannot be mapped: {e}"),
            Self::NoSystemRegisters => f.write_str("the CPU has no system registers for its GICv3"),
            Self::NoRedistributor { mpidr } => write!(f, "no redistributor belongs to MPIDR {mpidr:#x}"),
            Self::Stuck(register) => write!(f, "{register} does not become what was written"),
        }
    }
}
