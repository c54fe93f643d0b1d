//! The owners of memory, for the commands that show them, and why no more of them are known.

use std::rc::Rc;

use linmap::Va;
use serde_json::{Value, json};

use super::names::Names;
use super::reading::Failure;
use crate::linux::btf::Btf;
use crate::linux::regions::Regions;
use crate::linux::structures::Structures;
use crate::map::owners::{Owner, Owners};
use crate::map::view::View;
use crate::printable::line;
use crate::progress;

/// The names of modules that are shown to people as one.
const SHOWN: usize = 4;

/// The owners of a map.
pub(crate) struct Known {
    pub(crate) owners: Owners,
    /// Why the kernel's own lists were not read, as a sentence, if they were not.
    pub(crate) missing: Option<String>,
}

/// Finds the owners, by the kernel's own lists as far as symbols and memory are there.
pub(crate) fn of(view: &View<'_>, regions: &Regions, names: &Names) -> Result<Known, Failure> {
    with_types(view, regions, names, &mut None)
}

/// Finds the owners. The kernel's types are read unless they are known, and are known afterwards if they could be read.
pub(crate) fn with_types(
    view: &View<'_>,
    regions: &Regions,
    names: &Names,
    types: &mut Option<Rc<Btf>>,
) -> Result<Known, Failure> {
    progress::begin("looking for owners");
    let info = view.kernel.info.as_ref();
    let symbol = |name: &str| names.address(name).or_else(|| info?.symbol(name));
    let read = |va: u64, into: &mut [u8]| view.tables.is_some_and(|tables| tables.read_virtual(Va(va), into));
    let structures = Structures::new(&symbol, &read, types.take());
    *types = structures.types().cloned();
    let owners = Owners::of(view, regions, &structures).map_err(Failure::walk(view))?;
    Ok(Known { owners, missing: missing(names, &structures) })
}

/// Returns one name for several modules, for people: `modules: ext4, xfs and 3 more`.
pub(crate) fn named(modules: &[&str]) -> String {
    let (shown, more) = modules.split_at(modules.len().min(SHOWN));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    format!("modules: {}{more}", line(&shown.join(", ")))
}

/// Returns an owner for documents.
pub(crate) fn document(owner: &Owner) -> Value {
    json!({ "owner": owner.kind.id(), "name": owner.name, "by": owner.by.id() })
}

fn missing(names: &Names, structures: &Structures<'_>) -> Option<String> {
    if let Some(why) = &names.missing {
        return Some(format!(
            "owners are known by their addresses alone: {why}; --symbols names a file of symbols"
        ));
    }
    if names.address("modules").is_none() {
        return Some(
            "owners are known by their addresses alone: the kernel's own symbols are those of code (CONFIG_KALLSYMS_ALL \
             is not set); --symbols names a file of symbols"
                .to_owned(),
        );
    }
    let no_types = "the kernel has no BTF, so its lists of modules, of BPF programs, of per-CPU chunks and of pages were \
                    not read";
    structures.types().is_none().then(|| no_types.to_owned())
}
