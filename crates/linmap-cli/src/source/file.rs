//! A file, a pipe or a directory, recognised by its first bytes: a core, or a saved dump.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::Path;

use super::bytes::Bytes;
use super::core::{self, Core};
use super::error::Problem;
use super::input::{self, Input};
use super::kdump::{self, Kdump};
use super::memory::{Memory, Piece, Pieces};
use super::opened::Place;
use super::packed::{self, Packing};
use super::regime::{Regime, RegimeError};
use super::vmcoreinfo::VmcoreInfo;
use super::{Kernel, Opened, Request, Step, Tables, compressed, flattened, mapped, saved, search};
use crate::printable::line;

/// More files than a split core has.
const MAX_FILES: usize = 4096;

/// A name and a request: what all kinds of files are read with.
#[derive(Clone, Copy)]
struct Reading<'a> {
    name: &'a str,
    request: Request<'a>,
}

/// Opens a file of any kind, or a directory with the parts of a split core.
pub(super) fn open(path: &Path, request: Request<'_>) -> Result<Opened, Problem> {
    let name = line(&path.to_string_lossy());
    let reading = Reading { name: &name, request };
    if path.is_dir() {
        return open_kdump(directory(path)?, reading);
    }
    read(input::named(path)?, reading)
}

/// Reads the standard input, of any kind.
pub(super) fn open_standard(request: Request<'_>) -> Result<Opened, Problem> {
    read(input::standard()?, Reading { name: "-", request })
}

fn read(input: Input, reading: Reading<'_>) -> Result<Opened, Problem> {
    let mut from: Box<dyn Read> = match input {
        Input::File(file, bytes) => {
            let beginning = Bytes::of(file.try_clone()?, bytes).beginning(compressed::BEGINNING)?;
            if Packing::of(&beginning).is_none() {
                return read_file(file, bytes, reading);
            }
            Box::new(file)
        }
        Input::Pipe(pipe) => pipe,
    };
    let beginning = beginning(&mut from)?;
    let packing = Packing::of(&beginning).or_else(|| is_core(&beginning).then_some(Packing::None));
    let from = beginning.chain(from);
    match packing {
        Some(packing) => {
            let (file, bytes) = packed::unpacked(packing, from, reading.request.progress)?;
            read_file(file, bytes, reading)
        }
        None => read_saved(&beginning, from, reading),
    }
}

/// Returns true for files that are read here and there.
fn is_core(beginning: &[u8]) -> bool {
    beginning.starts_with(&core::MAGIC)
        || beginning.starts_with(flattened::MAGIC)
        || kdump::is_kdump(beginning)
}

/// Reads a file of so many bytes that is not packed.
fn read_file(mut file: File, length: u64, reading: Reading<'_>) -> Result<Opened, Problem> {
    let bytes = unflattened(file.try_clone()?, length)?;
    let beginning = bytes.beginning(compressed::BEGINNING)?;
    if beginning.starts_with(&core::MAGIC) {
        return open_core(bytes, reading);
    }
    if kdump::is_kdump(&beginning) {
        return open_kdump([bytes], reading);
    }
    let Some(_) = bytes.plain() else { return Err(Problem::FlattenedOther) };
    saved::within(length)?;
    file.rewind()?;
    read_saved(&beginning, file, reading)
}

/// Returns the contents of a file, put together if they are flattened.
fn unflattened(file: File, length: u64) -> Result<Bytes, Problem> {
    let bytes = Bytes::of(file, length);
    let is_flattened = bytes.beginning(flattened::MAGIC.len())? == flattened::MAGIC;
    Ok(if is_flattened { bytes.flattened()? } else { bytes })
}

/// Reads a saved dump. `from` has its beginning, too.
fn read_saved(beginning: &[u8], mut from: impl Read, reading: Reading<'_>) -> Result<Opened, Problem> {
    let kind = recognised(beginning)?;
    saved::read(kind, reading.name, &mut from).map(|saved| Opened::Saved(saved.into()))
}

/// Returns the kind of a file that is not a core.
fn recognised(beginning: &[u8]) -> Result<saved::Kind, Problem> {
    match compressed::told(beginning) {
        _ if beginning.is_empty() => Err(Problem::Empty),
        Some(what) => Err(Problem::Compressed(what)),
        None => saved::recognised(beginning),
    }
}

