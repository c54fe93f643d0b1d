//! Lines of a log, and the mistakes in them, in the words of a log.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The event of a line, whatever else it has.
#[derive(Deserialize)]
struct Tag {
    event: Option<String>,
}

/// Reads a line. If it is malformed, `wrong_event` may say that its event is wrong in this place.
///
/// # Errors
///
/// The mistake in the line.
pub(crate) fn read<T: DeserializeOwned>(
    line: &str,
    wrong_event: impl FnOnce(Option<&str>) -> Option<&'static str>,
) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| {
        if !line.trim_start().starts_with('{') {
            return "expected a JSON object".into();
        }
        let tag: Option<Tag> = serde_json::from_str(line).ok();
        let wrong = tag.and_then(|tag| wrong_event(tag.event.as_deref()));
        wrong.map_or_else(|| plain(&error), Into::into)
    })
}

/// Returns the message of an error in a line of JSON, without its line and column, which would be taken for those in
/// the log.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
