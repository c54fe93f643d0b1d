//! The counts of a boot, read from the command's document, and the figures stored of them.

use std::collections::BTreeMap;

use serde_json::Value;

/// Figures by name: `4k/64G/large/create/instructions`.
pub(crate) type Figures = BTreeMap<String, u64>;

/// The counts and parameters of a window, by the kernel's names.
pub(crate) type Window = BTreeMap<String, u64>;

/// The counts of one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The windows that the boot reported, by name.
    pub(crate) windows: BTreeMap<String, Window>,
    /// The table pages of the linear map.
    pub(crate) tables: u64,
    /// The bytes of free RAM.
    pub(crate) free: u64,
}

impl Counted {
    /// Reads a document of `linmap boot --count --json`.
    pub(crate) fn read(document: &Value) -> Result<Self, String> {
        if document["ok"] != Value::Bool(true) {
            let said =
                document["error"].as_str().unwrap_or("the kernel reports a failed test; see its console");
            return Err(format!("the boot failed: {said}"));
        }
        let windows = document["windows"].as_object().ok_or("the document has no \"windows\"")?;
        let windows = windows.iter().map(|(name, value)| Ok((name.clone(), window(name, value)?)));
        Ok(Self {
            windows: windows.collect::<Result<_, String>>()?,
            tables: number(document, "/linear/tables")?,
            free: number(document, "/memory/free_bytes")?,
        })
    }

    /// Returns one count of one window, if it was reported.
    pub(crate) fn count(&self, window: &str, what: &str) -> Option<u64> {
        self.windows.get(window)?.get(what).copied()
    }

    /// Returns the figures to store, their names prefixed with that of the boot.
    pub(crate) fn figures(&self, boot: &str) -> Figures {
        let windows = self.windows.iter().flat_map(|(name, window)| {
            let costs = window.iter().filter(|(what, _)| is_cost(what));
            costs.map(move |(what, count)| (format!("{boot}/{name}/{what}"), *count))
        });
        windows.chain([(format!("{boot}/tables"), self.tables)]).collect()
    }
}

/// True if this is a count, not a parameter of the window.
pub(crate) fn is_cost(what: &str) -> bool {
    is_instructions(what) || matches!(what, "tlbi" | "dsb" | "isb" | "tables" | "tables_after")
}

/// True if this counts instructions, which depend on the compiler.
pub(crate) fn is_instructions(figure: &str) -> bool {
    figure.ends_with("instructions")
}

/// True if this counts lines of memory.
pub(crate) fn is_lines(figure: &str) -> bool {
    figure.ends_with("_lines")
}

/// True if another compiler makes another figure of the same code.
pub(crate) fn is_compiled(figure: &str) -> bool {
    is_instructions(figure) || is_lines(figure)
}

fn window(name: &str, value: &Value) -> Result<Window, String> {
    let keys = value.as_object().ok_or(format!("window {name} is not an object but {value}"))?;
    let wrong = |what: &str, value| match what {
        "instructions" => format!("window {name} has no instructions: QEMU must count them (--count)"),
        _ => format!("\"{what}\" of window {name} should be a number and is {value}"),
    };
    let numbers = keys.iter().filter(|(what, value)| !value.is_null() || is_instructions(what));
    numbers
        .map(|(what, value)| Ok((what.clone(), value.as_u64().ok_or_else(|| wrong(what, value))?)))
        .collect()
}

fn number(document: &Value, pointer: &str) -> Result<u64, String> {
    let value = document.pointer(pointer).and_then(Value::as_u64);
    value.ok_or_else(|| format!("the document has no number at {pointer}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({
            "ok": true, "linear": {"tables": 4}, "memory": {"free_bytes": 4096},
            "windows": {"create": {"instructions": 5936, "tlbi": 0, "leaf_bytes": 4096, "x": null}},
        })
    }

    #[test]
    fn costs_are_figures_and_parameters_are_not() {
        let figures = Counted::read(&document()).unwrap().figures("4k/64G/large");
        let expected = [
            ("4k/64G/large/create/instructions", 5936),
            ("4k/64G/large/create/tlbi", 0),
            ("4k/64G/large/tables", 4),
        ];
        assert_eq!(figures, expected.map(|(name, n)| (name.to_owned(), n)).into());
    }

    #[test]
    fn a_parameter_can_be_asked_for() {
        let counted = Counted::read(&document()).unwrap();
        assert_eq!(counted.count("create", "leaf_bytes"), Some(4096));
        assert_eq!((counted.count("create", "x"), counted.count("walk", "tlbi")), (None, None));
    }

    #[test]
    fn an_error_says_what_is_missing() {
        let mut document = document();
        document["windows"]["create"]["instructions"] = Value::Null;
        assert!(Counted::read(&document).unwrap_err().contains("--count"));
        document["windows"]["create"]["instructions"] = "x".into();
        assert!(Counted::read(&document).is_err());
        assert!(Counted::read(&json!({"ok": false, "error": "no QEMU"})).unwrap_err().contains("no QEMU"));
        assert!(Counted::read(&json!({"ok": true})).unwrap_err().contains("windows"));
    }
}
