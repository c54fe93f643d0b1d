//! Instructions of Linux on linmap, beside those of Linux alone: counted by `make test-linux-port`, stored here, and shown
//! by the book's page.
//!
//! `bench linux-port KIND FILE` compares what the boots of one kind of kernel (`4k`, `16k`, ...) have counted with the stored
//! counts, and the page with these. A part of the boots, such as `large/`, is compared with the same part. `--update` stores the
//! counts and writes the page. Each line of FILE is a name and a value: `large/map_mem/linmap_instructions 27259`, or the version
//! of a program, such as `linux 7.2.12-1`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::counts::{Figures, compare, stored};
use crate::figures::blocks;
use crate::{report, repository};

/// The file of stored counts.
const STORED: &str = "docs/benchmarks/linux-port.json";
/// The page that shows them.
const PAGE: &str = "docs/linux-port.md";
/// The rows of the page: what changes, the name of its counts.
const ROWS: [(&str, &str); 12] = [
    ("`map_mem`, pages", "pages/map_mem"),
    ("`map_mem`, large leaves", "large/map_mem"),
    ("one page invalid, out of a block", "large/invalid-of-block"),
    ("one page invalid, out of a contiguous run", "large/invalid-of-run"),
    ("one page invalid, already a page", "large/invalid-of-pages"),
    ("that page valid again", "large/default"),
    ("one page invalid, where all is pages", "pages/invalid-of-pages"),
    ("that page valid again, where all is pages", "pages/default"),
    ("`set_memory_ro` of 512 adjacent pages", "large/ro-512"),
    ("of these, Linux's own `vm_unmap_aliases`", "large/vm_unmap_aliases"),
    ("`set_memory_ro`, where all is pages", "pages/ro-512"),
    ("to pages, from when the last of two CPUs waits until they go on", "parked/parked"),
];

/// The counts that may be above those of Linux alone, by kind, and the reason.
const SLOWER: [(&str, &str, &str); 10] = [
    ("4k", "large/invalid-of-pages", ONE_WAY),
    ("4k", "pages/invalid-of-pages", ONE_WAY),
    ("4k", "pages/default", ONE_WAY),
    ("16k", "large/invalid-of-pages", ONE_WAY),
    ("16k", "pages/invalid-of-pages", ONE_WAY),
    ("16k", "pages/default", ONE_WAY),
    ("64k", "large/invalid-of-pages", WIDE),
    ("64k", "large/default", WIDE),
    ("64k", "pages/invalid-of-pages", WIDE),
    ("64k", "pages/default", WIDE),
];
/// The reason for single pages.
const ONE_WAY: &str = "since the fast way also looks for claims, serves leaves of all sizes, and lets readers without a lock know of it";
/// The reason at 64K pages.
const WIDE: &str =
    "for the same reason as at 4K pages, and the address of a table is in two fields of its descriptor";

/// Counts of one kind of kernel, and the versions of the programs that they depend on.
#[derive(Debug, PartialEq, Eq, Default)]
struct Counted {
    versions: BTreeMap<String, String>,
    figures: Figures,
}

impl Counted {
    /// True if the boots that this count is from have been counted.
    fn has_part_of(&self, name: &str) -> bool {
        self.figures.keys().any(|other| part(other) == part(name))
    }
}

/// The counts of all kinds that were stored.
type Kinds = BTreeMap<String, Counted>;

