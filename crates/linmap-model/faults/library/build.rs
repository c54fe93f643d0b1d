//! Copies the sources of linmap, adds the operation that the book's page on operations has as its example, and puts every mistake of
//! `src/patch.rs` into the copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

include!("src/patch.rs");

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).map(PathBuf::from).expect("cargo sets it");
    let from = variable("CARGO_MANIFEST_DIR").join("../../../linmap/src");
    for changed in [
        &from,
        Path::new("build.rs"),
        Path::new("src/patch.rs"),
        Path::new("access_flag.rs"),
        Path::new("method.rs"),
    ] {
        println!("cargo::rerun-if-changed={}", changed.display());
    }
    let mut texts = BTreeMap::new();
    read(&from, Path::new(""), &mut texts)?;
    let example = [fs::read_to_string("access_flag.rs")?, fs::read_to_string("method.rs")?].concat();
    texts.insert(PathBuf::from("edit/access_flag.rs"), example);
    *texts.get_mut(Path::new("edit/mod.rs")).expect("the folder of operations") += "\nmod access_flag;\n";
    Patch::ALL.iter().for_each(|patch| apply(*patch, &mut texts));
    // The crate that includes it has inner attributes of its own.
    let root = texts.get_mut(Path::new("lib.rs")).expect("a library has a root");
    *root = root.lines().filter(|line| !is_inner(line)).flat_map(|line| [line, "\n"]).collect();
    write(&variable("OUT_DIR").join("linmap"), &texts)
}

/// Reads all files below `directory`, by their paths in it.
fn read(directory: &Path, inside: &Path, texts: &mut BTreeMap<PathBuf, String>) -> io::Result<()> {
    for entry in fs::read_dir(directory.join(inside))? {
        let path = inside.join(entry?.file_name());
        if directory.join(&path).is_dir() {
            read(directory, &path, texts)?;
        } else {
            texts.insert(path.clone(), fs::read_to_string(directory.join(&path))?);
        }
    }
    Ok(())
}

/// Replaces the one place that a patch is for.
fn apply(patch: Patch, texts: &mut BTreeMap<PathBuf, String>) {
    let (right, wrong) = patch.text();
    let places: usize = texts.values().map(|text| text.matches(right).count()).sum();
    assert!(
        places == 1,
        "{patch:?} in crates/linmap-model/faults/library/src/patch.rs replaces `{right}`: that must be in crates/linmap/src once, \
         and is there {places} times"
    );
    let wrong = wrong.replace("FAULT", &format!("crate::mistakes::is_on(crate::mistakes::Patch::{patch:?})"));
    texts.values_mut().for_each(|text| *text = text.replace(right, &wrong));
}

/// True for a line with an attribute or a comment on the file that it is in.
fn is_inner(line: &str) -> bool {
    line.starts_with("#![") || line.starts_with("//!")
}

/// Writes the copy, in the place of one that an earlier build has left.
fn write(to: &Path, texts: &BTreeMap<PathBuf, String>) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    for (path, text) in texts {
        let path = to.join(path);
        fs::create_dir_all(path.parent().expect("it is in `to`"))?;
        fs::write(path, text)?;
    }
    Ok(())
}
