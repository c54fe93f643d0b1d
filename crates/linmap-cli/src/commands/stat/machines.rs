//! Many machines: what `linmap stat` says of one, as values of a row.

use linmap::arch::{LeafSize, Level};
use serde_json::{Value, json};

use super::document;
use super::findings::Findings;
use crate::commands::csv::quoted;
use crate::commands::options::MapOptions;
use crate::commands::reading::{Failure, open, release, schema, view};
use crate::linux::cause::cpu_name;
use crate::map::view::View;
use crate::size::{grouped, human};
use crate::source::{Source, Wanted};
use crate::table::table;
use crate::terminal;

/// One machine, by its SOURCE.
pub(crate) struct Machine {
    /// The SOURCE, as on the command line.
    pub(crate) source: String,
    /// Its map, or the reason that it could not be read.
    pub(crate) facts: Result<Facts, String>,
}

/// The map of a machine at a glance.
pub(crate) struct Facts {
    pub(crate) release: Option<String>,
    /// The names of its CPUs, each once.
    pub(crate) cpus: Vec<String>,
    pub(crate) command_line: Option<String>,
    pub(crate) granule: String,
    pub(crate) va_bits: u32,
    /// Bytes that the linear map maps.
    pub(crate) bytes: u64,
    /// The descriptors of each size of leaf that there is, largest first.
    pub(crate) leaves: Vec<(LeafSize, u64)>,
    pub(crate) tables: u64,
    pub(crate) table_bytes: u64,
    pub(crate) tlb_entries: u64,
    /// Bytes of tables and TLB entries of the same memory in the largest leaves, if that is known.
    pub(crate) largest: Option<(u64, u64)>,
    pub(crate) in_pages: bool,
    /// The causes of a map in pages, as in documents.
    pub(crate) causes: Vec<&'static str>,
    /// Present-invalid bytes by purpose, as in documents.
    pub(crate) invalid: Vec<(&'static str, u64)>,
    document: Value,
}

impl Machine {
    /// Reads one machine. An error is reported at once and kept.
    pub(crate) fn read(source: &Source, options: &MapOptions, command: &str) -> Self {
        let facts = Self::facts(source, options, command).map_err(|why| {
            terminal::error(&why);
            why.to_string()
        });
        Self { source: source.to_string(), facts }
    }

    fn facts(source: &Source, options: &MapOptions, command: &str) -> Result<Facts, Failure> {
        let opened = open(source, Wanted::All, options.pausing)?;
        let view = view(&opened)?;
        let range = options.selection.linear(&view, command)?;
        Ok(Facts::of(&view, &Findings::of(&view, range)?))
    }
}

impl Facts {
    pub(crate) fn of(view: &View<'_>, findings: &Findings) -> Self {
        let (g, stats, evidence) = (view.geometry, &findings.survey.stats, &findings.evidence);
        let sizes = g.leaf_sizes();
        let leaves = sizes.iter().map(|size| (*size, stats.descriptors(*size))).filter(|leaf| leaf.1 != 0);
        let mut cpus: Vec<String> = evidence.midrs.iter().map(|midr| cpu_name(*midr)).collect();
        cpus.sort();
        cpus.dedup();
        Self {
            release: release(view).map(|release| release.to_string()),
            cpus,
            command_line: view.kernel.command_line.clone(),
            granule: g.granule().to_string(),
            va_bits: g.va_bits(),
            bytes: stats.bytes(g),
            leaves: leaves.collect(),
            tables: stats.tables,
            table_bytes: stats.table_bytes(g),
            tlb_entries: stats.tlb_entries(g),
            largest: findings.largest.map(|largest| (largest.table_bytes(g), largest.tlb_entries(g))),
            in_pages: evidence.in_pages(),
            causes: findings.explanation.causes.iter().map(|(cause, _)| cause.id()).collect(),
            invalid: evidence.invalid.iter().map(|kind| (kind.what.id(), kind.bytes)).collect(),
            document: document::of(view, findings),
        }
    }

