//! The crash kernel's reservation: its seals, the image in it, its size.

use core::fmt;
use core::ops::Range;

use linmap::{Change, Pa};

/// The accesses that the linear map allows of the reserved memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Seal {
    /// Reads and writes, as for all RAM.
    #[default]
    Open,
    /// Reads.
    ReadOnly,
    /// Nothing: every access faults.
    Invalid,
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::ReadOnly => "read-only",
            Self::Invalid => "invalid",
        })
    }
}

/// A change of the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A change of permissions.
    Protect(Change),
    /// A change of validity.
    SetValid(bool),
}

impl Seal {
    /// Iterates over the changes from this seal to another one. Invalid pages become valid after their permissions are
    /// right, so each step leaves one of the two seals in force.
    pub fn steps(self, to: Self) -> impl Iterator<Item = Step> {
        let change = match to {
            Self::Open => Some(Step::Protect(Change::WRITABLE)),
            Self::ReadOnly => Some(Step::Protect(Change::READ_ONLY)),
            Self::Invalid => None,
        };
        let valid = match (self, to) {
            (Self::Invalid, Self::Invalid) => None,
            (_, Self::Invalid) => Some(Step::SetValid(false)),
            (Self::Invalid, _) => Some(Step::SetValid(true)),
            _ => None,
        };
        [change.filter(|_| self != to), valid].into_iter().flatten()
    }
}

/// The reason why something is not done. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// An image is loaded.
    Loaded,
    /// No image is loaded.
    NotLoaded,
    /// It is sealed.
    Sealed(Seal),
    /// It would grow.
    Grows {
        /// Its size in bytes.
        size: u64,
        /// The size asked for.
        asked: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loaded => f.write_str("a crash kernel is loaded; unload it first"),
            Self::NotLoaded => f.write_str("no crash kernel is loaded; load one first"),
            Self::Sealed(seal) => {
                write!(
                    f,
                    "the crash kernel's reservation is sealed, {seal}; unseal it before its image changes"
                )
            }
            Self::Grows { size, asked } => write!(
                f,
                "the crash kernel's reservation has {size:#x} bytes and can only shrink; {asked:#x} is more"
            ),
        }
    }
}

impl core::error::Error for Refusal {}

/// The reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reserved {
    range: Range<Pa>,
    page: u64,
    seal: Seal,
    loaded: bool,
}

impl Reserved {
    /// Makes a reservation of memory in whole pages, open, without an image.
    pub const fn new(range: Range<Pa>, page: u64) -> Self {
        Self { range, page, seal: Seal::Open, loaded: false }
    }

    /// Returns the memory.
    pub const fn range(&self) -> &Range<Pa> {
        &self.range
    }

    /// Returns its size in bytes.
    pub const fn size(&self) -> u64 {
        self.range.end.0 - self.range.start.0
    }

    /// Returns its seal.
    pub const fn seal(&self) -> Seal {
        self.seal
    }

    /// Records a new seal.
    pub const fn sealed(&mut self, seal: Seal) {
        self.seal = seal;
    }

    /// Loads an image, or unloads it.
    ///
    /// # Errors
    ///
    /// One is loaded already, none is loaded, or it is sealed.
    pub fn load(&mut self, load: bool) -> Result<(), Refusal> {
        match (self.seal, self.loaded) {
            (_, true) if load => Err(Refusal::Loaded),
            (_, false) if !load => Err(Refusal::NotLoaded),
            (Seal::ReadOnly | Seal::Invalid, _) => Err(Refusal::Sealed(self.seal)),
            (Seal::Open, _) => {
                self.loaded = load;
                Ok(())
            }
        }
    }

