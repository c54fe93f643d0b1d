//! The parts of a case: calls, probes, and results that are wrong.

use linmap::error::ChangeError;
use linmap::{Attributes, Change, Pa, Policy, Stats, Va};

use crate::console::say;
use crate::leaf::Leaf;
use crate::probe::{Fault, try_execute, try_read, try_write};
use crate::system::System;
use crate::{parking, report};

/// The number of cases, and of those that went wrong.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) tried: u32,
    pub(super) wrong: u32,
}

impl Tally {
    pub(super) fn add(&mut self, what: &str, va: Va, outcome: Result<(), Wrong>) {
        self.tried += 1;
        match outcome {
            Ok(()) => say!("  {what:<36} {va}"),
            Err(wrong) => {
                self.wrong += 1;
                say!("  {what:<36} {va}  WRONG: {wrong}");
            }
        }
    }
}

/// A result that is wrong.
pub(super) enum Wrong {
    /// A call of the library.
    Call(&'static str, Result<(), ChangeError>),
    /// An access: its kind, and when it was made.
    Access(Va, &'static str, &'static str),
    /// Something else.
    Other(&'static str),
}

impl core::fmt::Display for Wrong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Call(what, Ok(())) => write!(f, "{what} was not refused"),
            Self::Call(what, Err(e)) => write!(f, "{what}: {e}"),
            Self::Access(va, access, when) => write!(f, "{access} at {va} {when}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

pub(super) fn expect(holds: bool, else_what: &'static str) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(Wrong::Other(else_what)) }
}

pub(super) fn done(what: &'static str, result: Result<(), ChangeError>) -> Result<(), Wrong> {
    result.map_err(|e| Wrong::Call(what, Err(e)))
}

/// The accesses that an address should allow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadWrite,
    ReadOnly,
    Nothing,
}

/// The results of probing an address: read, write.
pub(super) type Found = (Result<u64, Fault>, Result<(), Fault>);

/// The addresses of a case; not all places are used.
pub(super) type Addresses = [Option<Va>; 6];

/// A call of the library.
pub(super) type Call<'a> = &'a dyn Fn() -> Result<(), ChangeError>;

/// Returns one address.
pub(super) const fn only(va: Va) -> Addresses {
    [Some(va), None, None, None, None, None]
}

pub(super) struct Test<'a> {
    pub(super) system: &'a System<'a>,
    pub(super) start: Va,
    pub(super) bytes: u64,
}

/// Pages that a case changes.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) va: Va,
    pub(super) pages: u64,
}

