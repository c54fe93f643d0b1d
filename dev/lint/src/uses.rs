//! Every path in a module's production code, in `use` declarations, code and macro calls, with what it leads to.
//!
//! Naming a module is no use of its file: what is reached through it is. Nor is a re-export of what lies below
//! the file that makes it.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Arm, Block, Field, ImplItemFn, Item, ItemUse, Local, Macro, Path, Stmt, Variant, Visibility};

use crate::Error;
use crate::imports::{Import, Route, imports};
use crate::modules::Modules;
use crate::production::{attributes, tests_only};
use crate::resolve::Target;

/// A path that leads to an item of another module of the crate.
pub(crate) struct Use {
    /// The module that defines the item.
    pub(crate) definer: usize,
    /// The path as written.
    pub(crate) name: String,
    /// Its line, from 1.
    pub(crate) line: usize,
}

/// The uses of other modules in `module`, in the order of its text.
///
/// # Errors
///
/// If a path into the crate leads nowhere.
pub(crate) fn uses(modules: &Modules, module: usize) -> Result<Vec<Use>, Error> {
    let mut reader = Reader { modules, module, locals: Vec::new(), found: Vec::new(), lost: None };
    modules.all[module].items.iter().for_each(|item| reader.visit_item(item));
    reader.lost.map_or(Ok(reader.found), Err)
}

struct Reader<'a> {
    modules: &'a Modules,
    module: usize,
    /// The imports of the blocks around the code that is being read, the innermost last.
    locals: Vec<Import>,
    found: Vec<Use>,
    /// The first path that leads nowhere.
    lost: Option<Error>,
}

impl Reader<'_> {
    /// Resolves a path: names that a block imports go before those of the module.
    fn targets(&self, route: &[String]) -> Vec<Target> {
        let local = self.locals.iter().rev().find(|import| import.name.as_deref() == Some(&route[0]));
        if let Some(import) = local {
            return self.modules.resolve(self.module, &[&import.route, &route[1..]].concat());
        }
        let found = self.modules.resolve(self.module, route);
        if !found.is_empty() {
            return found;
        }
        let globs = self.locals.iter().filter(|import| import.name.is_none());
        globs
            .flat_map(|glob| self.modules.resolve(self.module, &[glob.route.as_slice(), route].concat()))
            .collect()
    }

    /// Enters a path of code.
    fn enter(&mut self, route: &[String], line: usize, must_resolve: bool) {
        let targets = self.targets(route);
        if targets.is_empty() && must_resolve && self.modules.is_inner(self.module, route) {
            self.lose(route, line);
        }
        let name = route.join("::");
        let definers = targets.iter().filter_map(|target| target.definer());
        self.found.extend(definers.map(|definer| Use { definer, name: name.clone(), line }));
    }

    fn lose(&mut self, route: &[String], line: usize) {
        let path = self.modules.all[self.module].file.clone();
        self.lost.get_or_insert(Error::Unresolved { path, line, name: route.join("::") });
    }

    /// Enters an import, unless it re-exports what lies below this file.
    fn enter_import(&mut self, import: &Import, is_public: bool) {
        let targets = self.targets(&import.route);
        let below = |target: &Target| {
            target.definer().is_none_or(|module| self.modules.is_below(module, self.module))
        };
        if !(is_public && !targets.is_empty() && targets.iter().all(below)) {
            self.enter(&import.route, import.line, true);
        }
    }

    /// Enters the name of a macro call.
    fn enter_macro(&mut self, path: &Path) {
        let (route, line) = route(path);
        if let ([name], true) = (route.as_slice(), self.targets(&route).is_empty()) {
            let definer = self.modules.macro_in_scope(self.module, name);
            self.found.extend(definer.map(|definer| Use { definer, name: format!("{name}!"), line }));
        } else {
            self.enter(&route, line, false);
        }
    }

    /// Enters all that looks like a path among the tokens of a macro.
    fn enter_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if let TokenTree::Group(group) = &tokens[at] {
                self.enter_tokens(group.stream());
            }
            let names_member = at > 0 && (is(&tokens[at - 1], '.') || is(&tokens[at - 1], '\''));
            let route = path_at(&tokens[at..]);
            if !route.is_empty() && !names_member {
                self.enter(&route, tokens[at].span().start().line, false);
            }
            // A path of n segments takes 3n - 2 tokens: each colon is one.
            at += (3 * route.len()).saturating_sub(2).max(1);
        }
    }
}

/// The segments of a path, and its line.
fn route(path: &Path) -> (Route, usize) {
    let line = path.segments.first().map_or(0, |segment| segment.ident.span().start().line);
    (path.segments.iter().map(|segment| segment.ident.to_string()).collect(), line)
}

/// The longest path that `tokens` begin with.
fn path_at(tokens: &[TokenTree]) -> Route {
    let mut route = Route::new();
    let mut rest = tokens;
    while let [TokenTree::Ident(ident), behind @ ..] = rest {
        route.push(ident.to_string());
        match behind {
            [first, second, next @ ..] if is(first, ':') && is(second, ':') => rest = next,
            _ => break,
        }
    }
    route
}

fn is(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !tests_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, declaration: &'ast ItemUse) {
        let is_public = !matches!(declaration.vis, Visibility::Inherited);
        imports(declaration).iter().for_each(|import| self.enter_import(import, is_public));
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let outer = self.locals.len();
        for statement in &block.stmts {
            if let Stmt::Item(Item::Use(declaration)) = statement {
                self.locals.extend(imports(declaration));
            }
        }
        visit::visit_block(self, block);
        self.locals.truncate(outer);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            let (route, line) = route(path);
            self.enter(&route, line, true);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.enter_macro(&call.path);
        self.enter_tokens(call.tokens.clone());
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !tests_only(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if !tests_only(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast Variant) {
        if !tests_only(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if !tests_only(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !tests_only(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    // What an attribute names and who may see an item are no uses.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
