//! The events of a run as `linmap-model replay --observed` reads them: the machine, then a line for each event, with the address of its
//! instruction.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use linmap_model::observed::Linked;
use linmap_model::{CpuId, Event, Setup, Word};

/// A log that is written.
#[derive(Debug)]
pub(crate) struct Log {
    out: BufWriter<File>,
    /// The first failure; nothing is written after it.
    failed: Option<io::Error>,
}

impl Log {
    /// Begins a log of a machine.
    pub(crate) fn new(path: &Path, setup: &Setup) -> io::Result<Self> {
        let mut out = BufWriter::new(File::create(path)?);
        writeln!(out, "{}", setup.to_json())?;
        Ok(Self { out, failed: None })
    }

    /// Writes an event, and before it the tables that came with it.
    pub(crate) fn write(&mut self, tables: &[(u64, Linked)], event: &Event, pc: u64) {
        if self.failed.is_none() {
            let cpu = event.cpu();
            let mut links = tables.iter().map(|(table, linked)| link(cpu, *table, linked));
            let all = links.try_for_each(|link| self.line(&link, 0));
            self.failed = all.and_then(|()| self.line(event, pc)).err();
        }
    }

    fn line(&mut self, event: &Event, pc: u64) -> io::Result<()> {
        let text = serde_json::to_string(event)?;
        writeln!(self.out, "{{\"pc\":\"{pc:#x}\",{}", text.trim_start_matches('{'))
    }

    /// Ends the log.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(why) => Err(why),
            None => self.out.flush(),
        }
    }
}

/// Returns the event that tells of a table.
fn link(cpu: CpuId, table: u64, linked: &Linked) -> Event {
    let words = linked.words.iter().enumerate().filter(|(_, word)| **word != 0);
    Event::Link {
        cpu,
        table,
        words: words.map(|(index, word)| (index, Word(*word))).collect(),
        unordered: (0..64u8).filter(|cpu| linked.unordered >> cpu & 1 == 1).collect(),
    }
}

#[cfg(test)]
mod tests {
    use linmap::{Geometry, Granule, OaFormat};
    use linmap_model::Core;
    use linmap_model::observed::watch;

    use super::*;

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let path = std::env::temp_dir().join(format!("linmap-judge-{}.log", std::process::id()));
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let mut log = Log::new(&path, &Setup::new(g, &[Core::WEAK; 2])).expect("room");
        let linked = Linked { words: vec![0, 0x4000_0703], unordered: 2 };
        let store = Event::Write { cpu: 1, table: 0x4000, index: 3, value: 5, count: 1, step: 0, was: None };
        log.write(&[(0x5000, linked)], &store, 0xffff_8000_0000_1000);
        log.write(&[], &Event::Leave { cpu: 0 }, 0);
        log.finish().expect("room");
        let text = std::fs::read_to_string(&path).expect("the log");
        std::fs::remove_file(&path).expect("it was there");
        assert_eq!(text.lines().count(), 4);
        assert_eq!(watch(text.as_bytes()).expect("a log").events(), 2);
    }
}