impl Test<'_> {
    pub(super) const fn page(&self) -> u64 {
        self.system.geometry.page_size()
    }

    pub(super) const fn pages_of(&self, bytes: u64) -> u64 {
        bytes >> self.system.geometry.page_shift()
    }

    pub(super) fn stats(&self) -> Stats {
        self.system.space.on(&self.system.platform()).stats()
    }

    pub(super) fn protect(&self, span: Span, change: Change) -> Result<(), ChangeError> {
        // SAFETY: the pages are scratch, or were mapped by this test: only probes use them.
        parking::again(|| unsafe {
            self.system.space.on(&self.system.platform()).protect(span.va, span.pages, change)
        })
    }

    pub(super) fn set_valid(&self, span: Span, valid: bool) -> Result<(), ChangeError> {
        // SAFETY: as for `protect`.
        parking::again(|| unsafe {
            self.system.space.on(&self.system.platform()).set_valid(span.va, span.pages, valid)
        })
    }

    pub(super) fn map(&self, span: Span, oa: Pa, attributes: Attributes) -> Result<(), ChangeError> {
        // SAFETY: the memory has no owner, and has one memory type wherever it is mapped.
        parking::again(|| unsafe {
            self.system.space.on(&self.system.platform()).map(span.va, span.pages, oa, attributes)
        })
    }

    pub(super) fn unmap(&self, span: Span) -> Result<(), ChangeError> {
        // SAFETY: as for `protect`.
        parking::again(|| unsafe { self.system.space.on(&self.system.platform()).unmap(span.va, span.pages) })
    }

    pub(super) fn collapse(&self, va: Va, pages: u64) -> Result<(), Wrong> {
        done("collapse", parking::again(|| self.system.space.on(&self.system.platform()).collapse(va, pages)))
    }

    /// Returns the last page of a span.
    pub(super) const fn last(&self, span: Span) -> Va {
        Va(span.va.0 + (span.pages - 1) * self.page())
    }

    /// Returns true if all of a span, which is not empty, is in the scratch range.
    pub(super) const fn has(&self, span: Span) -> bool {
        span.pages != 0 && span.va.0 - self.start.0 + span.pages * self.page() <= self.bytes
    }

    /// Returns true if the policy refuses to change a span, as an end of it lies within a leaf.
    pub(super) fn is_refused(&self, span: Span) -> bool {
        let end = self.last(span).0 + self.page();
        let starts = Leaf::at(self.system, span.va).is_some_and(|l| l.va == span.va);
        let ends = Leaf::at(self.system, self.last(span)).is_some_and(|l| l.va.0 + l.size.bytes() == end);
        self.system.space.policy() == Policy::Fixed && !(starts && ends)
    }

    /// Returns the pages of a span that are probed.
    pub(super) fn inside(&self, span: Span) -> Addresses {
        let middle = Va(span.va.0 + span.pages / 2 * self.page());
        let mut inside = [None; 6];
        inside[..3].copy_from_slice(&[Some(span.va), Some(middle), Some(self.last(span))]);
        inside
    }

    /// Returns the neighbours of a span: the pages beside it, and the ends of the leaves that it starts and ends in.
    pub(super) fn outside(&self, span: Span) -> Addresses {
        let (page, last) = (self.page(), self.last(span));
        let mut outside = [None; 6];
        outside[0] = Some(Va(span.va.0 - page));
        outside[1] = Some(Va(last.0 + page));
        for (slot, va) in [(2, span.va), (4, last)] {
            if let Some(leaf) = Leaf::at(self.system, va) {
                outside[slot] = Some(leaf.va);
                outside[slot + 1] = Some(Va(leaf.va.0 + leaf.size.bytes() - page));
            }
        }
        let inside = span.va.0..=last.0;
        outside.map(|va| va.filter(|va| !inside.contains(&va.0)))
    }

    /// Writes to addresses their own values.
    pub(super) fn fill(addresses: &Addresses) -> Result<(), Wrong> {
        for va in addresses.iter().flatten().copied() {
            // SAFETY: memory without an owner.
            unsafe { try_write(va, va.0) }.map_err(|_| Wrong::Access(va, "write", "before any change"))?;
        }
        Ok(())
    }

    /// Reads an address, and writes what was read.
    pub(super) fn probe(va: Va) -> Found {
        let read = try_read(va);
        // SAFETY: other CPUs have no job, and no interrupt handler writes: nothing changes meanwhile.
        let write = unsafe { try_write(va, read.unwrap_or(0)) };
        (read, write)
    }

    /// Checks that addresses allow what they should, and hold their own values.
    pub(super) fn judge(addresses: &Addresses, access: Access, when: &'static str) -> Result<(), Wrong> {
        for va in addresses.iter().flatten().copied() {
            let (read, write) = Self::probe(va);
            // SAFETY: these pages are not executable, so this faults; if it does not, the test fails.
            let execute = unsafe { try_execute(va) };
            let is_permission = |r: Result<(), Fault>| matches!(r, Err(Fault::Permission(_)));
            let is_translation = |r: Result<(), Fault>| matches!(r, Err(Fault::Translation(_)));
            let as_it_should = match access {
                Access::ReadWrite => [read == Ok(va.0), write.is_ok(), is_permission(execute)],
                Access::ReadOnly => [read == Ok(va.0), is_permission(write), is_permission(execute)],
                Access::Nothing => {
                    [is_translation(read.map(|_| ())), is_translation(write), is_translation(execute)]
                }
            };
            for (ok, what) in as_it_should.into_iter().zip(["read", "write", "execute"]) {
                if !ok {
                    return Err(Wrong::Access(va, what, when));
                }
            }
        }
        Ok(())
    }

    /// Checks that probes have the same results as before.
    pub(super) fn as_before(
        addresses: &Addresses,
        found: &[Option<Found>; 6],
        when: &'static str,
    ) -> Result<(), Wrong> {
        for (va, was) in addresses.iter().zip(found) {
            if let Some(va) = va.filter(|va| Some(Self::probe(*va)) != *was) {
                return Err(Wrong::Access(va, "a neighbour", when));
            }
        }
        Ok(())
    }

    /// Returns the first address of the vmalloc area.
    pub(super) const fn area(&self) -> Va {
        Va((1u64 << (self.system.geometry.va_bits() - 1)).wrapping_neg())
    }

    /// Returns the first and the last page of a span.
    pub(super) fn ends(&self, span: Span) -> Addresses {
        let mut ends = self.inside(span);
        ends[1] = None;
        ends
    }

    /// Checks that the counts are those of a walk.
    pub(super) fn counted(&self) -> Result<(), Wrong> {
        expect(report::walked(self.system) == self.stats(), "the counts are not what the tables hold")
    }
}
