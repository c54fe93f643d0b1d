//! Lines of source code by address, from the DWARF of an ELF file.

use std::rc::Rc;

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, RunTimeEndian};
use object::{Object, ObjectSection};

/// The paths of the core library, whose functions are inlined everywhere.
const RUST: &str = "/rustc/";

/// The lines of a file.
pub(crate) struct Lines(Context<EndianRcSlice<RunTimeEndian>>);

impl Lines {
    /// Reads those of an ELF file; `None` if it has none.
    pub(crate) fn of_elf(file: &object::File<'_>) -> Option<Self> {
        file.section_by_name(".debug_line")?;
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let section = |id: gimli::SectionId| -> Result<_, object::Error> {
            let data = file.section_by_name(id.name()).map(|section| section.uncompressed_data());
            let data = data.transpose()?.unwrap_or_default();
            Ok(EndianRcSlice::new(Rc::from(&data[..]), endian))
        };
        Context::from_dwarf(Dwarf::load(section).ok()?).ok().map(Self)
    }

    /// Returns the file and line of an address: of the innermost inlined function that is the program's own.
    pub(crate) fn line(&self, address: u64) -> Option<String> {
        let mut frames = self.0.find_frames(address).skip_all_loads().ok()?;
        let locations = std::iter::from_fn(|| frames.next().ok()?).filter_map(|frame| frame.location);
        let mut known = locations.filter_map(|at| Some((at.file?, at.line?)));
        let (file, line) = known.find(|(file, _)| !file.starts_with(RUST))?;
        Some(format!("{file}:{line}"))
    }
}
