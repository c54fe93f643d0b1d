//! A model of what each page must allow: one byte a page, and the effect of each operation.
//!
//! A byte has two states, before and after the operation that is under way there; at rest they are the same. So CPUs
//! that do not own a page know that it is in one of the two.

use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

/// A page as the MMU has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// Nothing is mapped.
    Hole,
    /// It is mapped.
    Mapped(Mapped),
}

/// The mapping of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// Accesses translate.
    pub valid: bool,
    /// A valid page can be written.
    pub writable: bool,
    /// A valid page can be executed; never both.
    pub executable: bool,
    /// It is mapped to the page after its own.
    pub skewed: bool,
}

/// A change of pages by one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Not writable.
    ReadOnly,
    /// Writable.
    Writable,
    /// Executable.
    Executable,
    /// Not executable.
    NotExecutable,
    /// Read-only and executable.
    Code,
    /// Writable and not executable.
    Data,
    /// Accesses translate.
    Valid,
    /// They do not.
    Invalid,
    /// Mapped as data where nothing is mapped.
    Map {
        /// See [`Mapped`].
        skewed: bool,
    },
    /// Nothing is mapped any more.
    Unmap,
    /// Valid again: a break-before-make took it out for a moment.
    Remade {
        /// See [`Mapped`].
        skewed: bool,
    },
    /// No RAM any more.
    Removed,
    /// RAM again, as at boot.
    Added,
}

impl Change {
    /// Returns the library's change, if it is one of permissions.
    pub const fn permissions(self) -> Option<linmap::Change> {
        use linmap::Change as Permissions;
        Some(match self {
            Self::ReadOnly => Permissions::READ_ONLY,
            Self::Writable => Permissions::WRITABLE,
            Self::Executable => Permissions::EXECUTABLE,
            Self::NotExecutable => Permissions::NOT_EXECUTABLE,
            Self::Code => Permissions::READ_ONLY.and(Permissions::EXECUTABLE),
            Self::Data => Permissions::WRITABLE.and(Permissions::NOT_EXECUTABLE),
            Self::Valid
            | Self::Invalid
            | Self::Map { .. }
            | Self::Unmap
            | Self::Remade { .. }
            | Self::Removed
            | Self::Added => return None,
        })
    }
}

/// The reason why a page does not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Nothing is mapped there.
    Hole,
    /// It is mapped.
    Occupied,
    /// It would be writable and executable at once.
    WriteExecute,
    /// It is not as RAM is at boot.
    NotRam,
}

/// The outcome of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It succeeds.
    Works,
    /// A permission fault.
    Permission,
    /// A translation fault.
    Translation,
}

impl Page {
    /// RAM as mapped at boot.
    pub const RAM: Self =
        Self::Mapped(Mapped { valid: true, writable: true, executable: false, skewed: false });

    /// Returns four bits: 0 is a hole; valid, writable and executable make a number below 7, as no page is all of them.
    const fn code(self) -> u8 {
        match self {
            Self::Hole => 0,
            Self::Mapped(Mapped { valid, writable, executable, skewed }) => {
                1 + (valid as u8 * 4 + writable as u8 * 2 + executable as u8) + 7 * skewed as u8
            }
        }
    }

    const fn of(code: u8) -> Self {
        if code == 0 {
            return Self::Hole;
        }
        let (bits, skewed) = ((code - 1) % 7, code > 7);
        Self::Mapped(Mapped {
            valid: bits & 4 != 0,
            writable: bits & 2 != 0,
            executable: bits & 1 != 0,
            skewed,
        })
    }

