//! Findings that are known: a rule, a function and the reason on each line of a file.

use std::path::Path;

use linmap_model::Rule;
use serde_json::Value;

use super::failure::Failure;

/// A finding that is allowed.
#[derive(PartialEq, Eq, Debug)]
struct Row {
    rule: String,
    function: String,
    reason: String,
}

/// The findings that are allowed.
#[derive(Default, Debug)]
pub(crate) struct Allowed {
    rows: Vec<Row>,
}

impl Allowed {
    /// Reads a file of them. Lines that begin with `#` are comments. A function may be an address, and stands between backquotes if it has
    /// spaces.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = file else { return Ok(Self::default()) };
        let text =
            std::fs::read_to_string(path).map_err(|error| Failure::File { path: path.into(), error })?;
        Self::parse(&text).map_err(|(line, why)| Failure::Refused {
            option: "--allow".into(),
            value: path.display().to_string(),
            why: format!("line {line}: {why}"),
        })
    }

    /// Reads the lines; an error is the number of a wrong one, and what is wrong.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let lines = text.lines().map(str::trim).enumerate();
        let rows = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let row = |(number, line): (usize, &str)| row(line).map_err(|why| (number + 1, why));
        Ok(Self { rows: rows.map(row).collect::<Result<_, _>>()? })
    }

    /// Gives each finding that is allowed the reason, and lists the rows that no finding needed. The function is that of the step that
    /// makes it wrong, or of the store that it is about, with or without what a compiler adds to its name (`.constprop.0`).
    pub(crate) fn apply(&self, document: &mut Value) {
        let mut used = vec![false; self.rows.len()];
        for finding in document["findings"].as_array_mut().into_iter().flatten() {
            let names_of = |step: &Value| {
                let name = step["function"].as_str().unwrap_or_default();
                let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
                [name.to_owned(), step["pc"].as_str().unwrap_or_default().to_owned()]
            };
            let names = [names_of(&finding["step"]), names_of(&finding["store"]["step"])].concat();
            let rule = finding["rule"].as_str().unwrap_or_default().to_owned();
            let is = |name: &String, row: &Row| {
                *name == row.function || name.split('.').next() == Some(row.function.as_str())
            };
            let fits = |row: &Row| row.rule == rule && names.iter().any(|name| is(name, row));
            if let Some(at) = self.rows.iter().position(fits) {
                used[at] = true;
                finding["allowed"] = self.rows[at].reason.clone().into();
            }
        }
        let unused = self.rows.iter().zip(used).filter(|(_, used)| !used);
        document["unused"] = unused.map(|(row, _)| format!("{} {}", row.rule, row.function)).collect();
    }
}

/// Reads a line.
fn row(line: &str) -> Result<Row, String> {
    let word = |text: &str| -> Option<(String, String)> {
        let (word, rest) = match text.strip_prefix('`') {
            Some(quoted) => quoted.split_once('`')?,
            None => text.split_once(char::is_whitespace)?,
        };
        Some((word.to_owned(), rest.trim().to_owned()))
    };
    let parts = word(line)
        .and_then(|(rule, rest)| word(&rest).map(|(function, reason)| Row { rule, function, reason }));
    let row = parts.filter(|row| !row.reason.is_empty()).ok_or("it is not `RULE FUNCTION REASON`")?;
    if !Rule::ALL.iter().any(|rule| format!("{rule:?}") == row.rule) {
        return Err(format!("there is no rule {}", row.rule));
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_is_a_rule_a_function_and_a_reason() {
        let allowed = Allowed::parse("# lazily\nStale vunmap_range  it invalidates later\nFreed  f  g h\n");
        let allowed = allowed.expect("rows");
        let mut document = json!({ "findings": [
            { "rule": "Stale", "step": { "function": "vunmap_range+0x10" }, "store": null },
            { "rule": "Stale", "step": {}, "store": { "step": { "function": "vunmap_range" } } },
            { "rule": "Freed", "step": { "function": "vunmap_range" }, "store": null },
            { "rule": "Stale", "step": { "function": "vunmap_range.part.0+0x8" }, "store": null },
        ]});
        allowed.apply(&mut document);
        let reasons: Vec<&Value> = (0..4).map(|n| &document["findings"][n]["allowed"]).collect();
        let known = &json!("it invalidates later");
        assert_eq!(reasons, [known, known, &Value::Null, known]);
        assert_eq!(document["unused"], json!(["Freed f"]));
        let line = |text: &str| Allowed::parse(text).map_err(|(line, _)| line).map(drop);
        assert_eq!((line("\nStale f\n"), line("Stael f why"), line(" # Stale\n")), (Err(2), Err(1), Ok(())));
    }

    #[test]
    fn a_function_may_have_spaces_or_no_name() {
        let allowed =
            Allowed::parse("Stale `<A as B + C>::f` why\nFreed 0x40080000 because\n").expect("rows");
        let mut document = json!({ "findings": [
            { "rule": "Stale", "step": { "function": "<A as B + C>::f+0x10" }, "store": null },
            { "rule": "Freed", "step": { "pc": "0x40080000" }, "store": null },
            { "rule": "Freed", "step": { "pc": "0x40080004" }, "store": null },
        ]});
        allowed.apply(&mut document);
        let reasons: Vec<&Value> = (0..3).map(|n| &document["findings"][n]["allowed"]).collect();
        assert_eq!(reasons, [&json!("why"), &json!("because"), &Value::Null]);
    }
}
