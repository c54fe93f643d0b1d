//! Uses of pages that the kernel's array of struct page tells: secret memory, and free pages that `debug_pagealloc` hides.
//!
//! Hibernation hides nothing for longer than it copies a page; other hidden pages have no use that is known here.

use std::cell::RefCell;
use std::collections::HashMap;

use super::Structures;

/// The number of structures that are read at once.
const BATCH: u64 = 64;
/// More bytes than a `struct page` has.
const MAX_SIZE: u64 = 256;

/// The use of a page that is hidden from the linear map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// `memfd_secret`.
    Secret,
    /// Free, and hidden by `debug_pagealloc`.
    Free,
}

/// The kernel's array of struct page.
pub(crate) struct Pages<'k, 's> {
    kernel: &'k Structures<'s>,
    /// The address of the structure of page 0, and the size of one.
    start: u64,
    size: u64,
    secret: Option<Secret>,
    free: Option<Free>,
}

/// A way to tell the pages of `memfd_secret`: by the operations of their mapping.
struct Secret {
    mapping: u64,
    operations: u64,
    own: u64,
    /// Mappings that were looked at.
    known: RefCell<HashMap<u64, bool>>,
}

/// A way to tell free pages: nobody refers to them, and they are no part of a larger page. If nothing hides free pages,
/// there is none.
#[derive(Clone, Copy)]
struct Free {
    references: u64,
    head: u64,
}

impl<'k, 's> Pages<'k, 's> {
    /// Finds the array, whose page 0 would be at `start`; `None` if it can tell nothing.
    pub(crate) fn of(kernel: &'k Structures<'s>, start: u64) -> Option<Self> {
        let size = kernel.btf.as_ref()?.size("page").filter(|size| (8..=MAX_SIZE).contains(size))?;
        let inside = |offset: &u64| *offset <= size - 8;
        let pages = Self {
            kernel,
            start,
            size,
            secret: Secret::of(kernel).filter(|secret| inside(&secret.mapping)),
            free: Free::of(kernel).filter(|free| inside(&free.head) && free.references <= size - 4),
        };
        (pages.secret.is_some() || pages.free.is_some()).then_some(pages)
    }

    /// Calls `each` with the use of every one of `count` pages from `first` on, in runs: how many, and their use if it is known.
    pub(crate) fn uses(&self, first: u64, count: u64, mut each: impl FnMut(u64, Option<Use>)) {
        let mut bytes = vec![0; (BATCH * self.size) as usize];
        let mut done = 0;
        while done < count {
            let batch = BATCH.min(count - done);
            let at = self.start.wrapping_add(first.wrapping_add(done).wrapping_mul(self.size));
            let part = &mut bytes[..(batch * self.size) as usize];
            let is_read = (self.kernel.read)(at, part);
            let uses = part
                .chunks_exact(self.size as usize)
                .map(|page| is_read.then(|| self.of_page(page)).flatten());
            let uses: Vec<Option<Use>> = uses.collect();
            uses.chunk_by(|a, b| a == b).for_each(|run| each(run.len() as u64, run[0]));
            done += batch;
        }
    }

    fn of_page(&self, page: &[u8]) -> Option<Use> {
        if self.secret.as_ref().is_some_and(|secret| secret.has(self.kernel, page)) {
            return Some(Use::Secret);
        }
        let is_free = |free: Free| {
            half(page, free.references) == Some(0) && word(page, free.head).is_some_and(|head| head & 1 == 0)
        };
        self.free.is_some_and(is_free).then_some(Use::Free)
    }
}

impl Secret {
    fn of(kernel: &Structures<'_>) -> Option<Self> {
        Some(Self {
            mapping: kernel.offset("page", "mapping").or_else(|| kernel.offset("folio", "mapping"))?,
            operations: kernel.offset("address_space", "a_ops")?,
            own: kernel.symbol("secretmem_aops")?,
            known: RefCell::default(),
        })
    }

    fn has(&self, kernel: &Structures<'_>, page: &[u8]) -> bool {
        // The lowest bits of the pointer are flags of other kinds of pages.
        let Some(mapping) = word(page, self.mapping).filter(|mapping| *mapping != 0 && mapping & 3 == 0)
        else {
            return false;
        };
        let look = || kernel.word(mapping.wrapping_add(self.operations)) == Some(self.own);
        *self.known.borrow_mut().entry(mapping).or_insert_with(look)
    }
}

impl Free {
    fn of(kernel: &Structures<'_>) -> Option<Self> {
        let mut enabled = [0];
        let is_read = (kernel.read)(kernel.symbol("_debug_pagealloc_enabled_early")?, &mut enabled);
        let head =
            ["compound_head", "compound_info"].into_iter().find_map(|name| kernel.offset("page", name))?;
        let references = kernel.offset("page", "_refcount")?;
        (is_read && enabled[0] == 1).then_some(Self { references, head })
    }
}

fn word(page: &[u8], at: u64) -> Option<u64> {
    page.get(at as usize..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

fn half(page: &[u8], at: u64) -> Option<u32> {
    page.get(at as usize..)?.first_chunk().map(|half| u32::from_le_bytes(*half))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Machine;
    use super::*;

    const START: u64 = 0x10_0000;

    /// 200 pages in use; 3 and 4 have a mapping, of which the first is secret, 70 is free, and 71 is part of a larger page.
    fn machine(hides_free: u64) -> Machine {
        let mut machine = Machine::new(false);
        for page in 0..200 {
            let references = u64::from(page != 70 && page != 71) << 32;
            machine.put(START + page * 64, &[0, u64::from(page == 71), 0, 0, 0, 0, references, 0]);
        }
        machine.put(START + 3 * 64 + 16, &[0x7000]);
        machine.put(START + 4 * 64 + 16, &[0x7101]);
        machine.put(0x7028, &[0x6000]);
        machine.put(0x8128, &[hides_free]);
        machine
    }

    fn uses(machine: &Machine, first: u64, count: u64) -> Vec<(u64, Option<Use>)> {
        let (symbol, read) =
            (|name: &str| machine.symbol(name), |at, into: &mut [u8]| machine.read(at, into));
        let kernel = Structures::new(&symbol, &read, None);
        let pages = Pages::of(&kernel, START).expect("it is known");
        let mut found: Vec<(u64, Option<Use>)> = Vec::new();
        pages.uses(first, count, |count, of| match found.last_mut() {
            Some(last) if last.1 == of => last.0 += count,
            _ => found.push((count, of)),
        });
        found
    }

    #[test]
    fn hidden_pages_have_uses() {
        let secret = (1, Some(Use::Secret));
        assert_eq!(
            uses(&machine(1), 0, 200),
            [(3, None), secret, (66, None), (1, Some(Use::Free)), (129, None)]
        );
        assert_eq!(uses(&machine(0), 0, 200), [(3, None), secret, (196, None)]);
        assert_eq!(uses(&machine(1), 3, 1), [secret]);
        // Beyond the array nothing can be read.
        assert_eq!(uses(&machine(1), 1000, 100), [(100, None)]);
    }

    #[test]
    fn without_types_nothing_is_told() {
        let machine = machine(1);
        let (symbol, read) = (|_: &str| None, |at, into: &mut [u8]| machine.read(at, into));
        assert!(Pages::of(&Structures::new(&symbol, &read, None), START).is_none());
    }
}
