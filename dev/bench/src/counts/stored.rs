//! The file of stored figures: sorted, one on each line, so that a diff is readable.

use serde_json::{Map, Value, json};

use super::counted::Figures;
use super::machine::Versions;

/// Figures, and the versions that they were counted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) versions: Versions,
    pub(crate) figures: Figures,
}

impl Stored {
    /// Reads the text of the file.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let version = |key: &str| {
            document[key].as_str().map(str::to_owned).ok_or_else(|| format!("\"{key}\" should be a text"))
        };
        let versions = Versions { qemu: version("qemu")?, rustc: version("rustc")? };
        Ok(Self { versions, figures: figures(&document)? })
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> String {
        let Versions { qemu, rustc } = &self.versions;
        let figures: Map<String, Value> =
            self.figures.iter().map(|(name, count)| (name.clone(), (*count).into())).collect();
        format!("{:#}\n", json!({ "qemu": qemu, "rustc": rustc, "figures": figures }))
    }
}

/// Reads the figures of a document.
pub(crate) fn figures(document: &Value) -> Result<Figures, String> {
    let figures = document["figures"].as_object().ok_or("\"figures\" should be an object")?;
    let number = |(name, value): (&String, &Value)| match value.as_u64() {
        Some(count) => Ok((name.clone(), count)),
        None => Err(format!("\"{name}\" is {value}, and should be a number")),
    };
    figures.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_a_figure_a_line() {
        let versions = Versions { qemu: "QEMU 7.2".to_owned(), rustc: "rustc 1.95".to_owned() };
        let figures = [("b", 2), ("a", 1)].map(|(name, count)| (name.to_owned(), count)).into();
        let stored = Stored { versions, figures };
        let expected = "\
{
  \"qemu\": \"QEMU 7.2\",
  \"rustc\": \"rustc 1.95\",
  \"figures\": {
    \"a\": 1,
    \"b\": 2
  }
}
";
        assert_eq!(stored.text(), expected);
        assert_eq!(Stored::read(expected), Ok(stored));
    }

    #[test]
    fn an_error_says_what_should_be_there() {
        let error = |text| Stored::read(text).unwrap_err();
        assert_eq!(error("{}"), "\"qemu\" should be a text");
        assert_eq!(error(r#"{"qemu":"","rustc":""}"#), "\"figures\" should be an object");
        let wrong = r#"{"qemu":"","rustc":"","figures":{"a":"b"}}"#;
        assert_eq!(error(wrong), "\"a\" is \"b\", and should be a number");
    }
}
