//! A `use` declaration as a list: `use a::{b, c as d, e::*}` is three imports.

use proc_macro2::Ident;
use syn::{ItemUse, UseTree};

/// The segments of a path, as written.
pub(crate) type Route = Vec<String>;

/// One path of a `use` declaration.
pub(crate) struct Import {
    /// The name that it binds; none for a glob.
    pub(crate) name: Option<String>,
    /// The path.
    pub(crate) route: Route,
    /// The line of its last segment, from 1.
    pub(crate) line: usize,
}

/// The imports of a declaration; none of one that begins with `::`, which leaves the crate.
pub(crate) fn imports(declaration: &ItemUse) -> Vec<Import> {
    let mut all = Vec::new();
    if declaration.leading_colon.is_none() {
        flatten(&declaration.tree, &Route::new(), 0, &mut all);
    }
    all
}

fn flatten(tree: &UseTree, prefix: &Route, line: usize, all: &mut Vec<Import>) {
    let joined = |ident: &Ident| [prefix.as_slice(), &[ident.to_string()]].concat();
    let at = |ident: &Ident| ident.span().start().line;
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &joined(&path.ident), at(&path.ident), all),
        UseTree::Name(name) => all.push(named(&name.ident, None, prefix)),
        UseTree::Rename(name) => all.push(named(&name.ident, Some(&name.rename), prefix)),
        UseTree::Glob(_) => all.push(Import { name: None, route: prefix.clone(), line }),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, prefix, line, all)),
    }
}

/// An import of one name; `self` stands for the path before it.
fn named(ident: &Ident, rename: Option<&Ident>, prefix: &Route) -> Import {
    let mut route = prefix.clone();
    if ident != "self" || route.is_empty() {
        route.push(ident.to_string());
    }
    let name = rename.map(ToString::to_string).or_else(|| route.last().cloned());
    Import { name, route, line: ident.span().start().line }
}
