//! Policy on top: which leaves the linear map uses, why, and how it comes into being.

use core::fmt;

use crate::{AddressSpace, Error, Half, Layout, Leaves, Platform, Rodata, Stats, Tree};

/// Which CPUs promise never to abort when a live entry changes its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// All of them.
    All,
    /// Not the boot CPU.
    NotBoot,
}

impl Mode {
    /// The number that people call it by.
    pub const fn number(self) -> u8 {
        match self {
            Self::All => 1,
            Self::NotBoot => 2,
        }
    }
}

/// What is done with that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The largest leaves, split in place.
    Live,
    /// All RAM in pages, but for the alias of the kernel image.
    Pages,
    /// The largest leaves; a change that needs a split is refused.
    Fixed,
    /// The largest leaves; the other CPUs are parked while one changes its size.
    Park,
}

impl Policy {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Live, Self::Pages, Self::Fixed, Self::Park];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Pages => "pages",
            Self::Fixed => "fixed",
            Self::Park => "park",
        })
    }
}

/// A mode, the policy that follows, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Which CPUs promise.
    pub mode: Mode,
    /// What follows.
    pub policy: Policy,
    /// Why this policy, as the end of a sentence about the mode.
    pub because: &'static str,
}

impl Decision {
    /// What the protection asked for leads to on a boot CPU that promises never to abort when a live
    /// entry changes size, or one that does not.
    ///
    /// Only `rodata=full` changes single pages of the linear map while the system runs; with anything
    /// less the leaves never change their size, and may be large on any CPU.
    pub const fn on_boot_cpu(never_aborts: bool, rodata: Rodata) -> Self {
        let mode = if never_aborts { Mode::All } else { Mode::NotBoot };
        let (policy, because) = match (rodata, mode) {
            (Rodata::Off | Rodata::On, _) => {
                (Policy::Fixed, "rodata is not full, so no leaf ever changes its size")
            }
            (Rodata::Full, Mode::All) => (Policy::Live, "leaves can be split while they are in use"),
            (Rodata::Full, Mode::NotBoot) => {
                (Policy::Pages, "rodata=full changes single pages and leaves can not be split live")
            }
        };
        Self { mode, policy, because }
    }

    /// The leaves that the policy creates the map with.
    pub const fn leaves(&self) -> Leaves {
        match self.policy {
            Policy::Live | Policy::Fixed | Policy::Park => Leaves::Largest,
            Policy::Pages => Leaves::Pages,
        }
    }
}

/// Creates the linear map in a live address space that has nothing there yet.
///
/// Built off line in one pass and published by one store for each entry of the root: no TLBI, two
/// DSB and one ISB, whatever the size of RAM.
///
/// # Errors
///
/// Out of frames, something is mapped there, or the layout is of another geometry. Then the address space is as before and every frame
/// has been given back.
pub fn create<P: Platform>(
    space: &AddressSpace,
    platform: &P,
    layout: &Layout<'_>,
    leaves: Leaves,
) -> Result<Stats, Error> {
    let tree = Tree::build(platform, layout.geometry(), Half::Upper, layout.runs(leaves))?;
    space.graft(platform, tree)
}
