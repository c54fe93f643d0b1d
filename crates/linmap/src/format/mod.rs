//! The architecture's definitions: geometry, descriptors, TLBI operands. Values and pure functions; no memory, no CPU.

mod address;
mod address_format;
mod attributes;
mod change;
mod decode;
mod descriptor;
mod geometry;
mod leaf_change;
mod mair;
mod remake;
mod span;
mod table_limits;
mod tlbi;
mod transition;
mod unaligned;

pub use address::{Pa, Va};
pub(crate) use address_format::in_place_bits;
pub use attributes::{Attributes, MemoryType};
pub use change::{Change, ChangeFlags, FixedBits};
pub(crate) use decode::Decoder;
pub use descriptor::{Descriptor, Entry, Leaf};
pub use geometry::{Geometry, GeometryError, Granule, Half, LeafSize, LeafSizes, Level, OaFormat};
pub(crate) use leaf_change::LeafChange;
pub use mair::Mair;
pub(crate) use remake::Remade;
pub use remake::Remake;
pub(crate) use span::Span;
pub use table_limits::{TableAttributes, TableLimits};
pub use tlbi::{Instruction, RangePages, Scope, Tlbi};
pub use transition::Transition;
pub use unaligned::Unaligned;
