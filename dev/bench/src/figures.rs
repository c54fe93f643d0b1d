//! Figures in documents, generated from measurements.
//!
//! The text between `<!-- figures: WHAT -->` and `<!-- figures end -->` in a document is one of these:
//!
//! - `linmap ARGUMENTS`: output of the command; `| 2-4` selects paragraphs, `| 8 ... 6` the first and last lines;
//! - `example NAME`: output of an example of the model;
//! - `source FILE`: a file of the repository;
//! - `tlb`: figures of the TLB model and of hardware (`reach`);
//! - `counts NAME`: a table of stored counts and those of Linux (`tables`);
//! - `linux-port KIND`: a table of what `make test-linux-port` has counted;
//! - `sites NAME`: a table of what `linmap judge` notices;
//! - `efi`: the size of the file, and a start by firmware (`efi`);
//! - `linux NAME`: checked by `make test-linux` on a real kernel, and left alone here.
//!
//! The image sizes that the command falls back on are generated in the same way.

pub(crate) mod blocks;
mod efi;
mod reach;
mod tables;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use serde_json::Value;

use crate::repository;

/// The folder of documents that have figures; README.md has some, too.
const DOCUMENTS: &str = "docs";
/// The image sizes that the command assumes if it finds no image.
const SIZES: &str = "crates/linmap-cli/src/commands/plan/image-sizes.txt";

/// Compares all figures with measured ones; `--update` writes them.
///
/// # Errors
///
/// A figure is stale, a program fails, or a document cannot be read or written.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => check(),
        ["--update"] => update(),
        other => Err(format!("expected --update, not \"{}\"", other.join(" "))),
    }
}

/// Fails if a figure is stale.
fn check() -> Result<(), String> {
    let stale: Vec<String> = files()?.into_iter().filter_map(|file| file.difference()).collect();
    if stale.is_empty() {
        println!("The figures in README.md and {DOCUMENTS} are up to date.");
        return Ok(());
    }
    Err(format!("{}\nThese figures are stale; `make figures ARGS=--update` writes them.", stale.join("\n")))
}

/// Writes all stale figures.
fn update() -> Result<(), String> {
    for file in files()?.iter().filter(|file| file.now != file.should) {
        fs::write(&file.path, &file.should).map_err(|e| format!("{}: {e}", file.path.display()))?;
        println!("{} written", file.name);
    }
    Ok(())
}

/// A file with figures: its text now, and as it should be.
struct Figures {
    name: String,
    path: PathBuf,
    now: String,
    should: String,
}

impl Figures {
    /// Describes the first line that differs, if any.
    fn difference(&self) -> Option<String> {
        let (mut now, mut should) = (self.now.lines(), self.should.lines());
        (1..).find_map(|line| match (now.next(), should.next()) {
            (None, None) => Some(None),
            (now, should) if now != should => Some(Some(format!(
                "{}:{line}: {}\n  should be: {}",
                self.name,
                now.unwrap_or("the end"),
                should.unwrap_or("the end")
            ))),
            _ => None,
        })?
    }
}

fn files() -> Result<Vec<Figures>, String> {
    let root = &repository::root()?;
    let mut files = Vec::new();
    for name in documents(root).map_err(|e| format!("{DOCUMENTS}: {e}"))? {
        let now = repository::read(root, &name)?;
        let should =
            blocks::generated(&now, |what| generate(root, what)).map_err(|e| format!("{name}: {e}"))?;
        files.push(Figures { path: root.join(&name), name, now, should });
    }
    let (now, should) = (repository::read(root, SIZES)?, sizes(root)?);
    files.push(Figures { name: SIZES.to_owned(), path: root.join(SIZES), now, should });
    Ok(files)
}

/// Returns the names of README.md and of the chapters of the book, from the root of the repository.
fn documents(root: &Path) -> io::Result<Vec<String>> {
    let mut names = vec!["README.md".to_owned()];
    for entry in fs::read_dir(root.join(DOCUMENTS))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            names.push(format!("{DOCUMENTS}/{name}"));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the text of a block, or `None` if the block is not written here.
fn generate(root: &Path, what: &str) -> Result<Option<String>, String> {
    let mut words = what.split('|').map(str::trim);
    let what = words.next().unwrap_or_default();
    let parts: Vec<&str> = words.collect();
    let fenced = |text: String| -> Result<Option<String>, String> {
        let part = parts.iter().try_fold(text, |text, part| blocks::part(&text, part))?;
        Ok(Some(format!("```text\n{}\n```\n", part.trim_end())))
    };
    if what == "tlb" {
        return reach::table(|arguments| linmap(root, arguments)).map(Some);
    }
    if what == "efi" {
        let image = target(root).join("linmap.img");
        let bytes = fs::metadata(&image).map_err(|e| format!("{}: {e}", image.display()))?.len();
        return efi::table(|arguments| linmap(root, arguments), bytes).map(Some);
    }
    match what.split_once(' ') {
        Some(("linmap", arguments)) => fenced(linmap(root, arguments)?),
        Some(("example", name)) => {
            let run = ["run", "--quiet", "-p", "linmap-model", "--example", name];
            fenced(printed(Command::new("cargo").args(run), root, &[0, 1])?)
        }
        Some(("source", file)) => Ok(Some(format!("```rust,ignore\n{}```\n", repository::read(root, file)?))),
        Some(("counts", name)) => tables::of(name, &repository::read(root, crate::counts::STORED)?).map(Some),
        Some(("linux-port", kind)) => crate::port::table(root, kind).map(Some),
        Some(("sites", name)) => crate::sites::table(root, name).map(Some),
        Some(("linux", _)) => Ok(None),
        _ => Err(format!(
            "\"{what}\" should be linmap, example, source, tlb, efi, counts, linux-port, sites or linux"
        )),
    }
}

/// Returns the output of the command, run in the repository with the image built there.
fn linmap(root: &Path, arguments: &str) -> Result<String, String> {
    let mut command = Command::new(target(root).join("release/linmap"));
    // These also end with 1, if they find something.
    let finds = ["check ", "diff ", "compare "].iter().any(|name| arguments.starts_with(name));
    let ends: &[i32] = if finds { &[0, 1] } else { &[0] };
    printed(command.args(arguments.split_whitespace()), root, ends)
}

/// Returns the folder of what is built.
fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn printed(command: &mut Command, root: &Path, ends: &[i32]) -> Result<String, String> {
    let output = command.current_dir(root).output().map_err(|e| format!("{command:?}: {e}"))?;
    if !output.status.code().is_some_and(|code| ends.contains(&code)) {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{command:?}: {e}"))
}

/// Returns the sizes of the image built in the repository.
fn sizes(root: &Path) -> Result<String, String> {
    let text = linmap(root, "plan --ram 1G --json")?;
    let document: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let kernel = &document["kernel"];
    if kernel["basis"] != "measured" {
        return Err("no image with its ELF; `make image` builds it".to_owned());
    }
    let at = |range: &Value, end: usize| {
        let text = range[end].as_str()?.strip_prefix("0x")?;
        u64::from_str_radix(text, 16).ok()
    };
    let bytes = |key: &str| Some(at(&kernel[key], 1)? - at(&kernel[key], 0)?);
    match (bytes("image"), bytes("read_only")) {
        (Some(image), Some(read_only)) => Ok(format!("{image} {read_only}\n")),
        _ => Err(format!("a plan without ranges: {kernel}")),
    }
}
