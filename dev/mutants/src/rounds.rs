//! The tests that judge a mutant, in rounds. Most mutants fall in the first two, which take a few seconds; only those that
//! are left are built for the next one.
//!
//! Tests that take most of a round's time and judge what others of it judge as well wait for the last round.

/// Some test programs of some crates.
pub(crate) struct Round {
    /// The crates that are built.
    pub(crate) packages: &'static [&'static str],
    /// The test programs in the order in which they run; `lib` has the unit tests.
    pub(crate) programs: &'static [&'static str],
    /// If there are any, only tests are run whose names contain one of these.
    pub(crate) only: &'static [&'static str],
    /// Tests are skipped whose names contain one of these.
    pub(crate) skipped: &'static [&'static str],
    /// A test program may take so many seconds of CPU time, some ten times of what it needs.
    pub(crate) seconds: u32,
}

/// Tests of maps in host memory that take seconds.
const LONG: &[&str] = &[
    "all_or_nothing",
    "aliases_are_found_where",
    "aliases_stay_unless",
    "and_so_it_is_after",
    "each_page_and_each_alias",
    "every_operation_keeps",
    "every_reader_ends",
    "parts_change_one",
    "refused::without_table_pages",
    "shared_root",
];

pub(crate) const ROUNDS: [Round; 5] = [
    Round { packages: &["linmap"], programs: &["lib"], only: &[], skipped: &[], seconds: 30 },
    Round { packages: &["linmap"], programs: &["maps"], only: &[], skipped: LONG, seconds: 200 },
    Round {
        packages: &["linmap-model"],
        programs: &["announced", "memories", "handover", "library", "live"],
        only: &[],
        skipped: &[
            "exhaustion::without_frames_nothing_changes",
            "restore::restored",
            "areas::without_frames",
            "neighbours",
            "unmap_all",
        ],
        seconds: 120,
    },
    Round { packages: &["linmap"], programs: &["maps"], only: LONG, skipped: &[], seconds: 600 },
    Round {
        packages: &["linmap", "linmap-model"],
        programs: &["words", "linux", "threads", "naive", "orders", "live", "concurrent"],
        only: &[],
        // Pairs of callers that other tests have as well.
        skipped: &[
            "random_sequences",
            "any_two_steps",
            "areas_with_the_same",
            "a_repaint_and_another",
            "a_repaint_and_two",
            "pending_invalidations",
            "pending_lists",
            "three_callers",
        ],
        seconds: 600,
    },
];

/// The environment of the tests: the same cases in each run, and few of them.
pub(crate) const ENVIRONMENT: [(&str, &str); 3] =
    [("LINMAP_SEED", "0x1000.."), ("LINMAP_SEQUENCES", "8000"), ("RUST_BACKTRACE", "0")];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn package(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("crates").join(name)
    }

    /// The directory of a test program's modules, or its only file.
    fn program(package: &Path, name: &str) -> Option<PathBuf> {
        let tests = package.join("tests");
        let places = match name {
            "lib" => return Some(package.join("src")),
            name => [tests.join(name).join("main.rs"), tests.join(format!("{name}.rs"))],
        };
        let file = places.into_iter().find(|file| file.exists())?;
        Some(if file.ends_with("main.rs") { tests.join(name) } else { file })
    }

    /// Adds the names of the tests in a file, or in the files below a directory, as test programs print them.
    fn tests(path: &Path, module: &str, names: &mut Vec<String>) {
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap();
                let inner = if name == "main" { module.to_owned() } else { format!("{module}{name}::") };
                tests(&path, &inner, names);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(path).unwrap();
            for item in text.split("#[test]").skip(1) {
                let name = item.split_once("fn ").unwrap().1.split('(').next().unwrap();
                names.push(format!("{module}{name}"));
            }
        }
    }

    #[test]
    fn each_program_of_a_round_exists() {
        for round in &ROUNDS {
            for name in round.programs {
                let found = round.packages.iter().any(|p| program(&package(p), name).is_some());
                assert!(found, "{name} is in none of {:?}", round.packages);
            }
        }
    }

    #[test]
    fn each_program_of_the_library_is_in_a_round() {
        let named = |name: &str| ROUNDS.iter().any(|round| round.programs.contains(&name));
        let mut count = 0;
        for entry in fs::read_dir(package("linmap").join("tests")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() || path.join("main.rs").exists() {
                let name = path.file_stem().unwrap().to_str().unwrap();
                assert!(named(name), "crates/linmap/tests/{name} is in no round");
                count += 1;
            }
        }
        assert!(count > 3 && named("lib"));
    }

    /// A pattern that matches nothing is left from a test that has another name now.
    #[test]
    fn each_test_that_is_named_exists() {
        for round in &ROUNDS {
            let mut names = Vec::new();
            for (package, name) in
                round.packages.iter().flat_map(|p| round.programs.iter().map(move |n| (p, n)))
            {
                if let Some(path) = program(&self::package(package), name) {
                    tests(&path, "", &mut names);
                }
            }
            assert!(!names.is_empty());
            for part in round.only.iter().chain(round.skipped) {
                assert!(names.iter().any(|name| name.contains(part)), "no test is named {part}");
            }
        }
    }

    /// Of the tests of the second model the last round has those that judge the library's decoding.
    #[test]
    fn the_last_round_judges_decoding() {
        let last = ROUNDS.last().unwrap();
        let mut names = Vec::new();
        tests(&program(&package("linmap-model"), "naive").unwrap(), "", &mut names);
        let run = names.iter().filter(|name| !last.skipped.iter().any(|skipped| name.contains(skipped)));
        assert_eq!(run.filter(|name| name.starts_with("decode::")).count(), 2);
        assert!(last.programs.contains(&"naive"));
    }
}