    /// Returns the bytes in single pages, in contiguous runs of pages, and in blocks.
    pub(crate) fn by_kind(&self) -> [u64; 3] {
        let mut bytes = [0_u64; 3];
        for (size, descriptors) in &self.leaves {
            let kind = match (size.level == Level::PAGE, size.contiguous) {
                (true, false) => 0,
                (true, true) => 1,
                (false, _) => 2,
            };
            bytes[kind] = bytes[kind].saturating_add(descriptors.saturating_mul(1 << size.entry_shift));
        }
        bytes
    }

    fn invalid_bytes(&self) -> u64 {
        self.invalid.iter().map(|kind| kind.1).fold(0, u64::saturating_add)
    }
}

/// Returns a table with one row a machine, ending in a line break.
pub(super) fn text(machines: &[Machine]) -> String {
    let rows = machines.iter().map(|machine| match &machine.facts {
        Err(_) => vec![machine.source.clone(), "not read".to_owned()],
        Ok(facts) => vec![
            machine.source.clone(),
            facts.release.clone().unwrap_or_else(|| "unknown".to_owned()),
            facts.granule.clone(),
            human(facts.bytes),
            super::report::share(facts.by_kind()[2].saturating_add(facts.by_kind()[1]), facts.bytes),
            human(facts.table_bytes),
            grouped(facts.tlb_entries),
            if facts.in_pages { facts.causes.join(" ") } else { "-".to_owned() },
        ],
    });
    table(
        &[
            "source",
            "kernel",
            "granule",
            "RAM",
            "large",
            "table memory",
            "TLB entries",
            "in pages because of",
        ],
        rows,
    )
}

/// The columns of [`csv`].
const COLUMNS: &str = "source,release,granule,va_bits,bytes,page_bytes,contiguous_page_bytes,block_bytes,\
                       invalid_bytes,tables,table_bytes,tlb_entries,largest_table_bytes,largest_tlb_entries,\
                       in_pages,causes,error";

/// Returns comma-separated values, one row a machine after the names of the columns.
pub(super) fn csv(machines: &[Machine]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for machine in machines {
        let source = quoted(&machine.source);
        let row = match &machine.facts {
            Err(why) => format!("{source}{}{}", ",".repeat(16), quoted(why)),
            Ok(f) => {
                let [pages, runs, blocks] = f.by_kind();
                let (release, causes) =
                    (quoted(f.release.as_deref().unwrap_or_default()), f.causes.join(" "));
                let largest =
                    f.largest.map_or_else(|| ",".to_owned(), |(bytes, tlb)| format!("{bytes},{tlb}"));
                format!(
                    "{source},{release},{},{},{},{pages},{runs},{blocks},{},{},{},{},{largest},{},{causes},",
                    f.granule,
                    f.va_bits,
                    f.bytes,
                    f.invalid_bytes(),
                    f.tables,
                    f.table_bytes,
                    f.tlb_entries,
                    f.in_pages
                )
            }
        };
        text += &row;
        text.push('\n');
    }
    text
}

/// Returns the document of `docs/schema/linmap.stats-1.json`.
pub(super) fn document(machines: &[Machine]) -> Value {
    let all: Vec<Value> = machines.iter().map(one).collect();
    json!({
        "schema": schema("stats"),
        "ok": machines.iter().all(|machine| machine.facts.is_ok()),
        "machines": all,
    })
}

/// Returns the SOURCE of one machine, and the document of `linmap stat` for it.
fn one(machine: &Machine) -> Value {
    let stat = match &machine.facts {
        Ok(facts) => facts.document.clone(),
        Err(why) => json!({ "schema": schema("stat"), "ok": false, "error": why }),
    };
    json!({ "argument": machine.source, "stat": stat })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_all_columns() {
        let machine = Machine { source: "a".into(), facts: Err("it, is not there".into()) };
        let text = csv(&[machine]);
        assert_eq!(text.lines().nth(1), Some(format!("a{}\"it, is not there\"", ",".repeat(16)).as_str()));
        assert_eq!(COLUMNS.matches(',').count(), 16);
    }
}
