//! The parts of a kernel that stay the same while it runs, kept from one reading to the next: its symbols, and the types of its structures.
//!
//! Both are megabytes that are unpacked, and cost more than all else of a reading. Modules and everything else in lists are read each
//! time.

use std::rc::Rc;

use crate::commands::names::{Names, SymbolsArgument};
use crate::commands::owners;
use crate::commands::reading::Failure;
use crate::linux::btf::Btf;
use crate::linux::regions::Regions;
use crate::map::owners::Owners;
use crate::map::view::View;
use crate::source::VmcoreInfo;

/// The symbols and the types of the kernel that was read last.
#[derive(Default)]
pub(super) struct Kept {
    /// Tells one kernel from another: its build, and the addresses at which it runs.
    info: Option<VmcoreInfo>,
    names: Option<Names>,
    types: Option<Rc<Btf>>,
}

impl Kept {
    /// Finds the owners in a view.
    pub(super) fn owners(
        &mut self,
        view: &View<'_>,
        regions: &Regions,
        symbols: &SymbolsArgument,
    ) -> Result<Owners, Failure> {
        let info = view.kernel.info.as_ref();
        if info.is_none() || info != self.info.as_ref() {
            *self = Self { info: info.cloned(), ..Self::default() };
        }
        let names = match self.names.take() {
            Some(names) => names,
            None => symbols.names(view)?,
        };
        let known = owners::with_types(view, regions, &names, &mut self.types)?;
        // Those that could not be read are tried again.
        self.names = Some(names).filter(|names| names.missing.is_none());
        Ok(known.owners)
    }
}
