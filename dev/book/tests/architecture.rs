//! The table of folders in docs/ARCHITECTURE.md is right: each crate has a row, with about as many lines, and with those who use it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Ends of the names of sources; scripts of Linux have no end.
const SOURCES: [&str; 7] = ["rs", "c", "h", "s", "sh", "py", ""];
/// Directories of tests and examples.
const TESTS: [&str; 3] = ["tests", "test", "examples"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace")
}

/// A row: folder, lines of sources, lines of tests and examples, users.
type Row = (String, usize, usize, String);

/// Returns the rows of the table.
fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("the document");
    let table = text.lines().skip_while(|line| !line.starts_with("| folder |")).skip(2);
    let number = |cell: &str| cell.replace(',', "").parse().unwrap_or_else(|e| panic!("{cell}: {e}"));
    table
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].trim_matches('`').to_owned(), number(cells[2]), number(cells[3]), cells[4].to_owned())
        })
        .collect()
}

/// Adds the lines of a folder to those of its sources and its tests, without folders that have a row of their own.
fn count(folder: &Path, is_test: bool, apart: &[PathBuf], lines: &mut [usize; 2]) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !apart.contains(&path) && !name.starts_with('.') {
                count(&path, is_test || TESTS.contains(&name), apart, lines);
            }
        } else if SOURCES.contains(&path.extension().and_then(|end| end.to_str()).unwrap_or_default())
            && !name.starts_with("LICENSE")
        {
            lines[usize::from(is_test)] += fs::read_to_string(&path).map_or(0, |text| text.lines().count());
        }
    }
}

/// Returns the crates of the workspace by their folders, each with those that use it, tests apart.
fn users() -> BTreeMap<String, String> {
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.args(["metadata", "--no-deps", "--format-version=1", "--offline"]).current_dir(root());
    let metadata: Value =
        serde_json::from_slice(&output.output().expect("cargo runs").stdout).expect("a document");
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |package: &Value| package["name"].as_str().expect("a name").to_owned();
    let uses = |package: &Value, used: &str| {
        package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .any(|d| d["name"] == used && d["kind"] != "dev")
    };
    let folder = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        manifest.parent().and_then(|f| f.strip_prefix(root()).ok()).expect("a folder").display().to_string()
    };
    packages
        .iter()
        .map(|package| {
            let mut by: Vec<String> =
                packages.iter().filter(|user| uses(user, &name(package))).map(folder).collect();
            by.sort();
            let names = by.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>();
            (folder(package), names.join(", "))
        })
        .collect()
}

#[test]
fn the_table_of_folders_is_right() {
    let (rows, users) = (rows(), users());
    let apart: Vec<PathBuf> = rows.iter().map(|row| root().join(&row.0)).collect();
    let missing: Vec<_> =
        users.keys().filter(|folder| !rows.iter().any(|row| folder.starts_with(&row.0))).collect();
    assert!(missing.is_empty(), "folders without a row: {missing:?}");
    let mut wrong = Vec::new();
    for (folder, sources, tests, by) in &rows {
        let mut lines = [0; 2];
        count(&root().join(folder), TESTS.contains(&folder.as_str()), &apart, &mut lines);
        let rounded = lines.map(|n| n.div_ceil(100) * 100);
        let near = |shown: usize, n: usize| shown.abs_diff(n) <= n / 10 + 100;
        let used = users.get(folder).map_or("", String::as_str);
        if !near(*sources, rounded[0]) || !near(*tests, rounded[1]) || by != used {
            wrong.push(format!("| `{folder}` | … | {} | {} | {used} |", rounded[0], rounded[1]));
        }
    }
    assert!(wrong.is_empty(), "rows that are right:\n{}", wrong.join("\n"));
}
