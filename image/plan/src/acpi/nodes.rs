//! Memory by node, from the SRAT: which node a range belongs to, and where memory may be added later.

use linmap::Pa;

use super::layout::{Srat, SratMemory};
use super::structures::each;
use super::tables::{Table, Tables};
use crate::nodes::{NODE_RANGES, NodeMemory, Nodes};
use crate::note::{Note, TableDefect};

/// The type of a structure that describes memory.
const MEMORY: u8 = 1;
const ENABLED: u32 = 1 << 0;
const HOT_PLUGGABLE: u32 = 1 << 1;

impl Tables<'_> {
    /// Returns the ranges of memory that belong to nodes; none without an SRAT, which a machine of one node need not have.
    pub(super) fn nodes(&self, note: &mut dyn FnMut(Note<'_>)) -> Nodes {
        let mut nodes = Nodes::new();
        let Some((_, bytes)) = self.get::<Srat>(Table::Srat, false, note) else { return nodes };
        let mut left_out = false;
        each((Table::Srat, bytes), size_of::<Srat>(), note, |part, note| {
            let memory = (part.kind == MEMORY).then(|| part.read::<SratMemory>(note)).flatten();
            let Some(memory) = memory else { return };
            let (start, size, flags) = (memory.base.get(), memory.length.get(), memory.flags.get());
            if flags & ENABLED == 0 || size == 0 {
                return;
            }
            let Some(end) = start.checked_add(size) else {
                return note(Table::Srat.wrong(TableDefect::BeyondAddresses { start, size }));
            };
            let hot_pluggable = flags & HOT_PLUGGABLE != 0;
            let range = NodeMemory { node: memory.domain.get(), range: Pa(start)..Pa(end), hot_pluggable };
            left_out |= nodes.try_push(range).is_err();
        });
        if left_out {
            note(Table::Srat.wrong(TableDefect::Ranges { most: NODE_RANGES }));
        }
        nodes
    }
}