    /// Returns the page after a change.
    ///
    /// # Errors
    ///
    /// The change is refused, and with it that of all pages of the same call.
    pub const fn after(self, change: Change) -> Result<Self, Refusal> {
        let Self::Mapped(page) = self else {
            return match change {
                Change::Map { skewed } => {
                    Ok(Self::Mapped(Mapped { valid: true, writable: true, executable: false, skewed }))
                }
                Change::Added => Ok(Self::RAM),
                _ => Err(Refusal::Hole),
            };
        };
        let page = match change {
            Change::ReadOnly => Mapped { writable: false, ..page },
            Change::Writable => Mapped { writable: true, ..page },
            Change::Executable => Mapped { executable: true, ..page },
            Change::NotExecutable => Mapped { executable: false, ..page },
            Change::Code => Mapped { writable: false, executable: true, ..page },
            Change::Data => Mapped { writable: true, executable: false, ..page },
            Change::Valid => Mapped { valid: true, ..page },
            Change::Invalid => Mapped { valid: false, ..page },
            Change::Remade { skewed } => Mapped { valid: true, skewed, ..page },
            Change::Map { .. } | Change::Added => return Err(Refusal::Occupied),
            Change::Unmap => return Ok(Self::Hole),
            Change::Removed => {
                return match page {
                    Mapped { valid: true, writable: true, executable: false, skewed: false } => {
                        Ok(Self::Hole)
                    }
                    _ => Err(Refusal::NotRam),
                };
            }
        };
        if page.valid && page.writable && page.executable {
            return Err(Refusal::WriteExecute);
        }
        Ok(Self::Mapped(page))
    }

    /// Returns the outcome of a read, a write and a call.
    pub const fn allows(self) -> [Access; 3] {
        const fn permitted(is: bool) -> Access {
            if is { Access::Works } else { Access::Permission }
        }
        match self {
            Self::Mapped(Mapped { valid: true, writable, executable, .. }) => {
                [Access::Works, permitted(writable), permitted(executable)]
            }
            _ => [Access::Translation; 3],
        }
    }
}

/// The knowledge of a page: its state before and after the operation that is under way there, if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Before.
    pub before: Page,
    /// After.
    pub after: Page,
}

/// The bytes of all pages.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a>(pub &'a [AtomicU8]);

impl Model<'_> {
    /// Puts pages at rest in this state. The caller owns them.
    pub fn set(&self, pages: Range<usize>, state: Page) {
        let code = state.code();
        self.0[pages].iter().for_each(|byte| byte.store(code << 4 | code, Ordering::Release));
    }

    /// Returns what is known of a page.
    pub fn known(&self, page: usize) -> Known {
        let byte = self.0[page].load(Ordering::Acquire);
        Known { before: Page::of(byte >> 4), after: Page::of(byte & 0xf) }
    }

    /// Returns the state of a page at rest.
    pub fn at(&self, page: usize) -> Page {
        self.known(page).before
    }

    /// Returns the first page that a change is refused for, and why.
    pub fn refusal(&self, pages: Range<usize>, change: Change) -> Option<(usize, Refusal)> {
        pages.into_iter().find_map(|page| Some((page, self.at(page).after(change).err()?)))
    }

    /// Returns the pages, from the first on, up to one that the change is refused for; all of them if it is refused for
    /// the first.
    pub fn fitting(&self, pages: Range<usize>, change: Change) -> Range<usize> {
        match self.refusal(pages.clone(), change) {
            Some((page, _)) if page != pages.start => pages.start..page,
            _ => pages,
        }
    }

    /// Returns the pages from the first on that are holes if that one is, and are not if it is not.
    pub fn like_the_first(&self, pages: Range<usize>) -> Range<usize> {
        let is_hole = |page: usize| self.at(page) == Page::Hole;
        let first = is_hole(pages.start);
        let end = pages.clone().find(|page| is_hole(*page) != first).unwrap_or(pages.end);
        pages.start..end
    }

    /// Begins a change that is refused for no page. The caller owns the pages.
    pub fn begin(&self, pages: Range<usize>, change: Change) {
        for byte in &self.0[pages] {
            let before = Page::of(byte.load(Ordering::Relaxed) >> 4);
            let after = before.after(change).unwrap_or(before);
            byte.store(before.code() << 4 | after.code(), Ordering::Release);
        }
    }

    /// Ends it: it was made, or nothing was.
    pub fn end(&self, pages: Range<usize>, made: bool) {
        for byte in &self.0[pages] {
            let both = byte.load(Ordering::Relaxed);
            let code = if made { both & 0xf } else { both >> 4u32 };
            byte.store(code << 4 | code, Ordering::Release);
        }
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
