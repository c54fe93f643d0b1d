//! Words that the house does not use, found in text. `words.txt` lists them, with better ones.

use std::fmt;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::Error;

/// The list for this workspace.
const LIST: &str = include_str!("words.txt");

/// A list of words.
#[derive(Debug)]
pub struct Words(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    words: String,
    pattern: Regex,
    advice: String,
}

/// A place with words of the list.
#[derive(Debug, PartialEq, Eq)]
pub struct Breach {
    /// The file.
    pub file: PathBuf,
    /// The line that the words begin in, from 1.
    pub line: usize,
    /// The words, as the list has them.
    pub words: String,
    /// The words to use instead.
    pub advice: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: '{}'; say {}", self.file.display(), self.line, self.words, self.advice)
    }
}

impl Words {
    /// The list of this workspace.
    ///
    /// # Errors
    ///
    /// If a line of it is not of its form.
    pub fn of_the_house() -> Result<Self, Error> {
        Self::parse(LIST)
    }

    /// Reads a list: `text WORDS = ADVICE` for words anywhere, `doc WORDS = ADVICE` for words that a doc comment
    /// begins with. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    ///
    /// If a line is not of that form.
    pub fn parse(list: &str) -> Result<Self, Error> {
        let lines = list.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|(index, line)| rule(line).ok_or(Error::WordList { line: index + 1 }))
            .collect::<Result<_, _>>()
            .map(Words)
    }

    /// All places in a text with words of the list, in the list's order.
    #[must_use]
    pub fn breaches(&self, file: &Path, text: &str) -> Vec<Breach> {
        let in_file = |rule: &'_ Rule| {
            let lines: Vec<_> = rule.pattern.captures_iter(text).map(|found| line_of(text, &found)).collect();
            let breach = |line| Breach {
                file: file.into(),
                line,
                words: rule.words.clone(),
                advice: rule.advice.clone(),
            };
            lines.into_iter().map(breach).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(in_file).collect()
    }
}

/// The line of the words that a match is about, from 1.
fn line_of(text: &str, found: &regex::Captures<'_>) -> usize {
    let start = found.get(1).map_or(0, |words| words.start());
    text[..start].matches('\n').count() + 1
}

fn rule(line: &str) -> Option<Rule> {
    let (place, rest) = line.split_once(' ')?;
    let (words, advice) = rest.split_once(" = ")?;
    // Between two words there can be the end of a line and the mark of a comment.
    let escaped: Vec<_> = words.split_whitespace().map(regex::escape).collect();
    let words_pattern = escaped.join(r"[\s/!#*]+");
    let pattern = match place {
        "text" => format!(r"(?i)\b({words_pattern})\b"),
        // The line before does not belong to the same comment.
        "doc" => {
            format!(r"(?m)(?:\A|^[ \t]*(?:[^/\s].*|/[^/].*|//[^/!].*)?\n)[ \t]*//[/!] ({words_pattern})\b")
        }
        _ => return None,
    };
    Some(Rule { words: words.into(), pattern: Regex::new(&pattern).ok()?, advice: advice.into() })
}
