//! The kernel's report: partial documents, merged into one. It comes from the guest, so every key can be missing and
//! every value can be anything.

use serde_json::{Map, Value};

use crate::printable::excerpt;

/// The name of the document's schema.
const SCHEMA: &str = "linmap.boot/1";

/// The longest text of a document that people are shown.
const MAX_TEXT: usize = 400;

/// One JSON object.
#[derive(Clone, Debug)]
pub(crate) struct Document(Value);

impl Default for Document {
    fn default() -> Self {
        Self(Value::Object(Map::new()))
    }
}

impl Document {
    /// Merges the object of this line. An error says why the line has none.
    pub(crate) fn merge_line(&mut self, line: &[u8]) -> Result<(), String> {
        match serde_json::from_slice(line) {
            Ok(part @ Value::Object(_)) => {
                merge(&mut self.0, part);
                Ok(())
            }
            Ok(_) => Err("not a JSON object".to_owned()),
            Err(error) => Err(format!("not JSON: {error}")),
        }
    }

    /// Adds facts that the kernel cannot know: the schema, the reason that the run is not fine, and how many tests
    /// passed.
    pub(crate) fn concluded(&self, error: Option<String>) -> Self {
        let mut keys = self.0.as_object().cloned().unwrap_or_default();
        if !keys.contains_key("schema") {
            keys.shift_insert(0, "schema".to_owned(), SCHEMA.into());
        }
        if let Some(Value::Object(tests)) = keys.get_mut("tests") {
            count(tests);
        }
        if let Some(error) = error {
            keys.insert("ok".to_owned(), false.into());
            keys.insert("error".to_owned(), error.into());
        }
        Self(keys.into())
    }

    pub(crate) fn as_value(&self) -> &Value {
        &self.0
    }

    /// Returns the value at a JSON pointer such as `/linear/bytes`, unless it is null.
    pub(crate) fn at(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer).filter(|value| !value.is_null())
    }

    pub(crate) fn number(&self, pointer: &str) -> Option<u64> {
        self.at(pointer)?.as_u64()
    }

    pub(crate) fn flag(&self, pointer: &str) -> Option<bool> {
        self.at(pointer)?.as_bool()
    }

    /// Returns a text that is safe to show on one line.
    pub(crate) fn text(&self, pointer: &str) -> Option<String> {
        Some(excerpt(self.at(pointer)?.as_str()?, MAX_TEXT))
    }

    pub(crate) fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// Reads `"0x40000000"`.
pub(crate) fn address(value: &Value) -> Option<u64> {
    let digits = value.as_str()?.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok()
}

/// Adds to the tests how many passed, how many failed, and the names of both in order.
fn count(tests: &mut Map<String, Value>) {
    let ok = |test: &Value| test.get("ok").and_then(Value::as_bool);
    let outcomes: Vec<(String, bool)> =
        tests.iter().filter_map(|(name, test)| Some((name.clone(), ok(test)?))).collect();
    let passed = outcomes.iter().filter(|(_, ok)| *ok).count();
    let failed = outcomes.len() - passed;
    let names: Vec<Value> = outcomes.into_iter().map(|(name, _)| name.into()).collect();
    for (key, value) in [("passed", passed.into()), ("failed", failed.into()), ("names", Value::Array(names))]
    {
        tests.insert(key.to_owned(), value);
    }
}

