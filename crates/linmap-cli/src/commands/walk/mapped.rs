//! `linmap walk --pa`: every mapping of a page of memory.

use linmap::Pa;
use serde_json::{Value, json};

use crate::commands::csv;
use crate::commands::reading::{document, facts, hex};
use crate::linux::regions::Regions;
use crate::map::mappings::{MAX_MAPPINGS, Mapping, contradictions};
use crate::map::permissions::in_words;
use crate::map::stretches::words;
use crate::map::view::View;
use crate::size::{grouped, human};
use crate::table::table;
use crate::terminal::{ASIDE, HEADING};

/// The mappings of an address in memory, each with the name of its region.
pub(super) struct Mapped {
    pub(super) pa: Pa,
    pub(super) mappings: Vec<(&'static str, Mapping)>,
}

impl Mapped {
    pub(super) fn new(pa: Pa, mappings: Vec<Mapping>, regions: &Regions) -> Self {
        let named = mappings.into_iter().map(|mapping| (regions.name_at(mapping.va), mapping));
        Self { pa, mappings: named.collect() }
    }

    /// Returns true if an access to one of the addresses reaches it.
    pub(super) fn is_mapped(&self) -> bool {
        self.mappings.iter().any(|(_, mapping)| mapping.valid)
    }

    /// Returns true if two of the mappings contradict each other.
    fn is_contradicted(&self) -> bool {
        let mut kinds: Vec<_> = self.valid().map(|mapping| mapping.attributes).collect();
        kinds.sort_by_key(|attributes| attributes.bits());
        kinds.dedup();
        let pairs = kinds
            .iter()
            .enumerate()
            .flat_map(|(index, one)| kinds[index + 1..].iter().map(move |o| (one, o)));
        pairs.into_iter().any(|(one, other)| contradictions(*one, *other).next().is_some())
    }

    fn valid(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.iter().map(|(_, mapping)| mapping).filter(|mapping| mapping.valid)
    }

    pub(super) fn document(&self, view: &View<'_>) -> Value {
        let mut document = document("mappings", self.is_mapped(), view);
        document["pa"] = json!(hex(self.pa.0));
        document["contradict"] = json!(self.is_contradicted());
        let mapping = |(region, mapping): &(&str, Mapping)| {
            json!({
                "va": hex(mapping.va.0),
                "region": region,
                "leaf_bytes": mapping.bytes,
                "contiguous": mapping.contiguous,
                "valid": mapping.valid,
                "attributes": hex(mapping.attributes.bits()),
                "permissions": in_words(mapping.attributes),
            })
        };
        document["mappings"] = json!(self.mappings.iter().map(mapping).collect::<Vec<_>>());
        document
    }

    /// Returns comma-separated values, a row for each mapping.
    pub(super) fn csv(&self) -> String {
        let head = "va,region,leaf_bytes,contiguous,valid,attributes,permissions\n".to_owned();
        self.mappings.iter().fold(head, |text, (region, mapping)| {
            let Mapping { va, bytes, attributes, contiguous, valid } = *mapping;
            text + &csv::row([
                hex(va.0),
                (*region).to_owned(),
                bytes.to_string(),
                contiguous.to_string(),
                valid.to_string(),
                hex(attributes.bits()),
                in_words(attributes),
            ])
        })
    }

    /// Returns the report for people, ending in a line break.
    pub(super) fn report(&self, view: &View<'_>) -> String {
        let mut text = format!("{HEADING}{}{HEADING:#}: {}, {}\n", self.pa, view.name(), facts(view));
        let is_ram = view.tables.and_then(|tables| tables.memory.is_ram(self.pa));
        if is_ram == Some(false) {
            text += "It is no RAM of this machine.\n";
        }
        if self.mappings.is_empty() {
            return text + "Nothing maps it.\n";
        }
        let rows = self.mappings.iter().map(|(region, mapping)| {
            let Mapping { va, bytes, attributes, contiguous, valid } = *mapping;
            let permissions =
                if valid { in_words(attributes) } else { "kept, but not valid: accesses fault".to_owned() };
            let cells =
                [va.to_string(), (*region).to_owned(), human(bytes), words(attributes, contiguous, valid)];
            [&cells[..], &[permissions]].concat()
        });
        text += &format!("\n{}", table(&["address", "region", "leaf", "attributes", "permissions"], rows));
        if self.mappings.len() >= MAX_MAPPINGS {
            text += &format!("{ASIDE}note:{ASIDE:#} these are the first {}\n", grouped(MAX_MAPPINGS as u64));
        }
        if self.is_contradicted() {
            text += "Two of them contradict each other; `linmap check` says how.\n";
        }
        text
    }
}
