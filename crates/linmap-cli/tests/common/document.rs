//! Documents that commands print: each fits the schema that it names.

use serde_json::Value;

use crate::json_schema;

/// Returns a document. `options` say in a failure how it came about.
#[track_caller]
pub(crate) fn fitting(text: &str, options: &[&str]) -> Value {
    let document: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{options:?}: {error}: {text}"));
    let name = document["schema"].as_str().expect("a name").replace('/', "-");
    let faults = json_schema::faults(&json_schema::read(&name), &document);
    assert_eq!(faults, Vec::<String>::new(), "{options:?}");
    document
}
