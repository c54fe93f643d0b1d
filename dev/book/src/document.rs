//! One Markdown document: its links, the files that it includes, its code spans, and the anchors of its headings.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

/// A link as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The destination, relative to the document.
    pub destination: String,
    /// The bytes of the document that the link takes, text and destination.
    pub range: Range<usize>,
    /// The line that it begins in, from 1.
    pub line: usize,
}

/// The links and anchors of a document.
#[derive(Debug, Default)]
pub struct Document {
    /// Links and pictures, in the order of the text; web addresses among them.
    pub links: Vec<Link>,
    /// Files that mdBook includes, `FILE` or `FILE:ANCHOR`.
    pub includes: Vec<Link>,
    /// References `[text][label]` without a definition: the labels.
    pub undefined: Vec<Link>,
    /// Code within the text, `like/this`.
    pub codes: Vec<Link>,
    /// The anchors that GitHub and mdBook give to the headings.
    pub anchors: BTreeSet<String>,
}

impl Document {
    /// Reads a document in Markdown.
    pub fn parse(text: &str) -> Self {
        let mut document = Self { includes: includes(text), ..Self::default() };
        let mut undefined = Vec::new();
        let resolve = |broken: pulldown_cmark::BrokenLink<'_>| {
            // `[text]` alone may be plain text in brackets.
            if matches!(broken.link_type, LinkType::Reference | LinkType::Collapsed) {
                undefined.push((broken.reference.to_string(), broken.span));
            }
            None
        };
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS;
        let mut heading: Option<String> = None;
        let mut used = HashMap::new();
        let parser = Parser::new_with_broken_link_callback(text, options, Some(resolve));
        for (event, range) in parser.into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let title = heading.take().unwrap_or_default();
                    document.anchors.insert(unique(anchor(&title), &mut used));
                }
                Event::Text(ref part) | Event::Code(ref part) => {
                    if let Some(title) = &mut heading {
                        title.push_str(part);
                    }
                    if let Event::Code(code) = event {
                        document.codes.push(link(text, code.into_string(), range));
                    }
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(link(text, dest_url.into_string(), range));
                }
                _ => {}
            }
        }
        document.undefined = undefined.into_iter().map(|(label, range)| link(text, label, range)).collect();
        document
    }
}

fn link(text: &str, destination: String, range: Range<usize>) -> Link {
    let line = 1 + text[..range.start].matches('\n').count();
    Link { destination, range, line }
}

/// The anchor of a heading: lower case, spaces as `-`, letters, digits, `-` and `_` only.
fn anchor(title: &str) -> String {
    let kept = title.trim().to_lowercase();
    kept.chars()
        .filter_map(|c| match c {
            _ if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
            _ if c.is_whitespace() => Some('-'),
            _ => None,
        })
        .collect()
}

/// Numbers a title that was there before: `title-1`, `title-2`.
fn unique(anchor: String, used: &mut HashMap<String, usize>) -> String {
    let count = used.entry(anchor.clone()).or_default();
    *count += 1;
    if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
}

/// The files that `{{#include FILE}}` names, in code blocks too.
fn includes(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("{{#") {
        let Some(length) = text[start..].find("}}") else { continue };
        let inner = &text[start + 3..start + length];
        if let Some((directive, file)) = inner.split_once(' ')
            && directive.ends_with("include")
        {
            found.push(link(text, file.trim().to_owned(), start..start + length + 2));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_of_github() {
        let text = "# A boot, step by step\n## `run=` & more\n## Same\n## Same\n";
        let anchors = Document::parse(text).anchors;
        let expected = ["a-boot-step-by-step", "run--more", "same", "same-1"];
        assert_eq!(anchors.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn links_are_found_with_their_lines() {
        let text = "a [b](c.md#d)\n![e](f.svg)\n\n```\n[not](a link)\n```\n[g][h] [i][j]\n\n[h]: k.md\n";
        let document = Document::parse(text);
        let links: Vec<_> = document.links.iter().map(|l| (l.destination.as_str(), l.line)).collect();
        assert_eq!(links, [("c.md#d", 1), ("f.svg", 2), ("k.md", 7)]);
        let undefined: Vec<_> = document.undefined.iter().map(|l| l.destination.as_str()).collect();
        assert_eq!(undefined, ["j"]);
    }

    #[test]
    fn code_in_the_text_is_found() {
        let document = Document::parse("# `a`\nb `c/d.rs`\n\n```\n`not`\n```\n");
        let codes: Vec<_> = document.codes.iter().map(|l| (l.destination.as_str(), l.line)).collect();
        assert_eq!(codes, [("a", 1), ("c/d.rs", 2)]);
    }

    #[test]
    fn included_files_are_found_in_code() {
        let includes =
            Document::parse("```rust\n{{#include ../a.rs:b}}\n{{#rustdoc_include c.rs}}\n```\n").includes;
        let files: Vec<_> = includes.iter().map(|l| l.destination.as_str()).collect();
        assert_eq!(files, ["../a.rs:b", "c.rs"]);
    }
}
