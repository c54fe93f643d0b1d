//! Compares documents with their schemas in `docs/schema`. Knows as much of JSON Schema as these use.

use serde_json::Value;

/// Reads the schema of this name, such as `linmap.stat-2`.
pub(crate) fn read(name: &str) -> Value {
    let path = format!("{}/../../docs/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns what a document has that its schema does not permit, or lacks, with the path to each.
pub(crate) fn faults(schema: &Value, document: &Value) -> Vec<String> {
    wrong(schema, schema, document, "")
}

fn wrong(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let defined = root.pointer(name.trim_start_matches('#')).expect("a definition");
        return wrong(root, defined, value, at);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let each = choices.iter().map(|choice| wrong(root, choice, value, at));
        return each.min_by_key(Vec::len).unwrap_or_default();
    }
    let mut found = Vec::new();
    let is = |name: &str| match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    };
    let fits = match &schema["type"] {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    let listed = schema["enum"].as_array().is_none_or(|list| list.contains(value));
    let constant = schema.get("const").is_none_or(|constant| constant == value);
    if !fits || !listed || !constant {
        found.push(format!("{at}: {value}"));
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(known) => found.extend(wrong(root, known, inner, &format!("{at}/{key}"))),
            None if schema["additionalProperties"].is_object() => {
                found.extend(wrong(root, &schema["additionalProperties"], inner, &format!("{at}/{key}")));
            }
            None => found.push(format!("{at}/{key} is not in the schema")),
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    found.extend(required.filter(|key| value.get(key).is_none()).map(|key| format!("{at}/{key} is missing")));
    for inner in value.as_array().into_iter().flatten() {
        found.extend(wrong(root, &schema["items"], inner, &format!("{at}[]")));
    }
    found
}