/// Merges objects key by key; for other values the later one wins.
fn merge(into: &mut Value, part: Value) {
    match (into, part) {
        (Value::Object(into), Value::Object(part)) => {
            for (key, value) in part {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, part) => *into = part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_support::prelude::*;

    fn merged(lines: &[&str]) -> Document {
        let mut document = Document::default();
        for line in lines {
            document.merge_line(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        document
    }

    #[test]
    fn objects_merge_and_everything_else_is_replaced() {
        let document = merged(&[
            r#"{"a":{"x":1,"y":[1,2]},"ok":null}"#,
            r#"{"a":{"y":[3],"z":{"deep":true}}}"#,
            r#"{"ok":true,"a":{"z":{"deep":{"er":1}}}}"#,
        ]);
        let expected = json!({"a": {"x": 1, "y": [3], "z": {"deep": {"er": 1}}}, "ok": true});
        assert_eq!(document.as_value(), &expected);
    }

    #[test]
    fn other_lines_change_nothing_and_say_why() {
        let mut document = merged(&[r#"{"a":1}"#]);
        for (line, reason) in [("[1]", "not a JSON object"), ("{\"a\":2", "not JSON"), ("", "not JSON")] {
            let error = document.merge_line(line.as_bytes()).expect_err(line);
            assert!(error.starts_with(reason), "{error}");
        }
        let deep = "{\"a\":".repeat(5000);
        assert!(document.merge_line(deep.as_bytes()).is_err());
        assert_eq!(document.as_value(), &json!({"a": 1}));
    }

    #[test]
    fn a_failure_overrides_what_the_kernel_said() {
        let mut document = merged(&[r#"{"ok":true,"finished":true}"#]);
        document = document.concluded(Some("interrupted".to_owned()));
        let expected = json!({"schema": SCHEMA, "ok": false, "finished": true, "error": "interrupted"});
        assert_eq!(document.as_value(), &expected);
        assert!(document.as_value().to_string().starts_with(r#"{"schema""#));
    }

    #[test]
    fn tests_are_counted_and_named() {
        let document = merged(&[
            r#"{"tests":{"split":{"ok":false,"wrong":1},"probe":{"ok":true},"odd":{"wrong":0},"passed":"all"}}"#,
            r#"{"tests":{"walk":{"ok":true},"split":{"wrong":2}}}"#,
        ]);
        let concluded = document.concluded(None);
        assert_eq!(
            (concluded.number("/tests/passed"), concluded.number("/tests/failed")),
            (Some(2), Some(1))
        );
        assert_eq!(concluded.at("/tests/names"), Some(&json!(["split", "probe", "walk"])));
        assert_eq!(concluded.number("/tests/split/wrong"), Some(2));
        assert_eq!(merged(&["{}"]).concluded(None).at("/tests"), None);
    }

    #[test]
    fn the_kernels_schema_stays() {
        let document = merged(&[r#"{"schema":"linmap.boot/2"}"#]);
        assert_eq!(document.concluded(None).as_value(), &json!({"schema": "linmap.boot/2"}));
    }

    #[test]
    fn values_of_another_kind_are_absent() {
        let document = merged(&[r#"{"a":"0x10","b":-1,"c":{"d":"x\u001b[2J"},"n":null}"#]);
        assert_eq!(document.at("/a").and_then(address), Some(16));
        assert_eq!(document.number("/a"), None);
        assert_eq!(document.number("/b"), None);
        assert_eq!(document.text("/c/d").as_deref(), Some("x^[[2J"));
        assert_eq!(document.flag("/n"), None);
        assert!(document.list("/c").is_empty() && document.at("/n").is_none());
    }

    /// Objects with few keys, so that they meet.
    fn object() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<u8>().prop_map(Value::from)
        ];
        let keys = |inner| prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| json!(map));
        keys(scalar.prop_recursive(3, 12, 3, keys).boxed())
    }

    /// Returns true if each value of a part is in the whole, at the same place.
    fn is_within(part: &Value, whole: &Value) -> bool {
        match (part, whole) {
            (Value::Object(part), Value::Object(whole)) => {
                part.iter().all(|(key, value)| whole.get(key).is_some_and(|other| is_within(value, other)))
            }
            (part, whole) => part == whole,
        }
    }

    proptest! {
        /// Noise changes nothing and is refused; the last object stands as it is.
        #[test]
        fn each_object_is_within_and_noise_is_not(lines in prop::collection::vec((object(), any::<Vec<u8>>()), 1..5)) {
            let mut document = Document::default();
            for (object, noise) in &lines {
                let before = document.as_value().clone();
                prop_assert_eq!(document.merge_line(object.to_string().as_bytes()), Ok(()));
                prop_assert!(is_within(object, document.as_value()));
                let keys = |value: &Value| value.as_object().map(|keys| keys.keys().cloned().collect::<std::collections::BTreeSet<_>>());
                prop_assert_eq!(keys(document.as_value()), keys(&before).zip(keys(object)).map(|(a, b)| &a | &b));
                let after = document.as_value().clone();
                let error = document.merge_line(noise).expect_err("noise");
                prop_assert!(error.starts_with("not JSON: ") || error == "not a JSON object", "{}", error);
                prop_assert_eq!(document.as_value(), &after);
            }
        }
    }
}
