//! A file, recognised by how it begins: a core, or a dump that was saved.

use std::fs::File;
use std::path::Path;

use super::core::{self, Core};
use super::error::Why;
use super::memory::{Memory, Piece, Pieces};
use super::regime::{Regime, RegimeError};
use super::vmcoreinfo::VmcoreInfo;
use super::{Kernel, Opened, Step, Tables, Wanted, mapped, saved, search};

/// Opens a file of whatever kind.
pub(super) fn open(path: &Path, wanted: Wanted, progress: &dyn Fn(Step)) -> Result<Opened, Why> {
    let file = File::open(path).map_err(Why::Open)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Why::NotAFile { directory: about.is_dir() });
    }
    let beginning = beginning(&file)?;
    match beginning.as_slice() {
        [] => Err(Why::Empty),
        bytes if bytes.starts_with(&core::MAGIC) => {
            let name = format!("core `{}`", path.display());
            open_core(name, file, about.len(), wanted, progress).map(|tables| Opened::Tables(tables.into()))
        }
        bytes if bytes.starts_with(b"KDUMP   ") || bytes.starts_with(b"makedumpfile") => Err(Why::Compressed),
        bytes => saved::open(path, &file, about.len(), bytes).map(Opened::Saved),
    }
}

/// The first bytes of a file, fewer if it has fewer.
fn beginning(file: &File) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    file.take(64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_core(
    name: String,
    file: File,
    bytes: u64,
    wanted: Wanted,
    progress: &dyn Fn(Step),
) -> Result<Tables, Why> {
    let core = Core::read(&file, bytes)?;
    let ram: Vec<_> = core.pieces.iter().map(Piece::range).collect();
    let memory = Memory::new(ram, Box::new(Pieces::new(file.try_clone()?, core.pieces.clone())));
    // A guest without a kernel that fills it in has an empty note.
    let info = core.info.filter(|info| info.symbol("swapper_pg_dir").is_some());
    let (info, regime) = match info {
        Some(info) => {
            let regime = Regime::of_vmcoreinfo(&info, memory.from())?;
            (info, regime)
        }
        None => found_in(&file, &core.pieces, &memory, progress)?,
    };
    let kernel = Kernel { info: Some(info), ..Kernel::default() };
    Tables::read(name, regime, memory, kernel, wanted, progress)
}

/// VMCOREINFO from somewhere in the memory itself: the first that is true of it.
fn found_in(
    file: &File,
    pieces: &[Piece],
    memory: &Memory,
    progress: &dyn Fn(Step),
) -> Result<(VmcoreInfo, Regime), Why> {
    let mapping = mapped::map(file)?;
    let total = Some(pieces.len() as u64);
    let mut refused: Option<RegimeError> = None;
    // Segments of a hostile file may be over one another.
    let mut left = 2 * mapping.len();
    for (done, piece) in pieces.iter().enumerate() {
        progress(Step { what: "looking for VMCOREINFO", done: done as u64, total });
        let bytes = usize::try_from(piece.offset).ok().and_then(|from| mapping.get(from..));
        let bytes = bytes.unwrap_or(&[]);
        let stored = usize::try_from(piece.stored).unwrap_or(usize::MAX).min(left).min(bytes.len());
        left -= stored;
        for info in search::texts(&bytes[..stored]) {
            match Regime::of_vmcoreinfo(&info, memory.from()) {
                Ok(regime) => return Ok((info, regime)),
                Err(error) => refused = Some(error),
            }
        }
    }
    Err(refused.map_or(Why::NoVmcoreInfo, Why::Regime))
}
