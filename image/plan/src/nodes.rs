//! Nodes of memory: RAM by the processors that are near to it, and addresses where RAM may be added while the machine
//! runs.

use core::ops::Range;

use arrayvec::ArrayVec;
use linmap::Pa;

/// The most ranges that are kept.
pub const NODE_RANGES: usize = 64;

/// A range of memory that belongs to one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeMemory {
    /// The number of the node: the proximity domain of ACPI.
    pub node: u32,
    /// The addresses. Not all of them need be RAM.
    pub range: Range<Pa>,
    /// RAM may be added or removed here while the machine runs.
    pub hot_pluggable: bool,
}

/// Ranges of memory, each with its node, in the order of the description.
pub type Nodes = ArrayVec<NodeMemory, NODE_RANGES>;
