//! Errors of a line of JSON, in the words of a log.

/// Returns the message of an error in a line of JSON, without its line and column, which would be taken for those in
/// the log.
pub(crate) fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
