//! The steps of the library, judged once more without its announcements: nothing of it is a breach.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use linmap_model::Model;
use linmap_model::observed::{Finding, Grade, watch};

/// The log of a model.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("one thread").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Begins to log what CPUs do on a model.
    pub(crate) fn of(model: &Model) -> Self {
        let log = Self::default();
        model.log_to(log.clone()).expect("room");
        log
    }

    /// Returns the findings in it, the worst first.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let log = self.0.lock().expect("one thread");
        watch(&log[..]).expect("a log").findings().cloned().collect()
    }

    /// Fails if something of it is a breach.
    pub(crate) fn is_no_breach(&self) {
        let found = self.findings();
        let breach = found.iter().find(|finding| finding.grade == Grade::Breach);
        assert!(breach.is_none(), "{}", breach.map(ToString::to_string).unwrap_or_default());
    }
}
