//! The command lines that documents show: those in code blocks of the language `sh`.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A command line as a reader would copy it: without its comment, and in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The words, as a shell reads them.
    pub words: String,
    /// The line of the document that it begins in, from 1.
    pub line: usize,
}

/// The command lines of a document in Markdown.
#[must_use]
pub fn commands(text: &str) -> Vec<Command> {
    let mut found = Vec::new();
    let mut is_shell = false;
    for (event, range) in Parser::new_ext(text, Options::empty()).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => is_shell = &*language == "sh",
            Event::End(TagEnd::CodeBlock) => is_shell = false,
            Event::Text(block) if is_shell => {
                let first = 1 + text[..range.start].matches('\n').count();
                of_block(&block, first, &mut found);
            }
            _ => {}
        }
    }
    found
}

/// The command lines of a block whose first line is the `first` of the document.
fn of_block(block: &str, first: usize, found: &mut Vec<Command>) {
    let mut goes_on = false;
    for (number, line) in block.lines().enumerate() {
        let line = if line.starts_with('#') { "" } else { line.split(" # ").next().unwrap_or("") };
        let words = line.trim_end_matches('\\').trim();
        match found.last_mut() {
            Some(before) if goes_on => before.words += &format!(" {words}"),
            _ if words.is_empty() => {}
            _ => found.push(Command { words: words.to_owned(), line: first + number }),
        }
        goes_on = line.ends_with('\\');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_those_of_shell_blocks() {
        let text = "```text\nmake no\n```\n\n```sh\nmake a   # A comment.\n\n# b\ncd c && \\\n    make d\n```\n\n`make e`\n";
        let found: Vec<_> = commands(text).into_iter().map(|c| (c.words, c.line)).collect();
        assert_eq!(found, [("make a".to_owned(), 6), ("cd c && make d".to_owned(), 9)]);
    }
}
