//! The newest values in the format of OpenMetrics, for the textfile collector of node_exporter.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use super::history::History;
use crate::commands::reading::Failure;
use crate::size::Size;
use crate::whole_file::replace;

/// Writes the file.
pub(super) fn write(file: &Path, history: &History) -> Result<(), Failure> {
    replace(file, |new| new.write_all(of(history).as_bytes()))
        .map_err(|error| Failure::Wrong(format!("`{}` cannot be written: {error}", file.display())))
}

/// A kind of metric.
#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}

/// The text, and the labels that every sample has.
struct Metrics {
    text: String,
    source: String,
}

impl Metrics {
    /// Adds a family with one sample for each set of labels.
    fn family(&mut self, kind: Kind, name: &str, unit: &str, help: &str, samples: &[(String, f64)]) {
        let (kind, suffix) = match kind {
            Kind::Gauge => ("gauge", ""),
            Kind::Counter => ("counter", "_total"),
        };
        let _ = writeln!(self.text, "# TYPE linmap_{name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT linmap_{name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP linmap_{name} {help}");
        for (labels, value) in samples {
            let source = &self.source;
            let _ = writeln!(self.text, "linmap_{name}{suffix}{{source=\"{source}\"{labels}}} {value}");
        }
    }

    fn gauge(&mut self, name: &str, unit: &str, help: &str, value: f64) {
        self.family(Kind::Gauge, name, unit, help, &[(String::new(), value)]);
    }

    fn counter(&mut self, name: &str, unit: &str, help: &str, value: u64) {
        self.family(Kind::Counter, name, unit, help, &[(String::new(), value as f64)]);
    }
}

/// Returns the text.
fn of(history: &History) -> String {
    let mut m = Metrics { text: String::new(), source: escaped(&history.source) };
    let up = f64::from(u8::from(history.error.is_none()));
    m.gauge("up", "", "1 if the last reading succeeded; the other values are those of the last that did", up);
    m.counter("readings", "", "Readings that succeeded", history.readings);
    m.counter("failed_readings", "", "Readings that failed", history.failures);
    if let Some(reading) = history.newest() {
        let (g, stats) = (reading.geometry, &reading.stats);
        let release = escaped(reading.release.as_deref().unwrap_or_default());
        let info = format!(",release=\"{release}\",granule=\"{}\",va_bits=\"{}\"", g.granule(), g.va_bits());
        m.family(Kind::Gauge, "map", "", "1; its labels describe the map", &[(info, 1.0f64)]);
        let leaves = reading.leaves().into_iter().map(|(size, count)| {
            let (entry, contiguous) = (Size(1 << size.entry_shift), size.contiguous);
            (format!(",size=\"{entry}\",contiguous=\"{contiguous}\""), count as f64)
        });
        let leaves: Vec<_> = leaves.collect();
        m.family(Kind::Gauge, "leaf_descriptors", "", "Leaf descriptors of the linear map", &leaves);
        m.gauge("mapped_bytes", "bytes", "Memory in the linear map", stats.bytes(g) as f64);
        m.gauge("invalid_bytes", "bytes", "Present-invalid memory", reading.invalid as f64);
        m.gauge(
            "table_bytes",
            "bytes",
            "Memory of page tables of the linear map",
            stats.table_bytes(g) as f64,
        );
        m.gauge("tlb_entries", "", "TLB entries that cover the linear map", stats.tlb_entries(g) as f64);
        m.gauge("in_pages", "", "1 if the linear map is in pages", f64::from(u8::from(reading.in_pages)));
        let time = reading.unix_time();
        m.gauge("reading_timestamp_seconds", "seconds", "When the values were read", time);
        let halted = reading.halted.unwrap_or_default().as_secs_f64();
        m.gauge("halt_seconds", "seconds", "How long the guest was halted for the last reading", halted);
    }
    let counts = &history.counts;
    m.counter("splits", "", "Leaves that became smaller, since the start", counts.splits);
    m.counter("collapses", "", "Leaves that became larger, since the start", counts.collapses);
    let help = "Memory whose permissions changed, since the start";
    m.counter("changed_bytes", "bytes", help, counts.attributes);
    m.text + "# EOF\n"
}

/// Returns the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn labels_are_escaped() {
        let history = History::new("a\"b\\c\nd".into(), Duration::from_secs(1));
        let text = of(&history);
        assert!(text.contains("linmap_up{source=\"a\\\"b\\\\c\\nd\"} 1\n"), "{text}");
        assert!(
            text.contains("# TYPE linmap_splits counter\n") && text.contains("linmap_splits_total{"),
            "{text}"
        );
        assert!(text.ends_with("# EOF\n"));
    }
}