    /// Returns the part that is left over if the size becomes `size`, rounded up to whole pages.
    ///
    /// # Errors
    ///
    /// The size would grow, or an image is loaded.
    pub fn tail(&self, size: u64) -> Result<Range<Pa>, Refusal> {
        let whole = size.checked_next_multiple_of(self.page).unwrap_or(u64::MAX);
        if self.loaded {
            return Err(Refusal::Loaded);
        }
        if whole > self.size() {
            return Err(Refusal::Grows { size: self.size(), asked: size });
        }
        Ok(Pa(self.range.start.0 + whole)..self.range.end)
    }

    /// Records that the tail has been given away.
    pub fn shrunk(&mut self, tail: &Range<Pa>) {
        self.range.end = tail.start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;
    use std::vec::Vec;

    const MIB: u64 = 1 << 20;

    fn reserved() -> Reserved {
        Reserved::new(Pa(0x8000_0000)..Pa(0x8000_0000 + 64 * MIB), 0x4000)
    }

    #[test]
    fn no_step_opens_more_than_the_next_seal() {
        let (read_only, writable) = (Step::Protect(Change::READ_ONLY), Step::Protect(Change::WRITABLE));
        let (valid, invalid) = (Step::SetValid(true), Step::SetValid(false));
        let cases: [(Seal, Seal, &[Step]); 9] = [
            (Seal::Open, Seal::Open, &[]),
            (Seal::Open, Seal::ReadOnly, &[read_only]),
            (Seal::Open, Seal::Invalid, &[invalid]),
            (Seal::ReadOnly, Seal::Open, &[writable]),
            (Seal::ReadOnly, Seal::ReadOnly, &[]),
            (Seal::ReadOnly, Seal::Invalid, &[invalid]),
            // Permissions become right before pages become valid.
            (Seal::Invalid, Seal::Open, &[writable, valid]),
            (Seal::Invalid, Seal::ReadOnly, &[read_only, valid]),
            (Seal::Invalid, Seal::Invalid, &[]),
        ];
        for (from, to, expected) in cases {
            assert_eq!(from.steps(to).collect::<Vec<_>>(), expected, "{from} to {to}");
        }
    }

    #[test]
    fn an_image_is_loaded_into_what_is_open() {
        let mut reserved = reserved();
        assert_eq!(reserved.load(false), Err(Refusal::NotLoaded));
        reserved.sealed(Seal::ReadOnly);
        assert_eq!(reserved.load(true), Err(Refusal::Sealed(Seal::ReadOnly)));
        reserved.sealed(Seal::Open);
        assert_eq!(reserved.load(true), Ok(()));
        assert_eq!(reserved.load(true), Err(Refusal::Loaded));
        reserved.sealed(Seal::Invalid);
        assert_eq!(reserved.load(false), Err(Refusal::Sealed(Seal::Invalid)));
        assert_eq!(reserved.tail(0), Err(Refusal::Loaded));
        reserved.sealed(Seal::Open);
        assert_eq!(reserved.load(false), Ok(()));
        assert!(reserved.tail(0).is_ok());
    }

    #[test]
    fn it_shrinks_to_whole_pages_and_never_grows() {
        let mut reserved = reserved();
        let (start, end) = (0x8000_0000, 0x8400_0000);
        let tails = [(0, start), (1, start + 0x4000), (64 * MIB - 0x4001, end - 0x4000), (64 * MIB, end)];
        for (size, first) in tails {
            assert_eq!(reserved.tail(size), Ok(Pa(first)..Pa(end)), "{size:#x}");
        }
        for size in [64 * MIB + 1, u64::MAX] {
            let grows = Refusal::Grows { size: 64 * MIB, asked: size };
            assert_eq!(reserved.tail(size), Err(grows));
        }
        assert_eq!(
            reserved.tail(65 * MIB).unwrap_err().to_string(),
            "the crash kernel's reservation has 0x4000000 bytes and can only shrink; 0x4100000 is more"
        );
        let tail = reserved.tail(10 * MIB + 1).unwrap();
        reserved.shrunk(&tail);
        assert_eq!((reserved.size(), reserved.range().start), (10 * MIB + 0x4000, Pa(start)));
    }
}
