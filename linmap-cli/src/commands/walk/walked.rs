//! The result of a walk: the entries on the way to an address, and what they translate it to.

use linmap::{Attributes, Entry, Leaf, Va, Visited};
use serde_json::{Value, json};

use super::fields;
use crate::commands::reading::{document, hex};
use crate::map::permissions::in_words;
use crate::map::view::View;

/// The result of a walk.
pub(super) struct Walked {
    pub(super) va: Va,
    /// The symbol that was asked for, or that the address belongs to.
    pub(super) symbol: Option<String>,
    pub(super) region: &'static str,
    pub(super) path: Vec<Visited>,
}

impl Walked {
    /// Returns the last leaf, its permissions below the tables above it, and the entry; only if it is valid.
    pub(super) fn translation(&self) -> Option<(&Visited, Leaf, Attributes)> {
        let last = self.path.last()?;
        match last.entry {
            Entry::Leaf(leaf) if leaf.valid => Some((last, leaf, last.limits.restrict(leaf.attributes))),
            _ => None,
        }
    }

    pub(super) fn document(&self, view: &View<'_>) -> Value {
        let translation = self.translation();
        let mut document = document("walk", translation.is_some(), view);
        document["va"] = json!(hex(self.va.0));
        document["symbol"] = json!(self.symbol);
        document["region"] = json!(self.region);
        let levels = self.path.iter().map(|found| {
            let descriptor = descriptor(view, found);
            let fields =
                descriptor.map(|_| fields::of(found, view.geometry, view.cpu.mair)).unwrap_or_default();
            json!({
                "level": found.level.number(),
                "table": view.tables.map(|_| hex(found.slot.table.0)),
                "index": found.slot.index,
                "descriptor": descriptor.map(hex),
                "kind": fields::kind(found),
                "fields": fields.iter().map(fields::Field::document).collect::<Vec<_>>(),
            })
        });
        document["levels"] = json!(levels.collect::<Vec<_>>());
        document["translation"] = translation.map_or(Value::Null, |(found, leaf, attributes)| {
            let offset = self.va.0 - found.va.0;
            json!({
                "pa": view.has_addresses.then(|| hex(leaf.oa.0.wrapping_add(offset))),
                "leaf_bytes": view.geometry.level_size(found.level),
                "contiguous": leaf.contiguous,
                "attributes": hex(attributes.bits()),
                "permissions": in_words(attributes),
            })
        });
        document
    }
}

/// Returns a raw descriptor. A saved dump has none of tables, and perhaps none of leaves.
pub(super) fn descriptor(view: &View<'_>, found: &Visited) -> Option<u64> {
    let is_table = matches!(found.entry, Entry::Table(_));
    let is_known = view.saved.is_none() || (view.has_descriptors && !is_table);
    is_known.then_some(found.descriptor.0)
}