/// Returns the first bytes of a pipe.
fn beginning(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(compressed::BEGINNING as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the kdump-compressed cores in a directory, by name. Other files are left alone.
fn directory(path: &Path) -> Result<Vec<Bytes>, Problem> {
    let entries = fs::read_dir(path).map_err(Problem::Open)?.take(MAX_FILES);
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut parts = Vec::new();
    for path in paths.iter().filter(|path| path.is_file()) {
        let Ok(file) = File::open(path) else { continue };
        let length = file.metadata()?.len();
        // A file of another kind can be anything.
        let Ok(bytes) = unflattened(file, length) else { continue };
        if kdump::is_kdump(&bytes.beginning(compressed::BEGINNING)?) {
            parts.push(bytes);
        }
    }
    Ok(parts)
}

fn open_kdump(
    files: impl IntoIterator<Item = Bytes>,
    Reading { name, request }: Reading<'_>,
) -> Result<Opened, Problem> {
    let core = Kdump::open(files)?;
    let (ram, info, notes) = (core.ram(), core.info()?, core.notes());
    let memory = Memory::new(ram.iter().cloned(), Box::new(core));
    let search = || confirmed(search::in_memory(&ram, memory.from(), request.progress), &memory);
    let (info, regime) = told_or_found(info, &memory, search)?;
    // What was read to find it is no news.
    let _ = memory.from().remark();
    let kernel = Kernel { info: Some(info), ..Kernel::default() };
    let mut tables = Tables::read(Place { name: format!("core `{name}`"), regime, memory }, kernel, request)?;
    tables.notes.extend(notes);
    Ok(Opened::Tables(tables.into()))
}

fn open_core(bytes: Bytes, Reading { name, request }: Reading<'_>) -> Result<Opened, Problem> {
    let core = Core::read(&bytes)?;
    let ram: Vec<_> = core.pieces.iter().map(Piece::range).collect();
    let file = bytes.plain().map(File::try_clone).transpose()?;
    let memory = Memory::new(ram.clone(), Box::new(Pieces::new(bytes, core.pieces.clone())));
    let search = || match &file {
        Some(file) => found_in(file, &core.pieces, &memory, request.progress),
        None => confirmed(search::in_memory(&ram, memory.from(), request.progress), &memory),
    };
    let (info, regime) = told_or_found(core.info, &memory, search)?;
    let kernel = Kernel { info: Some(info), ..Kernel::default() };
    let tables = Tables::read(Place { name: format!("core `{name}`"), regime, memory }, kernel, request)?;
    Ok(Opened::Tables(tables.into()))
}

/// Returns the tables of VMCOREINFO: of the core's own, or else of one that is searched for.
fn told_or_found(
    info: Option<VmcoreInfo>,
    memory: &Memory,
    search: impl FnOnce() -> Result<(VmcoreInfo, Regime), Problem>,
) -> Result<(VmcoreInfo, Regime), Problem> {
    // A guest whose kernel does not fill the note in has an empty one.
    match info.filter(|info| info.symbol("swapper_pg_dir").is_some()) {
        Some(info) => {
            let regime = Regime::of_vmcoreinfo(&info, memory.from())?;
            Ok((info, regime))
        }
        None => search(),
    }
}

/// Returns the first VMCOREINFO that the tables confirm.
fn confirmed(
    texts: impl Iterator<Item = VmcoreInfo>,
    memory: &Memory,
) -> Result<(VmcoreInfo, Regime), Problem> {
    let mut refused: Option<RegimeError> = None;
    for info in texts {
        match Regime::of_vmcoreinfo(&info, memory.from()) {
            Ok(regime) => return Ok((info, regime)),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or(Problem::NoVmcoreInfo, Problem::Regime))
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
    // Segments of a hostile file can overlap.
    let mut left = 2 * mapping.len();
    let texts = pieces.iter().enumerate().flat_map(|(done, piece)| {
        progress(Step { what: "looking for VMCOREINFO", done: done as u64, total });
        let bytes = usize::try_from(piece.offset).ok().and_then(|from| mapping.get(from..));
        let bytes = bytes.unwrap_or(&[]);
        let stored = usize::try_from(piece.stored).unwrap_or(usize::MAX).min(left).min(bytes.len());
        left -= stored;
        search::texts(&bytes[..stored])
    });
    confirmed(texts, memory)
}
