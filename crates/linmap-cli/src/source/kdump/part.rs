//! One file of a kdump-compressed core: all of it, or a part of a split one.

use linmap::Pa;

use super::super::bytes::Bytes;
use super::super::memory::Unreadable;
use super::super::vmcoreinfo::{LIMIT, VmcoreInfo};
use super::bitmap::Bitmap;
use super::error::KdumpError;
use super::header::{HEADER, Header, SUB_HEADER, SubHeader};
use super::page::{DESCRIPTOR, Stored};

/// A page of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Page {
    /// It is stored.
    Stored(Stored),
    /// It was left out.
    Filtered,
    /// Another part has it.
    Elsewhere,
    /// It is no memory.
    NoRam,
}

/// One file of a core.
#[derive(Debug)]
pub(super) struct Part {
    bytes: Bytes,
    pub(super) header: Header,
    pub(super) sub: SubHeader,
    /// The pages that are memory; `None` if the stored ones are all that is known.
    memory: Option<Bitmap>,
    stored: Bitmap,
    /// The number of stored pages before the first page of this part.
    first: u64,
}

impl Part {
    pub(super) fn read(bytes: Bytes) -> Result<Self, KdumpError> {
        let mut header = Header::parse(&bytes.part("its header", 0, HEADER)?)?;
        let mut sub = SubHeader::default();
        if !header.is_diskdump {
            let part = bytes.part("its sub-header", header.block, SUB_HEADER)?;
            sub = SubHeader::parse(&part, header.version)?;
        }
        header.pages = sub.pages.unwrap_or(header.pages);
        let (start, length) = (header.bitmaps(), header.bitmap_bytes());
        bytes.has("its bitmaps", start, length)?;
        // Two bitmaps if there is room for them: of memory, then of stored pages.
        let one = header.pages.div_ceil(8).next_multiple_of(header.block);
        if one > length {
            return Err(KdumpError::Damaged("its bitmaps are shorter than its memory"));
        }
        let is_partial = length >= 2 * one;
        let read = |offset| Bitmap::read(&bytes, offset, header.pages);
        let memory = if is_partial { Some(read(start)?) } else { None };
        let stored = read(if is_partial { start + length / 2 } else { start })?;
        let first = match sub.split {
            Some((first, _)) => stored.rank(&bytes, first)?.0,
            None => 0,
        };
        Ok(Self { bytes, header, sub, memory, stored, first })
    }

    /// Returns VMCOREINFO, if the file has it in its place.
    pub(super) fn info(&self) -> Result<Option<VmcoreInfo>, KdumpError> {
        let Some((offset, length)) = self.sub.info else { return Ok(None) };
        let text = self.bytes.part("VMCOREINFO", offset, length.min(LIMIT as u64))?;
        Ok(Some(VmcoreInfo::parse(&text)))
    }

    /// Returns the bitmap of memory, as far as it is known.
    pub(super) fn ram(&self) -> &Bitmap {
        self.memory.as_ref().unwrap_or(&self.stored)
    }

    /// Returns what this file has of a page.
    pub(super) fn page(&self, page: u64) -> Result<Page, KdumpError> {
        if self.sub.split.is_some_and(|(first, end)| !(first..end).contains(&page)) {
            return Ok(Page::Elsewhere);
        }
        let (before, is_stored) = self.stored.rank(&self.bytes, page)?;
        if !is_stored {
            let is_ram = self.memory.as_ref().map(|memory| memory.rank(&self.bytes, page)).transpose()?;
            return Ok(if is_ram.is_some_and(|(_, is_ram)| is_ram) { Page::Filtered } else { Page::NoRam });
        }
        let index = before.checked_sub(self.first).ok_or(KdumpError::Damaged("its part begins elsewhere"))?;
        let offset = index.checked_mul(DESCRIPTOR).and_then(|at| at.checked_add(self.header.descriptors()));
        let offset = offset.ok_or(KdumpError::Damaged("the number of its pages"))?;
        self.bytes.has("a page descriptor", offset, DESCRIPTOR)?;
        let mut descriptor = [0; DESCRIPTOR as usize];
        self.bytes.read_at(&mut descriptor, offset)?;
        Ok(Page::Stored(Stored::parse(&descriptor)))
    }

    /// Fills `into`, of one page, with the contents of a page that is stored.
    pub(super) fn read_stored(&self, pa: Pa, stored: Stored, into: &mut [u8]) -> Result<(), Unreadable> {
        let failed = |why: String| Unreadable::Failed { pa, why };
        // None of the methods makes a page twice as long.
        if stored.size as usize > 2 * into.len() {
            return Err(failed(format!("its page would be stored in {} bytes", stored.size)));
        }
        let packed = self.bytes.part("a page", stored.offset, stored.size.into());
        stored.contents(pa, &packed.map_err(|why| failed(why.to_string()))?, into)
    }
}
