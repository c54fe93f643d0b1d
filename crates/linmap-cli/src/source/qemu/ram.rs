//! Reads the guest's RAM from this process: in a shared file, in the memory of QEMU's process, or not at all.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::super::bytes::Bytes;
use super::super::memory::{Piece, Pieces};
use super::answers::{self, Mapping, Ram};
use super::monitor::{Monitor, MonitorError};

/// RAM that can be read while the guest runs, and where it is read from.
pub(super) struct Readable {
    pub(super) pieces: Pieces,
    pub(super) by: &'static str,
}

/// Finds the best way to read the RAM; `None` if there is only the gdbstub.
pub(super) fn find(monitor: &mut Monitor, ram: &[Ram]) -> Result<Option<Readable>, MonitorError> {
    if let Some(readable) = of_backend(monitor, ram)? {
        return Ok(Some(readable));
    }
    let Some((pid, _)) = monitor.peer() else { return Ok(None) };
    let mut at = Vec::new();
    for ram in ram {
        let answer = monitor.command(&format!("gpa2hva {:#x}", ram.pa))?;
        let Some(host) = answers::host_address(&answer) else { return Ok(None) };
        at.push((ram, host));
    }
    Ok(of_mapping(pid, &at).or_else(|| of_process(pid, &at)))
}

/// Opens the file of a shared `memory-backend-file` that has all RAM.
fn of_backend(monitor: &mut Monitor, ram: &[Ram]) -> Result<Option<Readable>, MonitorError> {
    let Some(region) = ram.first().map(|ram| &ram.region) else { return Ok(None) };
    let backend = region.strip_prefix("/objects/").unwrap_or(region);
    let one = ram.iter().all(|ram| ram.region == *region);
    if !one
        || backend.contains(char::is_whitespace)
        || !answers::is_shared(&monitor.command("info memdev")?, backend)
    {
        return Ok(None);
    }
    let answer = monitor.command(&format!("qom-get /objects/{backend} mem-path"))?;
    let file = answers::text_property(&answer).and_then(|path| File::open(path).ok());
    let whole = ram.iter().map(|ram| ram.offset.saturating_add(ram.bytes)).max().unwrap_or(0);
    // The path can be a directory that held an unnamed file.
    let file = file.filter(|file| file.metadata().is_ok_and(|about| about.is_file() && about.len() >= whole));
    Ok(file.map(|file| {
        let pieces = ram.iter().map(|ram| piece(ram, ram.offset)).collect();
        Readable { pieces: Pieces::new(Bytes::of(file, u64::MAX), pieces), by: "a shared file" }
    }))
}

/// Opens the file that QEMU has mapped for it, if it is a shared one.
fn of_mapping(pid: u32, at: &[(&Ram, u64)]) -> Option<Readable> {
    let maps = answers::mappings(&fs::read_to_string(format!("/proc/{pid}/maps")).ok()?);
    let mut found: Option<&Mapping> = None;
    let mut pieces = Vec::new();
    for (ram, host) in at {
        let mapped = maps.iter().find_map(|map| map.piece(ram, *host).map(|piece| (map, piece)));
        let (mapping, piece) =
            mapped.filter(|(map, _)| found.is_none_or(|first| first.inode == map.inode))?;
        found = Some(mapping);
        pieces.push(piece);
    }
    let mapping = found?;
    let handle = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let is_it =
        |file: &File| file.metadata().is_ok_and(|about| about.is_file() && about.ino() == mapping.inode);
    let paths = [Path::new(&handle), Path::new(&mapping.path)];
    let file = paths.into_iter().filter_map(|path| File::open(path).ok()).find(is_it)?;
    Some(Readable { pieces: Pieces::new(Bytes::of(file, u64::MAX), pieces), by: "a shared file" })
}

/// Opens the memory of QEMU's process, if this process has the permission.
fn of_process(pid: u32, at: &[(&Ram, u64)]) -> Option<Readable> {
    let file = File::open(format!("/proc/{pid}/mem")).ok()?;
    let pieces = at.iter().map(|(ram, host)| piece(ram, *host)).collect();
    Some(Readable { pieces: Pieces::new(Bytes::of(file, u64::MAX), pieces), by: "QEMU's memory" })
}

fn piece(ram: &Ram, offset: u64) -> Piece {
    Piece { pa: ram.pa, bytes: ram.bytes, stored: ram.bytes, offset }
}
