//! A file or a pipe, recognised by its first bytes: a core, or a saved dump.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::core::{self, Core};
use super::error::Problem;
use super::input::{self, Input};
use super::memory::{Memory, Piece, Pieces};
use super::regime::{Regime, RegimeError};
use super::vmcoreinfo::VmcoreInfo;
use super::{Kernel, Opened, Step, Tables, Wanted, compressed, mapped, saved, search};
use crate::printable::line;

/// Opens a file of either kind.
pub(super) fn open(path: &Path, wanted: Wanted, progress: &dyn Fn(Step)) -> Result<Opened, Problem> {
    read(input::named(path)?, &line(&path.to_string_lossy()), wanted, progress)
}

/// Reads the standard input, a core or a saved dump.
pub(super) fn open_standard(wanted: Wanted, progress: &dyn Fn(Step)) -> Result<Opened, Problem> {
    read(input::standard()?, "-", wanted, progress)
}

fn read(input: Input, name: &str, wanted: Wanted, progress: &dyn Fn(Step)) -> Result<Opened, Problem> {
    match input {
        Input::File(file, bytes) => {
            let beginning = beginning(&file)?;
            if beginning.starts_with(&core::MAGIC) {
                let name = format!("core `{name}`");
                return open_core(name, file, bytes, wanted, progress)
                    .map(|tables| Opened::Tables(tables.into()));
            }
            let kind = recognised(&beginning)?;
            saved::within(bytes)?;
            saved::read(kind, name, &mut beginning.chain(file)).map(|saved| Opened::Saved(saved.into()))
        }
        Input::Pipe(mut pipe) => {
            let beginning = beginning(&mut pipe)?;
            if beginning.starts_with(&core::MAGIC) {
                return Err(Problem::PipedCore);
            }
            let kind = recognised(&beginning)?;
            saved::read(kind, name, &mut beginning.chain(pipe)).map(|saved| Opened::Saved(saved.into()))
        }
    }
}

/// Returns the kind of a file that is not a core.
fn recognised(beginning: &[u8]) -> Result<saved::Kind, Problem> {
    match compressed::told(beginning) {
        _ if beginning.is_empty() => Err(Problem::Empty),
        Some(what) => Err(Problem::Compressed(what)),
        None => saved::recognised(beginning),
    }
}

/// Returns the first bytes of a file.
fn beginning(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(compressed::BEGINNING as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_core(
    name: String,
    file: File,
    bytes: u64,
    wanted: Wanted,
    progress: &dyn Fn(Step),
) -> Result<Tables, Problem> {
    let core = Core::read(&file, bytes)?;
    let ram: Vec<_> = core.pieces.iter().map(Piece::range).collect();
    let memory = Memory::new(ram, Box::new(Pieces::new(file.try_clone()?, core.pieces.clone())));
    // A guest whose kernel does not fill the note in has an empty one.
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

/// Returns the first VMCOREINFO in the memory itself that the tables confirm.
fn found_in(
    file: &File,
    pieces: &[Piece],
    memory: &Memory,
    progress: &dyn Fn(Step),
) -> Result<(VmcoreInfo, Regime), Problem> {
    let mapping = mapped::map(file)?;
    let total = Some(pieces.len() as u64);
    let mut refused: Option<RegimeError> = None;
    // Segments of a hostile file can overlap.
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
    Err(refused.map_or(Problem::NoVmcoreInfo, Problem::Regime))
}
