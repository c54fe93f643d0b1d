//! The reason why leaves are split: a small number that a caller gives.

use core::fmt;

/// The reason of a change, by which splits are counted
/// ([`SharedSpace::split_cost`](crate::SharedSpace::split_cost)): a number below [`COUNT`](Self::COUNT).
///
/// Five have names. The platform gives 6 and 7 a meaning of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Reason(u8);

impl Reason {
    /// The number of reasons.
    pub const COUNT: usize = 8;
    /// No reason was given. Such splits are not counted apart.
    pub const NONE: Self = Self(0);
    /// A module of the kernel: its code and constants become read-only.
    pub const MODULE: Self = Self(1);
    /// A program for the kernel's virtual machine (BPF).
    pub const BPF: Self = Self(2);
    /// Pages that are watched for wrong accesses (KFENCE, `debug_pagealloc`).
    pub const GUARD: Self = Self(3);
    /// The range of a crash kernel.
    pub const CRASH: Self = Self(4);
    /// Memory of a user that the kernel does not reach (`memfd_secret`, guests).
    pub const USER: Self = Self(5);

    /// Returns the reason with this number, or `None` if there is none.
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// Returns its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns all reasons that are counted: all but [`NONE`](Self::NONE).
    pub fn all() -> impl Iterator<Item = Self> {
        (1..Self::COUNT as u8).map(Self)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            ["none", "module", "bpf", "guard", "crash", "user", "own-6", "own-7"][usize::from(self.0 & 7)],
        )
    }
}
