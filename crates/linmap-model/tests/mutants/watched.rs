//! The same sequences without their announcements: what is left to see, and how sure it is.

use std::collections::BTreeMap;
use std::fmt::Write;

use linmap_model::observed::{Finding, Grade, Observer, Told};
use test_support::is_as_stored;

use crate::scene::Scene;
use crate::{MUTANTS, Mutant};

/// The table of the sequences and their grades.
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mutants/watched.txt");

/// Returns what is found in a sequence, the worst first.
fn watch(scene: &Scene) -> Vec<Finding> {
    let mut observer = Observer::new(&scene.setup, Told::default()).expect("a machine");
    scene.events.iter().for_each(|event| observer.step(event, 0));
    observer.finish();
    observer.findings().cloned().collect()
}

/// Returns the line of the table for a sequence and its mistake.
fn line(mutant: &Mutant) -> String {
    let found = watch(&(mutant.story)(true));
    let said = found.first().map_or_else(
        || "only with announcements".to_owned(),
        |first| format!("{}, {:?}", first.grade, first.rule),
    );
    format!("{said:<28} {:<22} {}: {}", format!("{:?}", mutant.rule), mutant.name, mutant.wrong)
}

/// The table is as stored.
#[test]
fn each_mistake_has_its_grade() {
    let mut table = String::from(
        "# The grade and the rule without announcements; the rule with them; the sequence and its mistake.\n",
    );
    MUTANTS.iter().for_each(|mutant| writeln!(table, "{}", line(mutant)).expect("a text"));
    is_as_stored(TABLE, &table);
}

/// The chapter of the book, and the marks around its table.
const CHAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/watched.md");
const MARKS: [&str; 2] = ["<!-- watched -->\n", "<!-- watched end -->\n"];

/// The grades in the order of the chapter's columns.
const COLUMNS: [Option<Grade>; 4] = [Some(Grade::Breach), Some(Grade::Suspect), Some(Grade::Hint), None];

/// The chapter counts the sequences by rule and grade.
#[test]
fn the_chapter_has_the_grades_of_each_rule() {
    let mut counts: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    for mutant in MUTANTS {
        let worst = watch(&(mutant.story)(true)).first().map(|finding| finding.grade);
        let column = COLUMNS.iter().position(|grade| *grade == worst).expect("a column");
        counts.entry(format!("{:?}", mutant.rule)).or_default()[column] += 1;
    }
    let mut table = String::from(
        "| rule | breach | suspect | hint | only with announcements |\n|---|---:|---:|---:|---:|\n",
    );
    let mut all = [0; 4];
    let shown =
        |counts: &[usize; 4]| counts.map(|n| if n == 0 { String::new() } else { n.to_string() }).join(" | ");
    for (rule, of_rule) in &counts {
        writeln!(table, "| `{rule}` | {} |", shown(of_rule)).expect("a text");
        all.iter_mut().zip(of_rule).for_each(|(all, n)| *all += n);
    }
    writeln!(table, "| all | {} |", shown(&all)).expect("a text");
    let chapter = std::fs::read_to_string(CHAPTER).expect("the chapter");
    let (before, rest) = chapter.split_once(MARKS[0]).expect("the first mark");
    let (_, after) = rest.split_once(MARKS[1]).expect("the last mark");
    is_as_stored(CHAPTER, &[before, MARKS[0], &table, MARKS[1], after].concat());
}

/// A right sequence is no breach and no suspect.
#[test]
fn what_is_right_is_not_blamed() {
    let blamed = MUTANTS.iter().filter_map(|mutant| {
        let found = watch(&(mutant.story)(false));
        let worst = found.into_iter().find(|finding| finding.grade > Grade::Hint)?;
        Some(format!("{}:\n{worst}", mutant.name))
    });
    let blamed: Vec<_> = blamed.collect();
    assert!(blamed.is_empty(), "{} of {}:\n\n{}", blamed.len(), MUTANTS.len(), blamed.join("\n"));
}
