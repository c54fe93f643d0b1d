//! From a path to the module that defines what it names, through imports, re-exports and globs.

use std::collections::HashSet;

use crate::imports::Route;
use crate::modules::{Binding, Modules};

/// The end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// A module. Naming one is not a use of its file.
    Module(usize),
    /// A type defined in a module, or an item that belongs to such a type.
    Type(usize),
    /// Another item defined in a module.
    Value(usize),
}

impl Target {
    /// The module that defines the item; none if the target is a module.
    pub(crate) fn definer(self) -> Option<usize> {
        match self {
            Target::Module(_) => None,
            Target::Type(module) | Target::Value(module) => Some(module),
        }
    }
}

/// The imports that are being followed, so that circles of them end: module, name, and number among its imports.
type Seen = HashSet<(usize, String, usize)>;

/// Stands for the globs of a module, beside its imports of a name.
const GLOBS: usize = usize::MAX;

impl Modules {
    /// Returns all items and modules that `route` names in module `from`; none if it leaves the crate.
    pub(crate) fn resolve(&self, from: usize, route: &[String]) -> Vec<Target> {
        self.follow(from, route, &mut Seen::new())
    }

    /// True if `route` begins in this crate, so that it must lead somewhere.
    pub(crate) fn is_inner(&self, from: usize, route: &[String]) -> bool {
        let begin = self.first(from, &route[0], &mut Seen::new());
        route.len() > 1 && begin.iter().any(|target| !matches!(target, Target::Value(_)))
    }

    fn follow(&self, from: usize, route: &[String], seen: &mut Seen) -> Vec<Target> {
        let Some((first, rest)) = route.split_first() else { return Vec::new() };
        let begin = self.first(from, first, seen);
        rest.iter().fold(begin, |found, segment| self.step(&found, segment, seen))
    }

    /// Resolves the first segment of a path.
    fn first(&self, from: usize, segment: &str, seen: &mut Seen) -> Vec<Target> {
        match segment {
            "crate" => vec![Target::Module(0)],
            "self" => vec![Target::Module(from)],
            "super" => self.all[from].parent.map(Target::Module).into_iter().collect(),
            name => self.look_up(from, name, seen),
        }
    }

    /// Resolves a further segment in each of `found`. An unknown name of an opaque module is a type there.
    fn step(&self, found: &[Target], segment: &str, seen: &mut Seen) -> Vec<Target> {
        let mut next = Vec::new();
        for &target in found {
            match target {
                Target::Module(module) if segment == "super" => {
                    next.extend(self.all[module].parent.map(Target::Module));
                }
                Target::Module(module) => match self.look_up(module, segment, seen) {
                    named if named.is_empty() => next.extend(self.opaque(module, seen).map(Target::Type)),
                    named => next.extend(named),
                },
                Target::Type(_) => next.push(target),
                Target::Value(_) => {}
            }
        }
        next
    }

    /// Returns all meanings of `name` in a module. An item of another crate counts as defined where it is imported.
    fn look_up(&self, module: usize, name: &str, seen: &mut Seen) -> Vec<Target> {
        let mut found = Vec::new();
        for (index, binding) in self.all[module].names.get(name).into_iter().flatten().enumerate() {
            match binding {
                Binding::Type => found.push(Target::Type(module)),
                Binding::Value => found.push(Target::Value(module)),
                Binding::Exported(definer) => found.push(Target::Value(*definer)),
                Binding::Module(child) => found.push(Target::Module(*child)),
                Binding::Import(route) => {
                    found.extend(self.once(module, name, index, seen, |seen| {
                        match self.follow(module, route, seen) {
                            outside if outside.is_empty() => vec![Target::Type(module)],
                            inside => inside,
                        }
                    }));
                }
            }
        }
        if found.iter().all(|target| matches!(target, Target::Module(_))) {
            found.extend(self.once(module, name, GLOBS, seen, |seen| {
                let globs = self.all[module].globs.iter();
                globs.flat_map(|glob| self.through_glob(module, glob, name, seen)).collect()
            }));
        }
        found
    }

    /// Calls `follow` for an import, unless that import is already being followed.
    fn once(
        &self,
        module: usize,
        name: &str,
        import: usize,
        seen: &mut Seen,
        follow: impl FnOnce(&mut Seen) -> Vec<Target>,
    ) -> Vec<Target> {
        let key = (module, name.to_string(), import);
        if !seen.insert(key.clone()) {
            return Vec::new();
        }
        let found = follow(seen);
        seen.remove(&key);
        found
    }

    /// Looks `name` up in the modules that a glob imports from.
    fn through_glob(&self, module: usize, glob: &Route, name: &str, seen: &mut Seen) -> Vec<Target> {
        let mut found = Vec::new();
        for target in self.follow(module, glob, seen) {
            if let Target::Module(other) = target {
                found.extend(self.look_up(other, name, seen));
            }
        }
        found
    }

    /// Returns the module that defines a macro which code of module `from` can call by its name alone: a module
    /// around it, or one whose macros `#[macro_use]` takes to there.
    pub(crate) fn macro_in_scope(&self, from: usize, name: &str) -> Option<usize> {
        let parent = |module: &usize| self.all[*module].parent;
        let scopes: Vec<usize> = std::iter::successors(Some(from), parent).collect();
        let reaches = |definer: &usize| {
            let mut taken = std::iter::successors(Some(*definer), |module| {
                parent(module).filter(|_| self.all[*module].macro_use)
            });
            taken.any(|module| scopes.contains(&module))
        };
        self.macros.get(name)?.iter().copied().find(reaches)
    }

    /// True if `module` is below the file of `ancestor`.
    pub(crate) fn is_below(&self, module: usize, ancestor: usize) -> bool {
        let parents = std::iter::successors(self.all[module].parent, |&parent| self.all[parent].parent);
        parents.map(|parent| &self.all[parent].file).any(|file| *file == self.all[ancestor].file)
    }

    /// Returns the module that gives `module` names which are not in its text: it calls macros that make items, or
    /// has a glob of another crate.
    fn opaque(&self, module: usize, seen: &mut Seen) -> Option<usize> {
        let key = (module, "*".to_string(), GLOBS);
        if !seen.insert(key.clone()) {
            return None;
        }
        let sources: Vec<_> =
            self.all[module].globs.iter().map(|glob| self.follow(module, glob, seen)).collect();
        if self.all[module].opaque || sources.iter().any(Vec::is_empty) {
            return Some(module);
        }
        sources.into_iter().flatten().find_map(|target| match target {
            Target::Module(source) => self.opaque(source, seen),
            _ => None,
        })
    }
}
