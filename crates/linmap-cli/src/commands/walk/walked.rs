//! The result of a walk: the entries on the way to an address, and what they translate it to.

use linmap::arch::{Entry, Leaf};
use linmap::read::Visited;
use linmap::{Attributes, Va};
use serde_json::{Value, json};

use super::fields;
use crate::commands::csv;
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

    /// Returns comma-separated values: a row for each level. The last row has the translation.
    pub(super) fn csv(&self, view: &View<'_>) -> String {
        let mut text =
            "level,table,index,descriptor,kind,pa,leaf_bytes,contiguous,attributes,permissions\n".to_owned();
        for (index, found) in self.path.iter().enumerate() {
            let mut cells = vec![
                found.level.number().to_string(),
                view.tables.map(|_| hex(found.slot.table.0)).unwrap_or_default(),
                found.slot.index.to_string(),
                descriptor(view, found).map(hex).unwrap_or_default(),
                fields::kind(found).to_owned(),
            ];
            match self.translation().filter(|_| index + 1 == self.path.len()) {
                Some((found, leaf, attributes)) => cells.extend([
                    if view.has_addresses {
                        hex(leaf.oa.0.wrapping_add(self.va.0 - found.va.0))
                    } else {
                        String::new()
                    },
                    view.geometry.level_size(found.level).to_string(),
                    leaf.contiguous.to_string(),
                    hex(attributes.bits()),
                    in_words(attributes),
                ]),
                None => cells.extend([const { String::new() }; 5]),
            }
            text += &csv::row(cells);
        }
        text
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
