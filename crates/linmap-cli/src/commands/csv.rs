//! Comma-separated values.

/// Returns one row, ending in a line break.
pub(crate) fn row<C: AsRef<str>>(cells: impl IntoIterator<Item = C>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| quoted(cell.as_ref())).collect();
    format!("{}\n", cells.join(","))
}

/// Returns a field, in quotes if it must have them.
pub(crate) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_if_they_must_be() {
        assert_eq!(quoted("6.1.0-40-arm64"), "6.1.0-40-arm64");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(row(["a", "b,c", ""]), "a,\"b,c\",\n");
    }
}
