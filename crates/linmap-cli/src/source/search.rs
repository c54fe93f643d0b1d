//! Searches memory for VMCOREINFO if no note has it.
//!
//! Linux keeps its text at the start of a page of its own. So in a file the first bytes of each page are checked
//! first, and everything only after that. In the memory of a running machine, whose tables are known, only the pages
//! are checked that a pointer in the kernel's own data points to.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};

use linmap::arch::{Entry, Leaf};
use linmap::read::{Bounded, visit};
use linmap::{Attributes, Pa, Va};
use memchr::memmem;

use super::Step;
use super::memory::Physical;
use super::regime::{Regime, translate};
use super::snapshot::Snapshot;
use super::vmcoreinfo::{BEGINNING, LIMIT, VmcoreInfo};

/// The line that is needed.
const SYMBOL: &[u8] = b"SYMBOL(swapper_pg_dir)=";
/// The smallest page: the text begins at a multiple of it.
const PAGE: usize = 4096;
/// The most texts that are tried, and the most places that are checked for one.
const MAX_TEXTS: usize = 64;
const MAX_PLACES: usize = 4096;
/// The most bytes of kernel data that are searched for a pointer.
const MAX_DATA: u64 = 64 << 20;
/// The most pages that are checked for the text.
const MAX_PAGES: usize = 1 << 20;
/// The most table entries that are read; no upper half without its linear map has more.
const MAX_ENTRIES: u64 = 1 << 26;
/// The most differences between virtual and physical addresses that are told apart.
const MAX_OFFSETS: usize = 4096;
/// The number of pages that are read at once.
const BATCH: usize = 256;
/// The number of pages that are read at once if all memory is searched.
const SEARCHED: usize = 4096;
/// The number of data pages that are searched before the pages that they point to are checked.
const CHUNK: usize = 64;

/// Returns all texts in these bytes that look like VMCOREINFO, likeliest first; `bytes` begin with a page.
pub(super) fn texts(bytes: &[u8]) -> impl Iterator<Item = VmcoreInfo> {
    let whole_pages = bytes.chunks(PAGE).enumerate().filter(|(_, page)| page.starts_with(BEGINNING));
    let in_pages = whole_pages.take(MAX_PLACES).filter_map(|(index, _)| text_at(bytes, index * PAGE));
    let anywhere = memmem::find_iter(bytes, SYMBOL).take(MAX_PLACES).filter_map(|found| {
        let start = memmem::rfind(&bytes[found.saturating_sub(LIMIT)..found], BEGINNING)?;
        text_at(bytes, found.saturating_sub(LIMIT) + start)
    });
    in_pages.chain(anywhere).take(MAX_TEXTS)
}

/// Returns all texts that begin a page of memory, in order of address. This reads all of it.
pub(super) fn in_memory<'m>(
    ram: &'m [Range<Pa>],
    memory: &'m dyn Physical,
    progress: &'m dyn Fn(Step),
) -> impl Iterator<Item = VmcoreInfo> + 'm {
    let size = |range: &Range<Pa>| (range.end.0 - range.start.0) / PAGE as u64;
    let total = Some(ram.iter().map(size).sum());
    let pages =
        ram.iter().flat_map(move |range| (0..size(range)).map(|page| Pa(range.start.0 + page * PAGE as u64)));
    let (mut pages, mut done) = (pages, 0);
    let batches = std::iter::from_fn(move || {
        let batch: Vec<Pa> = pages.by_ref().take(SEARCHED).collect();
        done += batch.len() as u64;
        progress(Step { what: "looking for VMCOREINFO", done, total });
        (!batch.is_empty()).then_some(batch)
    });
    batches.flat_map(|batch| texts_among(&batch, memory)).take(MAX_TEXTS)
}

/// Returns the text at this offset, if it has the line that is needed.
fn text_at(bytes: &[u8], start: usize) -> Option<VmcoreInfo> {
    let info = VmcoreInfo::parse(bytes.get(start..)?);
    info.symbol("swapper_pg_dir").map(|_| info)
}

