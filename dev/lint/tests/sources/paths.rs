//! Ways to name an item of another file. Each is an arrow.

use crate::tree::Tree;
use house::Error;

/// The arrows of a file `user.rs` in a crate with items of every kind in `used.rs`, and a room of two files.
fn arrows_of(user: &str) -> Vec<String> {
    let tree = Tree::new(&[
        ("lib.rs", "#[macro_use] mod used; mod room; mod user; pub use room::inner::{deep, Made};"),
        (
            "used.rs",
            "macro_rules! shout { () => {} } pub struct Used; pub enum Way { In, Out } pub fn used() {} \
             #[macro_export] macro_rules! loud { () => {} }",
        ),
        ("room/mod.rs", "pub(crate) mod inner; pub(crate) fn outer() {}"),
        (
            "room/inner.rs",
            "pub fn deep() {} pub trait Deep {} pub use made::Made; mod made { names! { Made } }",
        ),
        ("user.rs", user),
    ]);
    tree.arrows()
        .into_iter()
        .map(|arrow| arrow.strip_prefix("user.rs -> ").expect("only the user").into())
        .collect()
}

#[test]
fn a_path_in_code() {
    assert_eq!(arrows_of("fn f() { crate::used::used() }"), ["used.rs"]);
    assert_eq!(arrows_of("fn f() { super::used::Way::In; }"), ["used.rs"]);
    assert_eq!(arrows_of("impl super::used::Used { }"), ["used.rs"]);
    assert_eq!(arrows_of("struct S<T: crate::room::inner::Deep>(T);"), ["room/inner.rs"]);
}

#[test]
fn an_import() {
    assert_eq!(
        arrows_of("use crate::{room::{outer, inner::deep}, used::Way::*};"),
        ["room/inner.rs", "room/mod.rs", "used.rs"]
    );
    assert_eq!(arrows_of("use crate::room::inner::Deep as _;"), ["room/inner.rs"]);
    assert_eq!(arrows_of("use crate::deep;"), ["room/inner.rs"]);
}

#[test]
fn an_import_of_a_module_is_what_is_reached_through_it() {
    assert_eq!(
        arrows_of("use crate::room::{self, inner as within}; fn f() { within::deep() }"),
        ["room/inner.rs"]
    );
    assert_eq!(arrows_of("use crate::room;").len(), 0);
    assert_eq!(arrows_of("use crate::room as r; fn f() { r::outer() }"), ["room/mod.rs"]);
}

#[test]
fn an_import_in_a_block_holds_there() {
    assert_eq!(arrows_of("fn f() { use crate::room::inner as i; i::deep() }"), ["room/inner.rs"]);
    assert_eq!(arrows_of("fn f() { { use crate::room::inner as i; } i::deep() }").len(), 0);
    assert_eq!(arrows_of("fn f() { use crate::used::*; used() }"), ["used.rs"]);
}

#[test]
fn a_path_in_a_macro_call() {
    assert_eq!(arrows_of("fn f() { println!(\"{:?}\", crate::used::used()) }"), ["used.rs"]);
    assert_eq!(arrows_of("macro_rules! m { () => { $crate::room::outer() } }"), ["room/mod.rs"]);
    assert_eq!(
        arrows_of("use crate::room as r; fn f() { assert!(x.r, [r::inner::deep()]) }"),
        ["room/inner.rs"]
    );
}

#[test]
fn a_macro_of_the_crate() {
    assert_eq!(arrows_of("fn f() { shout!() }"), ["used.rs"]);
    assert_eq!(arrows_of("use crate::loud as l; fn f() { l!() }"), ["used.rs"]);
    assert_eq!(arrows_of("macro_rules! shout { () => {} } fn f() { shout!() }").len(), 0);
}

#[test]
fn a_macro_without_macro_use_is_that_of_its_module() {
    let tree = Tree::new(&[
        ("lib.rs", "mod a; mod b; #[macro_use] mod c;"),
        ("a.rs", "macro_rules! write { () => {} } mod inner; "),
        ("a/inner.rs", "fn f() { write!() }"),
        ("b.rs", "fn f() { write!() }"),
        ("c.rs", "mod deep;"),
        ("c/deep.rs", "macro_rules! write { () => {} }"),
    ]);
    assert_eq!(tree.arrows(), ["a/inner.rs -> a.rs"]);
}

#[test]
fn what_macros_make_is_in_the_file_that_calls_them() {
    assert_eq!(arrows_of("use crate::room::inner::Made; use crate::Made as Again;"), ["room/inner.rs"]);
}

#[test]
fn other_crates_are_no_files_of_this_one() {
    assert_eq!(
        arrows_of(
            "use ::used::Used; use std::fmt; use other::room::outer; fn f() -> fmt::Result { outer() }"
        )
        .len(),
        0
    );
}

#[test]
fn what_another_crate_defines_is_at_home_where_it_is_imported() {
    let tree = Tree::new(&[
        ("lib.rs", "mod a; mod b; pub use a::Other;"),
        ("a.rs", "pub use other::Other; pub use self::Other as Renamed;"),
        ("b.rs", "use std::fmt; use crate::Other; fn f() -> fmt::Result { crate::a::Renamed }"),
    ]);
    assert_eq!(tree.arrows(), ["b.rs -> a.rs"]);
}

#[test]
fn a_module_and_a_function_can_share_a_name() {
    let tree = Tree::new(&[
        ("lib.rs", "mod check; mod user; pub use check::check;"),
        ("check/mod.rs", "mod inner; pub fn check() {} pub use inner::Inner;"),
        ("check/inner.rs", "pub struct Inner;"),
        ("user.rs", "use crate::check::Inner;"),
    ]);
    assert_eq!(tree.arrows(), ["user.rs -> check/inner.rs"]);
}

#[test]
fn a_path_that_leads_nowhere_is_an_error() {
    let tree = Tree::new(&[("lib.rs", "mod a;"), ("a.rs", "\nuse crate::gone::Gone;")]);
    let error = tree.read().expect_err("nothing has that name");
    assert!(
        matches!(&error, Error::Unresolved { line: 2, name, .. } if name == "crate::gone::Gone"),
        "{error}"
    );
}

#[test]
fn a_module_without_a_file_is_an_error() {
    let tree = Tree::new(&[("lib.rs", "mod gone;")]);
    assert!(matches!(tree.read(), Err(Error::NoFile { .. })));
}

#[test]
fn a_module_can_have_its_file_elsewhere() {
    let tree = Tree::new(&[
        ("lib.rs", "mod a { pub mod b; } #[path = \"elsewhere/it.rs\"] mod c;"),
        ("a/b.rs", "pub struct B;"),
        ("elsewhere/it.rs", "mod d; use crate::a::b::B; use self::d::D;"),
        ("elsewhere/it/d.rs", "pub struct D;"),
    ]);
    assert_eq!(tree.arrows(), ["elsewhere/it.rs -> a/b.rs", "elsewhere/it.rs -> elsewhere/it/d.rs"]);
}
