//! Builds the book with mdBook: the chapters of `docs/`, then the documents at the root of the repository.
//!
//! The folder that is written stands alone: source files that a chapter links to are copied into it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use book::{Document, documents, normalized};
use mdbook_driver::MDBook;
use mdbook_driver::book::{BookItem, Chapter};
use mdbook_driver::errors::{Error, Result};

/// The folder of the book's own chapters.
const CHAPTERS: &str = "docs";
/// Where documents of the repository's root are in the book.
const PROJECT: &str = "project";
/// Where source files are in the book.
const SOURCES: &str = "source";

/// Writes the book to `folder`.
pub(crate) fn build(root: &Path, folder: &Path) -> Result<()> {
    let mut book = MDBook::load(root.join(CHAPTERS))?;
    book.config.build.build_dir = std::path::absolute(folder)?;
    book.book.push_item(BookItem::PartTitle("The project".to_owned()));
    for name in documents(root)?.iter().filter(|name| !name.starts_with(CHAPTERS)) {
        let content = fs::read_to_string(root.join(name))?;
        let title = name.file_stem().unwrap_or_default().to_string_lossy();
        book.book.push_item(Chapter::new(&title, content, Path::new(PROJECT).join(name), Vec::new()));
    }
    let mut sources = BTreeSet::new();
    let mut result = Ok(());
    book.book.for_each_chapter_mut(|chapter| {
        if result.is_ok() {
            result = link_within(chapter, &mut sources);
        }
    });
    result?;
    book.build()?;
    for name in &sources {
        let copy = folder.join(SOURCES).join(name);
        fs::create_dir_all(copy.parent().unwrap_or(folder))?;
        fs::copy(root.join(name), &copy)
            .map_err(|error| Error::msg(format!("{}: {error}", name.display())))?;
    }
    println!("The book is in {}", folder.join("index.html").display());
    Ok(())
}

/// Makes all links of a chapter lead into the book, and collects the source files among them.
fn link_within(chapter: &mut Chapter, sources: &mut BTreeSet<PathBuf>) -> Result<()> {
    let Some(path) = chapter.path.clone() else { return Ok(()) };
    let name = match path.strip_prefix(PROJECT) {
        Ok(name) => name.to_path_buf(),
        Err(_) => Path::new(CHAPTERS).join(&path),
    };
    let up = "../".repeat(path.components().count() - 1);
    // From the end, so that the places of the others stay as they are.
    for link in Document::parse(&chapter.content).links.iter().rev() {
        let (file, anchor) =
            link.destination.split_at(link.destination.find('#').unwrap_or(link.destination.len()));
        if file.is_empty() || file.contains("://") {
            continue;
        }
        let wrong = |why: &str| Error::msg(format!("{}:{}: {file}: {why}", name.display(), link.line));
        let target = normalized(&name, file).ok_or_else(|| wrong("is outside of the repository"))?;
        let place = place(&target);
        if place.starts_with(SOURCES) {
            sources.insert(target);
        }
        let written = &chapter.content[link.range.clone()];
        let at =
            written.rfind(&link.destination).ok_or_else(|| wrong("write the destination in its place"))?;
        let start = link.range.start + at;
        let destination = format!("{up}{}{anchor}", place.display());
        chapter.content.replace_range(start..start + link.destination.len(), &destination);
    }
    Ok(())
}

/// The place in the book of a file of the repository.
fn place(target: &Path) -> PathBuf {
    let within = match target.strip_prefix(CHAPTERS) {
        Ok(within) => within.to_path_buf(),
        Err(_) if target.components().count() == 1 && target.extension().is_some_and(|e| e == "md") => {
            Path::new(PROJECT).join(target)
        }
        Err(_) => Path::new(SOURCES).join(target),
    };
    // mdBook makes the index of its folder of a README.md.
    if within.ends_with("README.md") { within.with_file_name("index.md") } else { within }
}
