//! The steps of the library, judged once more without its announcements: nothing of it is a breach.

use linmap_model::Model;
use linmap_model::observed::{Finding, Grade, watch};
use test_support::Log;

/// Begins to log the steps of CPUs on a model.
pub(crate) fn log_of(model: &Model) -> Log {
    let log = Log::default();
    model.log_to(log.clone()).expect("room");
    log
}

/// Returns the findings in a log, the worst first.
pub(crate) fn findings(log: &Log) -> Vec<Finding> {
    let mut observer = watch(&log.take()[..]).expect("a log");
    // Every call has returned.
    observer.finish();
    observer.findings().cloned().collect()
}

/// Fails if something in a log is a breach.
pub(crate) fn is_no_breach(log: &Log) {
    let found = findings(log);
    let breach = found.iter().find(|finding| finding.grade == Grade::Breach);
    assert!(breach.is_none(), "{}", breach.map(ToString::to_string).unwrap_or_default());
}
