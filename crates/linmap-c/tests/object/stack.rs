//! The deepest stack of a call: frames along the calls of the object, callbacks and panics left out.

use crate::disassembly::Object;
use std::collections::{BTreeMap, BTreeSet};

/// The depth of a function that calls itself, directly or not: down the levels of tables.
const LEVELS: u64 = 5;

/// The functions on the deepest path and their frames, from the call down.
pub(crate) type Path = Vec<(String, u64)>;

/// Parts of the names of functions that a call for one page reaches only if it is more than one store, or the split of one leaf.
pub(crate) const NOT_OF_ONE_PAGE: [&str; 3] =
    ["Mapping$GT$3map17h", "12unmap_leaves17h", "6change6leaves17h"];

/// Returns an upper bound of the bytes that a call takes, and the path to them. Functions that are not in the object take none.
pub(crate) fn deepest(object: &Object, name: &str) -> (u64, Path) {
    let reached: BTreeMap<&str, BTreeSet<&str>> = object
        .functions
        .keys()
        .map(|name| {
            (name.as_str(), object.reached_from(name).iter().map(|function| function.name.as_str()).collect())
        })
        .collect();
    below(object, &reached, &mut BTreeMap::new(), name)
}

fn below<'o>(
    object: &'o Object,
    reached: &BTreeMap<&'o str, BTreeSet<&'o str>>,
    known: &mut BTreeMap<&'o str, (u64, Path)>,
    name: &str,
) -> (u64, Path) {
    let Some(function) = object.functions.get(name).filter(|function| !function.is_panic()) else {
        return (0, Vec::new());
    };
    if let Some(found) = known.get(name) {
        return found.clone();
    }
    // The functions that reach each other are one, as deep as all of them at each level.
    let mutual: BTreeSet<_> =
        reached[name].iter().copied().filter(|other| reached[other].contains(name)).collect();
    let calls = mutual.iter().flat_map(|member| &object.functions[*member].calls);
    let recursive = mutual
        .iter()
        .flat_map(|member| &object.functions[*member].calls)
        .any(|call| mutual.contains(call.as_str()));
    let frame: u64 = mutual.iter().map(|member| object.functions[*member].frame).sum();
    let frame = if recursive { frame * LEVELS } else { frame };
    let outside: BTreeSet<&String> = calls.filter(|call| !mutual.contains(call.as_str())).collect();
    // A function may go on in another one without its frame.
    let is_alone = mutual.len() == 1 && !recursive;
    let on = |call: &str| if is_alone && !function.within.contains(call) { 0 } else { frame };
    let (deepest, path) = outside
        .into_iter()
        .map(|call| {
            let (deepest, path) = below(object, reached, known, call);
            (on(call) + deepest, core::iter::once((name.to_owned(), on(call))).chain(path).collect::<Path>())
        })
        .chain(core::iter::once((frame, vec![(name.to_owned(), frame)])))
        .max_by_key(|found| found.0)
        .unwrap_or_default();
    known.insert(&function.name, (deepest, path));
    known[name].clone()
}

/// Returns the largest number of bytes that a call may take.
pub(crate) fn most(name: &str) -> u64 {
    match name {
        "linmap_root"
        | "linmap_promise"
        | "linmap_move_tables"
        | "linmap_never_aborts"
        | "linmap_is_busy" => 64,
        "linmap_init" | "linmap_stats" | "linmap_flush" | "linmap_tables_needed" => 1 << 10,
        "linmap_adopt" | "linmap_create" | "linmap_collapse" => 2 << 10,
        "linmap_split" => 2560,
        "linmap_map" | "linmap_unmap" | "linmap_change" | "linmap_add" | "linmap_remove" => 3200,
        _ => 4 << 10,
    }
}

/// Returns that number for a call that changes, maps or unmaps one page.
pub(crate) fn most_of_one_page(name: &str) -> u64 {
    if name == "linmap_change" { 1664 } else { 1 << 10 }
}
