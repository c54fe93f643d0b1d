//! Seeds are the same in each run, or drawn and printed before anything else. One variable repeats the case that
//! failed, even if it ends in an abort. The tests that fail are run by others, as processes of their own.

use std::collections::BTreeSet;
use std::process::Command;

use test_support::prelude::*;
use test_support::{Rows, each, is_one, number};

/// The output of one of the tests below, and the seeds of the cases that it tried.
struct Ran {
    ok: bool,
    text: String,
    tried: Vec<String>,
}

fn run(test: &str, seed: Option<&str>) -> Ran {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"]);
    match seed {
        Some(seed) => command.env("LINMAP_SEED", seed),
        None => command.env_remove("LINMAP_SEED"),
    };
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let tried = text.lines().filter_map(|l| Some(l.strip_prefix("tries ")?.to_owned())).collect();
    Ran { ok: output.status.success(), text, tried }
}

/// The seed that a failed run says repeats the case.
fn repeats(ran: &Ran) -> String {
    let line = ran.text.lines().find(|line| line.ends_with(" repeats this case")).expect("a seed");
    let (_, seed) = line.split_once("LINMAP_SEED=").expect("a seed");
    seed.trim_end_matches(" repeats this case").to_owned()
}

#[test]
fn a_failed_case_is_repeated_alone() {
    for test in ["fails", "fails_in_a_row", "aborts"] {
        let first = run(test, None);
        assert!(
            !first.ok && first.text.lines().any(|l| l.starts_with("random cases: LINMAP_SEED=")),
            "{}",
            first.text
        );
        let seed = repeats(&first);
        assert_eq!(first.tried.last().map(String::as_str), Some(&*seed), "{test}: {}", first.text);
        let again = run(test, Some(&seed));
        assert!(!again.ok, "{test}: {}", again.text);
        assert_eq!(again.tried.first(), Some(&seed), "{test}");
        assert_eq!(again.tried.iter().collect::<BTreeSet<_>>().len(), 1, "{test}: {}", again.text);
    }
}

/// The same value comes of it.
#[test]
fn a_failed_property_is_repeated() {
    let input = |ran: &Ran| ran.text.lines().find(|l| l.contains("minimal failing input")).map(str::to_owned);
    let first = run("fails_as_a_property", None);
    let again = run("fails_as_a_property", Some(&repeats(&first)));
    assert!(!first.ok && !again.ok && input(&first).is_some(), "{}", first.text);
    assert_eq!((input(&first), repeats(&first)), (input(&again), repeats(&again)));
}

#[test]
fn runs_are_alike_unless_they_are_fresh() {
    let first = run("passes", None);
    assert_eq!((first.ok, first.tried.len()), (true, 20), "{}", first.text);
    assert_eq!(run("passes", None).tried, first.tried);
    let fresh = run("passes", Some("fresh"));
    let base = fresh.text.lines().next().and_then(|l| l.split(['=', ' ']).nth(3)).expect("a seed").to_owned();
    assert!(base.starts_with("0x") && base.ends_with(".."), "{}", fresh.text);
    assert_eq!(run("passes", Some(&base)).tried, fresh.tried);
    let next = run("passes", Some("fresh"));
    assert!(fresh.ok && next.ok && fresh.tried.len() == 20 && next.tried.len() == 20);
    assert!(next.tried.iter().all(|seed| !first.tried.contains(seed) && !fresh.tried.contains(seed)));
}

#[test]
fn what_is_no_seed_is_refused() {
    let ran = run("passes", Some("seven"));
    assert!(!ran.ok && ran.text.contains("LINMAP_SEED=seven: a seed was expected"), "{}", ran.text);
    assert_eq!(number("LINMAP_NO_SUCH_NUMBER"), None);
}

fn tries(seed: u64) {
    eprintln!("tries {seed:#018x}");
}

#[test]
#[ignore = "a process of its own runs it"]
fn passes() {
    each(20, tries);
}

#[test]
#[ignore = "it fails"]
fn fails() {
    each(20, |seed| {
        tries(seed);
        assert_ne!(seed & 15, 11);
    });
}

#[test]
#[ignore = "it fails"]
fn fails_in_a_row() {
    let mut rows = Rows::new();
    for number in 0..20 {
        let row = rows.row(|seed| {
            tries(seed);
            assert!(number != 13);
        });
        assert!(row.is_some() || is_one());
    }
}

proptest! {
    #[test]
    #[ignore = "it fails"]
    fn fails_as_a_property(number in any::<u64>().no_shrink()) {
        prop_assert_ne!(number & 15, 11);
    }
}

/// Something that panics while it is dropped, when a panic is under way already.
struct Twice;

impl Drop for Twice {
    fn drop(&mut self) {
        panic!("once more");
    }
}

#[test]
#[ignore = "it aborts"]
fn aborts() {
    each(20, |seed| {
        tries(seed);
        let _twice = (seed & 15 == 7).then_some(Twice);
        assert_ne!(seed & 15, 7);
    });
}