/// Returns the text that the kernel's own data points to, in the part of the upper half that maps its image.
///
/// The pointer is a variable with the initial value 0. Those are last in the image, so the search begins at its end:
/// of Debian's kernels, 1 MiB or less is read, which matters while a guest is halted for it.
pub(super) fn by_pointer(tables: &Snapshot, regime: Regime, memory: &dyn Physical) -> Option<VmcoreInfo> {
    let mut known = HashSet::new();
    image_data(tables, regime).rchunks(CHUNK).find_map(|data| {
        let mut pages = Vec::new();
        memory.read_each(data, PAGE, &mut |_, read| {
            let words = read.unwrap_or(&[]).as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            pages.extend(words.filter(|word| is_page_of_linear_map(*word, regime)).map(Va));
        });
        pages.retain(|page| known.len() < MAX_PAGES && known.insert(*page));
        let at = pages.into_iter().filter_map(|page| translate(tables, regime, page).ok()?.map(|to| to.oa));
        at.collect::<Vec<Pa>>().chunks(BATCH).find_map(|batch| texts_among(batch, memory).into_iter().next())
    })
}

/// Returns the texts at the start of these pages.
fn texts_among(pages: &[Pa], memory: &dyn Physical) -> Vec<VmcoreInfo> {
    let mut found = Vec::new();
    memory.read_each(pages, BEGINNING.len(), &mut |index, read| {
        if read.is_ok_and(|bytes| bytes == BEGINNING) {
            found.push(pages[index]);
        }
    });
    let text = |pa: Pa| {
        let mut text = vec![0; PAGE];
        memory.read(pa, &mut text).ok()?;
        text_at(&text, 0)
    };
    found.into_iter().filter_map(text).collect()
}

/// Returns the pages of the kernel's own writable data: those outside the linear map with the same difference between
/// virtual and physical address as most executable pages.
fn image_data(tables: &Snapshot, regime: Regime) -> Vec<Pa> {
    let mut executable: HashMap<u64, u64> = HashMap::new();
    each_leaf(tables, regime, |va, leaf, bytes| {
        if !leaf.attributes.contains(Attributes::PXN) && executable.len() < MAX_OFFSETS {
            *executable.entry(va.0.wrapping_sub(leaf.oa.0)).or_default() += bytes;
        }
    });
    let image = executable.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(offset, _)| offset);
    let mut pages = Vec::new();
    each_leaf(tables, regime, |va, leaf, bytes| {
        let is_data = leaf.attributes.is_writable() && Some(va.0.wrapping_sub(leaf.oa.0)) == image;
        let room = MAX_DATA / PAGE as u64 - pages.len() as u64;
        let count = if is_data { bytes / PAGE as u64 } else { 0 };
        pages.extend((0..count.min(room)).map(|page| Pa(leaf.oa.0 + page * PAGE as u64)));
    });
    pages
}

/// Calls `each` for every valid leaf of the upper half outside the linear map, with its address and size.
pub(super) fn each_leaf(tables: &Snapshot, regime: Regime, mut each: impl FnMut(Va, Leaf, u64)) {
    let geometry = regime.geometry;
    let above = Va(linmap::layout::linear_range(geometry).1.0 + 1);
    let bounded = Bounded::new(tables, MAX_ENTRIES);
    let walked = visit(
        &bounded,
        geometry,
        regime.root,
        (above, Va(u64::MAX)),
        |&linmap::read::Visited { va, level, entry, .. }| {
            if let Entry::Leaf(leaf) = entry
                && leaf.valid
            {
                each(va, leaf, geometry.level_size(level));
            }
            ControlFlow::Continue(())
        },
    );
    // Leaves before a table that cannot be read have been seen.
    drop(walked);
}

/// Returns true if a word can be the address of a page in the linear map.
fn is_page_of_linear_map(word: u64, regime: Regime) -> bool {
    let (first, last) = linmap::layout::linear_range(regime.geometry);
    (first.0..=last.0).contains(&word) && word.is_multiple_of(regime.geometry.page_size())
}
