//! kdump-compressed cores: each page compressed for itself, and only pages that makedumpfile did not filter out. QEMU's
//! `dump-guest-memory -z`, `-l` and `-s` writes them, too.
//!
//! - `header`, `page`: the form; pure.  `bitmap`: which pages there are.  `part`: one file.  `error`: what can be wrong.
//!
//! A page of zeros may have been left out. Tables in use are in no other kind of page that is left out, so such a table is
//! empty, and that is said.

mod bitmap;
mod error;
mod header;
mod page;
mod part;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use linmap::Pa;

use self::part::{Page, Part};
use super::bytes::Bytes;
use super::memory::{Each, Physical, Unreadable};
use super::vmcoreinfo::VmcoreInfo;
use crate::size::grouped;
pub(crate) use error::KdumpError;

/// The bit of the level that leaves pages of zeros out.
const ZEROS: u32 = 1;
/// Fewer pages than this are not worth a second thread.
const SHARE: usize = 16;

/// Returns true for the first bytes of a kdump-compressed core.
pub(super) fn is_kdump(beginning: &[u8]) -> bool {
    beginning.starts_with(header::KDUMP) || beginning.starts_with(header::DISKDUMP)
}

/// The memory of a kdump-compressed core, of one file or of several.
#[derive(Debug)]
pub(super) struct Kdump {
    parts: Vec<Part>,
    /// The page that was read last: small pieces of it are asked for one after the other.
    last: Mutex<Option<(u64, Vec<u8>)>>,
    /// The pages that were left out and taken for zeros.
    zeros: AtomicU64,
}

impl Kdump {
    /// Opens the parts of a core.
    pub(super) fn open(files: impl IntoIterator<Item = Bytes>) -> Result<Self, KdumpError> {
        let parts = files.into_iter().map(Part::read).collect::<Result<Vec<_>, _>>()?;
        let first = parts.first().ok_or(KdumpError::NoPart)?;
        for other in &parts[1..] {
            let differs = match (&first.header, &other.header) {
                (one, other) if one.release != other.release => "the kernel's release",
                (one, other) if one.block != other.block => "the size of blocks",
                (one, other) if one.pages != other.pages => "the size of memory",
                _ if first.sub.split.is_none() || other.sub.split.is_none() => "that one is not split",
                _ => continue,
            };
            return Err(KdumpError::OtherCore(differs));
        }
        Ok(Self { parts, last: Mutex::new(None), zeros: AtomicU64::new(0) })
    }

    /// Returns VMCOREINFO, if a part has it in its place.
    pub(super) fn info(&self) -> Result<Option<VmcoreInfo>, KdumpError> {
        self.parts.iter().find_map(|part| part.info().transpose()).transpose()
    }

    /// Returns the ranges of RAM; none if there are too many.
    pub(super) fn ram(&self) -> Vec<Range<Pa>> {
        let block = self.block();
        let pa = |page: u64| Pa(page.saturating_mul(block));
        let ranges = self.parts.iter().flat_map(|part| part.ram().ranges());
        ranges.map(|range| pa(range.start)..pa(range.end)).collect()
    }

    /// Returns what people should know of it, as sentences.
    pub(super) fn notes(&self) -> Vec<String> {
        let split: Vec<_> = self.parts.iter().filter_map(|part| part.sub.split).collect();
        let [(first, end)] = split[..] else { return Vec::new() };
        let block = self.block();
        vec![format!(
            "it is one part of a split core, with the memory from {:#x} to {:#x}; a directory with all parts is read as one core",
            first.saturating_mul(block),
            end.saturating_mul(block),
        )]
    }

    /// Returns the size of pages and blocks.
    fn block(&self) -> u64 {
        self.parts.first().map_or(4096, |part| part.header.block)
    }

    /// Fills `into`, of one page, with the contents of a page.
    fn read_page(&self, page: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        let pa = Pa(page.saturating_mul(self.block()));
        let mut missing = Unreadable::NoRam(pa);
        for part in &self.parts {
            let found = part.page(page).map_err(|why| Unreadable::Failed { pa, why: why.to_string() })?;
            match found {
                Page::Stored(stored) => return part.read_stored(pa, stored, into),
                Page::Filtered if part.sub.level & ZEROS != 0 => {
                    self.zeros.fetch_add(1, Ordering::Relaxed);
                    into.fill(0);
                    return Ok(());
                }
                Page::Filtered => missing = Unreadable::Filtered { pa, level: part.sub.level },
                Page::Elsewhere if missing == Unreadable::NoRam(pa) => missing = Unreadable::OtherPart(pa),
                Page::Elsewhere | Page::NoRam => {}
            }
        }
        Err(missing)
    }

    /// Fills `into` from the bytes at an address. `page` is room for one page, and the number of the page that is in it.
    fn read_with(
        &self,
        pa: Pa,
        into: &mut [u8],
        page: &mut Option<(u64, Vec<u8>)>,
    ) -> Result<(), Unreadable> {
        let (block, mut done) = (self.block(), 0);
        while done < into.len() {
            let here = pa.0.checked_add(done as u64).ok_or(Unreadable::NoRam(pa))?;
            let at = (here % block) as usize;
            if page.as_ref().is_none_or(|(number, _)| *number != here / block) {
                let (_, mut bytes) = page.take().unwrap_or_else(|| (0, vec![0; block as usize]));
                self.read_page(here / block, &mut bytes)?;
                *page = Some((here / block, bytes));
            }
            let Some((_, bytes)) = page else { return Err(Unreadable::NoRam(Pa(here))) };
            let part = &bytes[at..bytes.len().min(at + into.len() - done)];
            into[done..done + part.len()].copy_from_slice(part);
            done += part.len();
        }
        Ok(())
    }
}

impl Physical for Kdump {
    fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), Unreadable> {
        // If another reader panicked, what it left is a page or nothing.
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.read_with(pa, into, &mut last)
    }

    fn read_each(&self, at: &[Pa], bytes: usize, each: &mut Each<'_>) {
        let threads =
            thread::available_parallelism().map_or(1, usize::from).min(at.len().div_ceil(SHARE)).max(1);
        let mut read: Vec<Result<Vec<u8>, Unreadable>> = Vec::with_capacity(at.len());
        let share = |at: &[Pa]| {
            let mut page = None;
            at.iter()
                .map(|pa| {
                    let mut buffer = vec![0; bytes];
                    self.read_with(*pa, &mut buffer, &mut page).map(|()| buffer)
                })
                .collect::<Vec<_>>()
        };
        thread::scope(|scope| {
            let mut shares = at.chunks(at.len().div_ceil(threads).max(1));
            let own = shares.next().unwrap_or(&[]);
            let spawn = |at| thread::Builder::new().spawn_scoped(scope, move || share(at));
            let others: Vec<_> = shares.map(|at| (at, spawn(at))).collect();
            read.extend(share(own));
            for (at, other) in others {
                // Without another thread, this one reads it.
                read.extend(other.ok().and_then(|other| other.join().ok()).unwrap_or_else(|| share(at)));
            }
        });
        for (index, read) in read.iter().enumerate() {
            each(index, read.as_ref().map(|bytes| &bytes[..]).map_err(Clone::clone));
        }
    }

    fn remark(&self) -> Option<String> {
        let zeros = self.zeros.swap(0, Ordering::Relaxed);
        (zeros != 0).then(|| {
            let tables = if zeros == 1 { "1 page was" } else { &format!("{} pages were", grouped(zeros)) };
            format!("{tables} filtered out of the core and taken for zeros, as its filter leaves pages of zeros out")
        })
    }
}
