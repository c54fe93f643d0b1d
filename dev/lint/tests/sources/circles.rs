//! Circles of files: found whatever the way of naming, and none where there is none.

use crate::tree::Tree;

const NONE: [Vec<String>; 0] = [];

#[test]
fn files_in_order_have_no_circle() {
    let tree = Tree::new(&[
        ("lib.rs", "mod low; mod high; pub use high::High;"),
        ("low.rs", "pub struct Low;"),
        ("high.rs", "use crate::low::Low; pub struct High(Low);"),
    ]);
    assert_eq!(tree.arrows(), ["high.rs -> low.rs"]);
    assert_eq!(tree.circles(), NONE);
}

#[test]
fn a_re_export_leads_to_the_file_that_defines() {
    let tree = Tree::new(&[
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B as Renamed;"),
        ("a.rs", "pub struct A; fn f(_: crate::Renamed) {}"),
        ("b.rs", "use crate::A; pub struct B(A);"),
    ]);
    assert_eq!(tree.circles(), [["a.rs", "b.rs"]]);
    assert_eq!(tree.shortest(), ["a.rs -> b.rs", "b.rs -> a.rs"]);
}

#[test]
fn a_glob_leads_to_the_file_that_defines() {
    let tree = Tree::new(&[
        ("lib.rs", "mod a; mod b; mod all;"),
        ("all.rs", "pub use crate::a::*; pub use crate::b::*;"),
        ("a.rs", "use crate::all::*; pub struct A; fn f() -> B { B }"),
        ("b.rs", "use crate::all::A; pub struct B; impl B { fn g(_: A) {} }"),
    ]);
    assert_eq!(tree.circles(), [["a.rs", "b.rs"]]);
}

#[test]
fn a_glob_of_which_nothing_is_used_is_no_use() {
    let tree = Tree::new(&[
        ("lib.rs", "mod a; mod b; mod all;"),
        ("all.rs", "pub use crate::a::*; pub use crate::b::*;"),
        ("a.rs", "use crate::all::*; pub struct A; fn f() { let b = 1; let _ = b.max(2); }"),
        ("b.rs", "use crate::all::A; pub struct B(A);"),
    ]);
    assert_eq!(tree.circles(), NONE);
}

#[test]
fn tests_make_no_circle() {
    let tree = Tree::new(&[
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
        ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; #[test] fn t() { let _: B; } }"),
        ("b.rs", "use crate::a::A; pub struct B(A); #[cfg(all(test, unix))] fn t(_: crate::a::B) {}"),
    ]);
    assert_eq!(tree.circles(), NONE);
    assert_eq!(tree.arrows(), ["b.rs -> a.rs"]);
}

#[test]
fn what_is_built_without_tests_can_make_one() {
    let tree = Tree::new(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A; #[cfg(not(test))] use crate::b::B; #[cfg(any(test, unix))] fn f(_: B) {}"),
        ("b.rs", "use crate::a::A; pub struct B(A);"),
    ]);
    assert_eq!(tree.circles(), [["a.rs", "b.rs"]]);
}

#[test]
fn a_parent_that_only_re_exports_uses_no_child() {
    let tree = Tree::new(&[
        ("lib.rs", "mod room;"),
        ("room/mod.rs", "mod one; mod two; pub(crate) use one::One; pub use self::two::Two;"),
        ("room/one.rs", "pub(crate) struct One;"),
        ("room/two.rs", "use super::One; pub struct Two(One);"),
    ]);
    assert_eq!(tree.arrows(), ["room/two.rs -> room/one.rs"]);
}

#[test]
fn a_parent_and_a_child_that_use_each_other_are_a_circle() {
    let tree = Tree::new(&[
        ("lib.rs", "mod room;"),
        ("room.rs", "mod child; pub(crate) use child::Child; pub(crate) struct Own; fn f(_: Child) {}"),
        ("room/child.rs", "use super::Own; pub(crate) struct Child(Own);"),
    ]);
    assert_eq!(tree.circles(), [["room/child.rs", "room.rs"]]);
}

#[test]
fn the_shortest_of_several_circles_is_shown() {
    let tree = Tree::new(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "pub struct A; use crate::b::B;"),
        ("b.rs", "pub struct B; use crate::c::C;"),
        ("c.rs", "pub struct C; use crate::d::D;"),
        ("d.rs", "pub struct D; use crate::{a::A, c::C};"),
    ]);
    assert_eq!(tree.circles(), [["a.rs", "b.rs", "c.rs", "d.rs"]]);
    assert_eq!(tree.shortest(), ["c.rs -> d.rs", "d.rs -> c.rs"]);
}