/// Compares or stores counts.
///
/// # Errors
///
/// A count has grown by more than 2% or is gone, is above that of Linux alone and not in [`SLOWER`], the page shows other ones,
/// or a file cannot be read or written.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (kind, file, update) = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        &[kind, file] => (kind, file, false),
        &[kind, file, "--update"] => (kind, file, true),
        other => return Err(format!("expected KIND FILE [--update], not \"{}\"", other.join(" "))),
    };
    let lines = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let now = counted(&lines).map_err(|e| format!("{file}: {e}"))?;
    let root = &repository::root()?;
    let mut stored = kinds(&repository::read(root, STORED)?)?;
    if update {
        expect_faster(kind, &now.figures)?;
        let now = with_others(stored.remove(kind), now)?;
        stored.insert(kind.to_owned(), now);
        repository::write(root, STORED, &text(&stored))?;
        let page = page(&repository::read(root, PAGE)?, &stored)?;
        repository::write(root, PAGE, &page)?;
        println!("{STORED} and {PAGE} written for {kind}");
        return Ok(());
    }
    match stored.get(kind) {
        Some(before) => {
            check(before, &now)?;
            expect_faster(kind, &now.figures)?;
        }
        None => println!("{STORED} has no {kind} to compare with; --update stores it"),
    }
    let shown = repository::read(root, PAGE)?;
    if page(&shown, &stored)? != shown {
        return Err(format!("{PAGE} does not show what is in {STORED}; --update writes it"));
    }
    Ok(())
}

/// Prints what differs. Where a version does, nothing is judged but that a count is still there.
fn check(before: &Counted, now: &Counted) -> Result<(), String> {
    for (name, version) in &now.versions {
        if before.versions.get(name) != Some(version) {
            println!("counted with {name} {version}, stored with another one: counts are shown, not judged");
        }
    }
    let of_these = before.figures.iter().filter(|(name, _)| now.has_part_of(name));
    let of_these: Figures = of_these.map(|(name, count)| (name.clone(), *count)).collect();
    let differences = compare::differences(&of_these, &now.figures, before.versions == now.versions);
    if !differences.is_empty() {
        println!("{}", compare::text(&differences));
    }
    match compare::failed(&differences) {
        0 => Ok(()),
        failed => Err(format!(
            "{failed} counts have grown by more than 2% or are gone; --update stores the new ones"
        )),
    }
}

/// Adds the stored counts of boots that were not counted now.
///
/// # Errors
///
/// These are from other programs.
fn with_others(before: Option<Counted>, mut now: Counted) -> Result<Counted, String> {
    let before = before.unwrap_or_default();
    let others: Figures = before.figures.into_iter().filter(|(name, _)| !now.has_part_of(name)).collect();
    if let Some(name) = others.keys().next().filter(|_| before.versions != now.versions) {
        return Err(format!("{}/ was counted with other programs; count it as well", part(name)));
    }
    now.figures.extend(others);
    Ok(now)
}

/// The boots that a count is from: `large` of `large/map_mem`.
fn part(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// Returns the names of the counts that are above those of Linux alone.
fn slower(figures: &Figures) -> impl Iterator<Item = &str> {
    figures.iter().filter_map(|(name, count)| {
        let name = name.strip_suffix("/linmap_instructions")?;
        (count > figures.get(&format!("{name}/linux_instructions"))?).then_some(name)
    })
}

/// Returns the reason why a count may be above that of Linux alone.
fn reason(kind: &str, name: &str) -> Option<&'static str> {
    SLOWER.iter().find(|row| (row.0, row.1) == (kind, name)).map(|row| row.2)
}

/// Each count that is above that of Linux alone has a reason.
fn expect_faster(kind: &str, figures: &Figures) -> Result<(), String> {
    let without: Vec<_> = slower(figures).filter(|name| reason(kind, name).is_none()).collect();
    if without.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} take more than Linux alone, and have no reason in dev/bench/src/port.rs",
        without.join(", ")
    ))
}

/// Returns the table of one kind for the page.
///
/// # Errors
///
/// Nothing is stored for that kind.
pub(crate) fn table(root: &Path, kind: &str) -> Result<String, String> {
    table_of(&kinds(&repository::read(root, STORED)?)?, kind)
}

