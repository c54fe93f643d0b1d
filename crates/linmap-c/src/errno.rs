//! Which error becomes which number. The numbers are Linux's.

use linmap::error::{AdoptError, BuildError, ChangeError, CreateError, GeometryError, RepaintError};

/// An address or a length is not a multiple of the page size, the geometry is impossible, regions overlap or are not in
/// order, unknown flags or bits, a pointer is null or not aligned, or the map was not initialised.
pub const LINMAP_EINVAL: i32 = 22;
/// Out of table pages. All that were taken have been given back.
pub const LINMAP_ENOMEM: i32 = 12;
/// Nothing is mapped at an address of the range.
pub const LINMAP_ENOENT: i32 = 2;
/// Something is mapped already at an address of the range.
pub const LINMAP_EEXIST: i32 = 17;
/// An address is not in the half of the map, or physical memory is beyond what descriptors can express.
pub const LINMAP_ERANGE: i32 = 34;
/// Memory would be both writable and executable.
pub const LINMAP_EACCES: i32 = 13;
/// The addresses are in a part of the root that the map does not have (linmap_adopt).
pub const LINMAP_EPERM: i32 = 1;
/// A repaint is under way; or memory that is to be removed is in use for something else than plain RAM.
pub const LINMAP_EBUSY: i32 = 16;
/// A leaf in use would have to change its size, and neither do all CPUs promise LINMAP_NEVER_ABORTS nor
/// does the kernel promise LINMAP_PARKS; or a repaint without LINMAP_PARKS.
pub const LINMAP_EOPNOTSUPP: i32 = 95;
/// Another caller has claimed the addresses, or CPUs would have to be parked, and this caller cannot wait.
pub const LINMAP_EAGAIN: i32 = 11;
/// A CPU did not answer when it was to be parked.
pub const LINMAP_ETIMEDOUT: i32 = 110;
/// The tables have a descriptor that the library would not write.
pub const LINMAP_EUCLEAN: i32 = 117;

/// An error as a positive number.
pub(crate) trait Errno {
    fn errno(self) -> i32;
}

/// Returns 0 or a negative error.
pub(crate) fn answer<E: Errno>(result: Result<(), E>) -> i32 {
    result.map_or_else(|error| -error.errno(), |()| 0i32)
}

/// An argument that is refused before the library sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invalid;

impl Errno for Invalid {
    fn errno(self) -> i32 {
        LINMAP_EINVAL
    }
}

impl Errno for GeometryError {
    fn errno(self) -> i32 {
        LINMAP_EINVAL
    }
}

impl Errno for BuildError {
    fn errno(self) -> i32 {
        match self {
            Self::OutOfFrames { .. } => LINMAP_ENOMEM,
            Self::OutOfRange { .. } => LINMAP_ERANGE,
            _ => LINMAP_EINVAL,
        }
    }
}

impl Errno for ChangeError {
    fn errno(self) -> i32 {
        match self {
            Self::Build(error) => error.errno(),
            Self::OutOfFrames { .. } => LINMAP_ENOMEM,
            Self::OutsideHalf { .. } | Self::OutputAddress { .. } | Self::NotReached { .. } => LINMAP_ERANGE,
            Self::NotOwned { .. } => LINMAP_EPERM,
            Self::Occupied { .. } => LINMAP_EEXIST,
            Self::Hole { .. } => LINMAP_ENOENT,
            Self::WriteExecute { .. } => LINMAP_EACCES,
            Self::NeedsResize { .. } => LINMAP_EOPNOTSUPP,
            Self::CannotPark => LINMAP_ETIMEDOUT,
            Self::Busy { .. } => LINMAP_EAGAIN,
            Self::NotRam { .. } => LINMAP_EBUSY,
            Self::NotUnderstood { .. } => LINMAP_EUCLEAN,
            _ => LINMAP_EINVAL,
        }
    }
}

impl Errno for CreateError {
    fn errno(self) -> i32 {
        match self {
            Self::Build(error) => error.errno(),
            Self::Occupied { .. } => LINMAP_EEXIST,
            Self::NotOwned { .. } => LINMAP_EPERM,
            Self::Busy { .. } => LINMAP_EAGAIN,
            Self::WriteExecute { .. } => LINMAP_EACCES,
            _ => LINMAP_EINVAL,
        }
    }
}

impl Errno for AdoptError {
    fn errno(self) -> i32 {
        match self {
            Self::OutsideHalf { .. } => LINMAP_ERANGE,
            _ => LINMAP_EINVAL,
        }
    }
}

impl Errno for RepaintError {
    fn errno(self) -> i32 {
        match self {
            Self::OutOfFrames { .. } => LINMAP_ENOMEM,
            Self::OutsideHalf { .. } => LINMAP_ERANGE,
            Self::NotOwned { .. } => LINMAP_EPERM,
            Self::UnderWay => LINMAP_EBUSY,
            Self::Busy => LINMAP_EAGAIN,
            Self::CannotPark => LINMAP_ETIMEDOUT,
            Self::NotUnderstood { .. } => LINMAP_EUCLEAN,
            _ => LINMAP_EINVAL,
        }
    }
}
