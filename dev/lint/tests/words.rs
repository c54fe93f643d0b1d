//! Words that the house does not use: found where they are, and nowhere else.

use std::path::Path;

use house::{Error, Words};

const LIST: &str = "# a list\n\ntext red green = blue\ndoc Maybe = yes or no\n";

/// The lines of a text with words of the list.
fn lines(text: &str) -> Vec<usize> {
    let words = Words::parse(LIST).expect("a list of the right form");
    words.breaches(Path::new("text"), text).iter().map(|breach| breach.line).collect()
}

#[test]
fn words_are_found_in_any_case_and_across_lines() {
    assert_eq!(lines("nothing\nis Red Green.\nred\ngreen"), [2, 3]);
    assert_eq!(lines("    /// It is red\n    /// green."), [1]);
    assert_eq!(lines("# red\n# green"), [1]);
    assert_eq!(lines("bored green, red greens, redgreen"), [0; 0]);
}

#[test]
fn a_doc_comment_is_judged_by_how_it_begins() {
    assert_eq!(lines("/// Maybe it is.\nfn f() {}"), [1]);
    assert_eq!(lines("//! Maybe it is."), [1]);
    assert_eq!(lines("fn f() {}\n\n    /// Maybe it is.\n    #[inline]"), [3]);
    assert_eq!(lines("    // An aside.\n    /// Maybe it is."), [2]);
    assert_eq!(lines("/// It is.\n/// Maybe not."), [0; 0]);
    assert_eq!(lines("/// It is.\n///\n/// Maybe not."), [0; 0]);
    assert_eq!(lines("// Maybe it is.\n/// Maybes are."), [0; 0]);
}

#[test]
fn a_breach_says_what_would_be_right() {
    let words = Words::parse(LIST).expect("a list of the right form");
    let breaches = words.breaches(Path::new("a.md"), "red green");
    assert_eq!((breaches[0].words.as_str(), breaches[0].advice.as_str()), ("red green", "blue"));
}

#[test]
fn a_list_of_another_form_is_refused() {
    for list in ["text red", "word red = blue", "text"] {
        assert!(matches!(Words::parse(list), Err(Error::WordList { line: 1 })), "{list}");
    }
}

#[test]
fn the_list_of_the_house_finds_its_words() {
    let words = Words::of_the_house().expect("the list is of its form");
    let text = ["It can", "not be."].join(" ");
    assert_eq!(words.breaches(Path::new("a.md"), &text).len(), 1);
}