fn table_of(stored: &Kinds, kind: &str) -> Result<String, String> {
    let counted = stored.get(kind).ok_or_else(|| format!("{STORED} has no {kind}"))?;
    let version = counted.versions.get("linux").and_then(|version| version.split('-').next());
    let cell = |name: &str, whose: &str| {
        let count = counted.figures.get(&format!("{name}/{whose}_instructions"));
        count.map_or_else(String::new, |count| report::thousands(*count))
    };
    let rows: Vec<Vec<String>> = ROWS
        .iter()
        .map(|(what, name)| vec![(*what).to_owned(), cell(name, "linux"), cell(name, "linmap")])
        .filter(|row| !row[2].is_empty())
        .collect();
    let mut text =
        report::table(&["", &format!("Linux {}", version.unwrap_or_default()), "with linmap"], &rows);
    let slower: Vec<_> = slower(&counted.figures).collect();
    for (n, (what, name)) in ROWS.iter().filter(|(_, name)| slower.contains(name)).enumerate() {
        let reason = reason(kind, name).ok_or_else(|| format!("{kind}: {name} has no reason"))?;
        let before = if n == 0 { "\n" } else { "" };
        text += &format!("{before}- More than Linux alone: {what}, {reason}.\n");
    }
    Ok(text)
}

/// Returns the page with the tables of what is stored.
fn page(shown: &str, stored: &Kinds) -> Result<String, String> {
    blocks::generated(shown, |what| match what.split_once(' ') {
        Some(("linux-port", kind)) => table_of(stored, kind).map(Some),
        _ => Ok(None),
    })
}

/// Reads the lines of a run.
fn counted(text: &str) -> Result<Counted, String> {
    let mut counted = Counted::default();
    for line in text.lines() {
        let (name, value) = line.split_once(' ').ok_or_else(|| format!("\"{line}\" has no value"))?;
        if name.contains('/') {
            let count =
                value.parse().map_err(|_| format!("{name} is \"{value}\", and should be a number"))?;
            counted.figures.insert(name.to_owned(), count);
        } else {
            counted.versions.insert(name.to_owned(), value.to_owned());
        }
    }
    if counted.figures.is_empty() { Err("nothing was counted".to_owned()) } else { Ok(counted) }
}

/// Reads the text of the file.
fn kinds(text: &str) -> Result<Kinds, String> {
    let wrong = |what: &str| format!("{STORED}: {what}");
    let document: Value = serde_json::from_str(text).map_err(|e| wrong(&e.to_string()))?;
    let members = |value: &Value| value.as_object().cloned().ok_or_else(|| wrong("expected objects"));
    let kind = |(name, value): (String, Value)| {
        let versions = members(&value["versions"])?.into_iter();
        let versions = versions.map(|(name, v)| Some((name, v.as_str()?.to_owned()))).collect::<Option<_>>();
        let versions = versions.ok_or_else(|| wrong("a version is no text"))?;
        let figures = stored::figures(&value).map_err(|what| wrong(&what))?;
        Ok((name, Counted { versions, figures }))
    };
    members(&document)?.into_iter().map(kind).collect()
}

