//! Pages of RAM that two addresses map with different memory attributes (B2.11).
//!
//! What counts: write-back beside any type that is not, and two shareabilities, both write-back. Two of the types that are
//! not write-back may be mapped together: the effects of that are few, and barriers avoid them (B2.11, the second of the
//! situations with a more restrictive set of behaviors). They are always outer shareable (B2.10.1.1.1, D8.6.2).

use linmap::arch::Mair;
use linmap::{Attributes, MemoryType, OaFormat};

use super::reach::{Held, Stages};
use super::{Finding, Machine};
use crate::{Expected, Rule};

/// The attributes of a location that all its addresses must have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Definition {
    /// Normal write-back memory, with the bits of its shareability.
    WriteBack(u64),
    /// Anything else.
    Other,
}

impl Definition {
    const fn describe(self) -> &'static str {
        match self {
            Self::WriteBack(0b11) => "write-back, inner shareable",
            Self::WriteBack(0b10) => "write-back, outer shareable",
            Self::WriteBack(_) => "write-back, not shareable",
            Self::Other => "not write-back",
        }
    }
}

impl Machine {
    fn definition(&self, attributes: Attributes) -> Definition {
        // Tags make no mismatch (B2.11), and of the cacheability the allocation hints do not count.
        if !matches!(Mair(MemoryType::mair(true)).field(attributes.memory_type()), 0xff | 0xf0) {
            return Definition::Other;
        }
        // With DS=1 TCR has the shareability of all.
        match self.geometry().oa_format() {
            OaFormat::Lpa2 => Definition::WriteBack(0b11),
            _ => Definition::WriteBack((attributes & Attributes::INNER_SHAREABLE).bits() >> 8),
        }
    }

    /// Notes the pages of announced mappings that are not write-back and inner shareable: without any there is nothing to
    /// compare.
    pub(super) fn note_types(&mut self, changes: &[Expected]) {
        for change in changes {
            let Some(to) = change.to else { continue };
            let attributes = Attributes::from_bits_retain(to.attributes);
            if self.definition(attributes) != Definition::WriteBack(0b11) {
                self.physical.typed.add(to.pa, to.pa.saturating_add(change.bytes - 1), self.now);
            }
        }
    }

    /// Judges a translation that walkers may use from now on.
    pub(super) fn has_one_type(&self, held: &Held<'_>) -> Result<(), Finding> {
        let (mut first, last) = held.pages();
        let new = self.definition(held.cached.attributes);
        while let Some((pages, _)) = self.physical.typed.first_in(first, last) {
            self.leading_to(Stages::First, pages, &mut |other| {
                let old = self.definition(other.cached.attributes);
                if old == new {
                    return Ok(());
                }
                let va = held.part.0 + (other.pages().0 - held.pages().0);
                let fact =
                    format!("the page at {va:#x} is {}, and here it is {}", new.describe(), old.describe());
                Err(self.contradicts(Rule::MismatchedAttributes, fact, other))
            })?;
            if pages.1 == last {
                break;
            }
            first = pages.1 + 1;
        }
        Ok(())
    }
}
