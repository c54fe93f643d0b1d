//! The order of rooms: told by the root's comment, and arrows against it.

use std::path::Path;

use crate::tree::Tree;
use house::Error;

const ORDER: &str = "\
//! A crate.
//!
//! | room | idea |
//! |---|---|
//! | `low` | first |
//! | `high` | next |
//! | `alone` | last |
//!
//! More.
";

/// A crate with rooms `low` and `high`, of two files each, and a root.
fn house(root: &str, low: &str, high: &str) -> Tree {
    Tree::new(&[
        ("lib.rs", &format!("{ORDER}mod low; mod high; mod alone; pub fn root() {{}} {root}")),
        ("low/mod.rs", "pub mod a; pub mod b;"),
        ("low/a.rs", &format!("pub struct A; {low}")),
        ("low/b.rs", "pub struct B; use super::a::A;"),
        ("high/mod.rs", "pub mod c;"),
        ("high/c.rs", &format!("pub struct C; {high}")),
        ("alone.rs", ""),
    ])
}

#[test]
fn a_room_uses_those_above_it() {
    let tree = house("fn f(_: low::a::A, _: high::c::C) {}", "", "use crate::low::{a::A, b::B};");
    assert_eq!(tree.against(), Vec::<String>::new());
}

#[test]
fn an_arrow_to_a_room_below_is_found() {
    let tree = house("", "fn f() -> crate::high::c::C { todo!() }", "");
    assert_eq!(tree.against(), ["low/a.rs -> high/c.rs"]);
}

#[test]
fn a_room_that_uses_the_root_is_found() {
    let tree = house("", "", "use crate::root;");
    assert_eq!(tree.against(), ["high/c.rs -> lib.rs"]);
}

#[test]
fn without_a_table_there_is_no_order() {
    let tree = Tree::new(&[
        ("lib.rs", "//! | module | idea |\n//! |---|---|\n//! | `a` | x |\nmod a;"),
        ("a.rs", ""),
    ]);
    assert!(tree.rooms().expect("a crate that can be read").is_none());
}

#[test]
fn the_table_has_all_modules_and_no_others() {
    let more = Tree::new(&[
        ("lib.rs", &format!("{ORDER}mod low; mod high; mod alone; mod other;")),
        ("low.rs", "pub struct Low;"),
        ("high.rs", ""),
        ("alone.rs", ""),
        ("other.rs", "use crate::low::Low;"),
    ]);
    let error = more.rooms().expect_err("a module is not in the table").to_string();
    assert!(error.ends_with("lacks module `other`"), "{error}");
    let fewer = Tree::new(&[("lib.rs", &format!("{ORDER}mod low;")), ("low.rs", "")]);
    let error = fewer.rooms().expect_err("a room is no module").to_string();
    assert!(error.contains("has `high`"), "{error}");
}

#[test]
fn a_list_orders_files_of_a_room() {
    let comment = "//! A file uses only those before it in this list:\n//!\n//! - `low`, `high::{a, b}`: some,\n\
                   //!   `more`.\n//! - [`top`]: more.\n//! - this file: `all`.\n//!\n//! - `no`: part of it\n";
    let tree = |a: &str| {
        Tree::new(&[
            ("lib.rs", &format!("{comment}mod low; mod high; mod top; use top::Top;")),
            ("low.rs", "pub struct Low;"),
            ("high/mod.rs", "pub mod a; pub mod b;"),
            ("high/a.rs", a),
            ("high/b.rs", "pub struct B; use super::a::A;"),
            ("top.rs", "pub struct Top; use crate::high::b::B;"),
        ])
    };
    assert_eq!(tree("pub struct A; use crate::low::Low;").against(), [""; 0]);
    assert_eq!(tree("pub struct A; use crate::top::Top;").against(), ["high/a.rs -> top.rs"]);
    let missing = Tree::new(&[
        ("lib.rs", "//! A file uses only those before it in this list:\n//! - `a`\nmod a; mod b;"),
        ("a.rs", "pub struct A;"),
        ("b.rs", "use crate::a::A;"),
    ]);
    let error = missing.rooms().expect_err("a module is not in the list").to_string();
    assert!(error.ends_with("lacks module `b`"), "{error}");
}

#[test]
fn rows_have_the_rooms_in_their_order() {
    let rooms = house("", "", "").rooms().expect("rooms that fit").expect("a table");
    let check = |paths: &[&str]| {
        let rows: String = paths.iter().map(|path| format!("| `{path}` | it |\n")).collect();
        rooms.check_rows("made/up", Path::new("MAP.md"), &rows)
    };
    for right in [
        &[][..],
        &["made/up", "other/src/low/"],
        &["made/up/src/low/", "made/up/src/high.rs", "other/src/low/"],
        &["made/up/src/low/", "made/up/src/high/", "made/up/src/alone.rs"],
    ] {
        assert!(check(right).is_ok(), "{right:?}");
    }
    for wrong in [
        &["made/up/src/high/", "made/up/src/low/"][..],
        &["made/up/src/low/", "made/up/src/alone.rs", "made/up/src/high/"],
        &["made/up/src/low/", "other/src/high/"],
    ] {
        assert!(matches!(check(wrong), Err(Error::Rooms { .. })), "{wrong:?}");
    }
}
