//! The tree of modules of one target (a library or a program), and the names that each module has.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, Meta};

use crate::Error;
use crate::imports::{Import, Route, imports};
use crate::production::{attributes, tests_only};

/// The meaning of a name in a module.
pub(crate) enum Binding {
    /// A type or trait that the module defines: a path may go on behind it.
    Type,
    /// Anything else that it defines: function, constant, macro.
    Value,
    /// A macro that another module, given here, exports to the root.
    Exported(usize),
    /// A child.
    Module(usize),
    /// An import, from the module's point of view.
    Import(Route),
}

/// One module, in a file of its own or inline.
#[derive(Default)]
pub(crate) struct Module {
    /// The module around it; none of the root.
    pub(crate) parent: Option<usize>,
    /// Its name; empty for the root.
    pub(crate) name: String,
    /// The file with its items.
    pub(crate) file: PathBuf,
    /// Its names.
    pub(crate) names: HashMap<String, Vec<Binding>>,
    /// The modules and enums that it imports all names of.
    pub(crate) globs: Vec<Route>,
    /// True if its macros are also those of the module around it (`#[macro_use]`).
    pub(crate) macro_use: bool,
    /// True if a macro makes items here, whose names are not known.
    pub(crate) opaque: bool,
    /// Its items, without tests and children.
    pub(crate) items: Vec<Item>,
}

/// All modules of a target.
pub(crate) struct Modules {
    /// The root is the first one.
    pub(crate) all: Vec<Module>,
    /// The modules that define a macro of a name.
    pub(crate) macros: HashMap<String, Vec<usize>>,
    /// The text of each file.
    pub(crate) texts: BTreeMap<PathBuf, String>,
    /// The comment that the root begins with.
    pub(crate) comment: String,
}

impl Modules {
    /// Reads the target whose root is the file `root`.
    ///
    /// # Errors
    ///
    /// If a file is missing or is no Rust.
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        let mut tree = Modules {
            all: Vec::new(),
            macros: HashMap::new(),
            texts: BTreeMap::new(),
            comment: String::new(),
        };
        let file = tree.parse(root)?;
        tree.comment = comment(&file.attrs);
        let directory = root.parent().unwrap_or(Path::new("")).to_path_buf();
        tree.add(None, String::new(), root, &directory, file.items)?;
        Ok(tree)
    }

    /// Returns the path of a module from the root: `room::inner`.
    pub(crate) fn path(&self, module: usize) -> String {
        match self.all[module].parent {
            Some(0) | None => self.all[module].name.clone(),
            Some(parent) => format!("{}::{}", self.path(parent), self.all[module].name),
        }
    }

    /// True unless the module is inline in that around it.
    pub(crate) fn has_own_file(&self, module: usize) -> bool {
        self.all[module].parent.is_none_or(|parent| self.all[parent].file != self.all[module].file)
    }

    fn parse(&mut self, path: &Path) -> Result<syn::File, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.into(), source })?;
        let file = syn::parse_file(&text).map_err(|source| Error::Syntax { path: path.into(), source })?;
        self.texts.insert(path.into(), text);
        Ok(file)
    }

    /// Adds a module whose children have their files in `directory`, and all below it. Returns its number.
    fn add(
        &mut self,
        parent: Option<usize>,
        name: String,
        file: &Path,
        directory: &Path,
        items: Vec<Item>,
    ) -> Result<usize, Error> {
        let number = self.all.len();
        self.all.push(Module { parent, name, file: file.into(), ..Module::default() });
        for item in items.into_iter().filter(|item| !tests_only(attributes(item))) {
            if let Item::Mod(module) = item {
                self.add_child(number, file, directory, module)?;
                continue;
            }
            self.bind(number, &item);
            self.all[number].items.push(item);
        }
        Ok(number)
    }

    fn add_child(
        &mut self,
        parent: usize,
        file: &Path,
        directory: &Path,
        module: ItemMod,
    ) -> Result<(), Error> {
        let name = module.ident.to_string();
        let below = directory.join(&name);
        let child = match module.content {
            Some((_, items)) => self.add(Some(parent), name.clone(), file, &below, items)?,
            None => {
                let given = path_attribute(&module.attrs).map(|path| file.with_file_name(path));
                let places = [directory.join(format!("{name}.rs")), below.join("mod.rs")];
                let path = given.or_else(|| places.into_iter().find(|path| path.exists()));
                let path = path.ok_or_else(|| Error::NoFile { path: file.into(), name: name.clone() })?;
                let below = if path.ends_with("mod.rs") { below } else { path.with_extension("") };
                let parsed = self.parse(&path)?;
                self.add(Some(parent), name.clone(), &path, &below, parsed.items)?
            }
        };
        self.all[child].macro_use =
            module.attrs.iter().any(|attribute| attribute.path().is_ident("macro_use"));
        self.all[parent].names.entry(name).or_default().push(Binding::Module(child));
        Ok(())
    }

    /// Enters the names that an item brings into its module.
    fn bind(&mut self, number: usize, item: &Item) {
        match item {
            Item::Const(item) => self.name(number, &item.ident, Binding::Value),
            Item::Static(item) => self.name(number, &item.ident, Binding::Value),
            Item::Fn(item) => self.name(number, &item.sig.ident, Binding::Value),
            Item::Enum(item) => self.name(number, &item.ident, Binding::Type),
            Item::Struct(item) => self.name(number, &item.ident, Binding::Type),
            Item::Trait(item) => self.name(number, &item.ident, Binding::Type),
            Item::TraitAlias(item) => self.name(number, &item.ident, Binding::Type),
            Item::Type(item) => self.name(number, &item.ident, Binding::Type),
            Item::Union(item) => self.name(number, &item.ident, Binding::Type),
            Item::Macro(item) => match &item.ident {
                Some(ident) => {
                    if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
                        self.name(0, ident, Binding::Exported(number));
                    }
                    self.name(number, ident, Binding::Value);
                    self.macros.entry(ident.to_string()).or_default().push(number);
                }
                None => self.all[number].opaque = true,
            },
            Item::ForeignMod(_) | Item::Verbatim(_) => self.all[number].opaque = true,
            Item::Use(item) => imports(item).into_iter().for_each(|import| self.import(number, import)),
            _ => {}
        }
    }

    fn name(&mut self, number: usize, name: &impl ToString, binding: Binding) {
        self.all[number].names.entry(name.to_string()).or_default().push(binding);
    }

    fn import(&mut self, number: usize, import: Import) {
        match import.name {
            Some(name) => self.name(number, &name, Binding::Import(import.route)),
            None => self.all[number].globs.push(import.route),
        }
    }
}

/// The path that `#[path = "..."]` gives.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find(|attribute| attribute.path().is_ident("path")).and_then(value)
}

/// The comment that a file begins with, a line of text each.
fn comment(attributes: &[Attribute]) -> String {
    let lines: Vec<_> =
        attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(value).collect();
    lines.join("\n")
}

/// The string of an attribute `#[name = "string"]`.
fn value(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
    Some(text.value())
}