/// Returns the text of the file.
fn text(kinds: &Kinds) -> String {
    let kind = |Counted { versions, figures }: &Counted| json!({ "versions": versions, "figures": figures });
    let document: BTreeMap<&String, Value> =
        kinds.iter().map(|(name, counted)| (name, kind(counted))).collect();
    format!("{:#}\n", json!(document))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "linux 7.2.12-1\nqemu QEMU 7.2\nlarge/map_mem/linux_instructions 2000\n\
                         large/map_mem/linmap_instructions 1000\n";

    fn stored() -> Kinds {
        [("4k".to_owned(), counted(LINES).expect("lines"))].into()
    }

    #[test]
    fn the_file_can_be_read_again() {
        assert_eq!(kinds(&text(&stored())), Ok(stored()));
        assert!(kinds("[]").is_err() && kinds(r#"{"4k":{"versions":{},"figures":{"a/b":"c"}}}"#).is_err());
    }

    #[test]
    fn lines_that_say_nothing_are_refused() {
        for wrong in ["", "linux 7.2", "large/map_mem", "large/map_mem many"] {
            assert!(counted(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn growth_fails_where_the_programs_are_the_same() {
        let now = |lines: &str| counted(lines).expect("lines");
        let grown = LINES.replace(" 1000", " 1021");
        assert_eq!(check(&now(LINES), &now(&LINES.replace(" 1000", " 1020"))), Ok(()));
        assert!(check(&now(LINES), &now(&grown)).is_err_and(|e| e.starts_with("1 counts")));
        assert_eq!(check(&now(LINES), &now(&grown.replace("7.2.12", "7.2.13"))), Ok(()));
        let gone = LINES.replace("large/map_mem/linux", "large/other/linux");
        assert!(check(&now(LINES), &now(&gone)).is_err());
    }

    #[test]
    fn a_part_is_compared_with_the_same_part() {
        let all = counted(&format!("{LINES}pages/map_mem/linmap_instructions 7\n")).expect("lines");
        assert_eq!(check(&all, &counted(LINES).expect("lines")), Ok(()));
    }

    #[test]
    fn what_is_slower_than_linux_has_a_reason() {
        let figures = |name: &str, linmap: u64| {
            [(format!("{name}/linux_instructions"), 10), (format!("{name}/linmap_instructions"), linmap)]
                .into()
        };
        assert_eq!(expect_faster("4k", &figures("large/map_mem", 10)), Ok(()));
        assert!(
            expect_faster("4k", &figures("large/map_mem", 11))
                .is_err_and(|e| e.starts_with("large/map_mem take"))
        );
        let (kind, name, _) = SLOWER[0];
        assert_eq!(expect_faster(kind, &figures(name, 11)), Ok(()));
        assert!(expect_faster("another", &figures(name, 11)).is_err());
        assert_eq!(
            expect_faster("4k", &[("large/ro-512-linear-half/linmap_instructions".to_owned(), 11)].into()),
            Ok(())
        );
    }

    #[test]
    fn each_reason_is_for_a_count_that_is_slower() {
        let root = &repository::root().expect("a workspace");
        let stored = kinds(&repository::read(root, STORED).expect("the file")).expect("counts");
        for (kind, name, _) in SLOWER {
            assert!(slower(&stored[kind].figures).any(|other| other == name), "{kind}: {name}");
        }
    }

    #[test]
    fn counts_of_other_boots_are_kept() {
        let lines = |text: &str| counted(text).expect("lines");
        let all = lines(&format!("{LINES}pages/map_mem/linmap_instructions 7\n"));
        let now = LINES.replace(" 1000", " 900");
        let both = lines(&format!("{now}pages/map_mem/linmap_instructions 7\n"));
        assert_eq!(with_others(Some(all), lines(&now)), Ok(both));
        assert_eq!(with_others(None, lines(LINES)), Ok(lines(LINES)));
        let all = lines(&format!("{LINES}pages/map_mem/linmap_instructions 7\n"));
        assert!(with_others(Some(all), lines(&LINES.replace("7.2.12", "7.2.13"))).is_err());
    }

    #[test]
    fn a_table_has_the_rows_that_were_counted() {
        let expected = "\
|                         | Linux 7.2.12 | with linmap |
| ----------------------- | -----------: | ----------: |
| `map_mem`, large leaves |        2,000 |       1,000 |
";
        assert_eq!(table_of(&stored(), "4k").as_deref(), Ok(expected));
        assert!(table_of(&stored(), "64k").is_err());
        let slower = LINES.replace(" 1000", " 2001");
        let slower = [("4k".to_owned(), counted(&slower).expect("lines"))].into();
        assert!(table_of(&slower, "4k").is_err_and(|error| error.ends_with("large/map_mem has no reason")));
    }

    #[test]
    fn the_page_shows_what_is_stored() {
        let root = &repository::root().expect("a workspace");
        let shown = repository::read(root, PAGE).expect("the page");
        let stored = kinds(&repository::read(root, STORED).expect("the file")).expect("counts");
        assert!(!stored.is_empty());
        for kind in stored.keys() {
            assert!(
                shown.contains(&format!("<!-- figures: linux-port {kind} -->")),
                "{PAGE} does not show {kind}"
            );
        }
        assert_eq!(page(&shown, &stored).as_ref(), Ok(&shown), "{PAGE} is stale; --update writes it");
    }
}
