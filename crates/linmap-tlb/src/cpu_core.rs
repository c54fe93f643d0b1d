//! A CPU core as far as its TLBs go: two levels, a cache of tables, and how entries are replaced.

use std::fmt;

/// The TLBs of a core. Each parameter comes from text: see [`Parameters`](crate::Parameters).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// The core's name, such as `Neoverse N1`.
    pub name: String,
    /// The first level, data side.
    pub l1: TlbLevel,
    /// The second level; a miss here is a walk.
    pub l2: TlbLevel,
    /// The number of aligned pages in a row that can share an entry: a power of two, 1 if none can.
    pub coalesce: u64,
    /// True if a contiguous run takes one entry.
    pub contiguous: bool,
    /// The place where walks cache tables.
    pub walk_cache: WalkCache,
    /// The choice of the entry that a full set evicts.
    pub replacement: Replacement,
    /// The text that each value was read from, with its source.
    pub parameters: Vec<Parameter>,
}

/// One parameter of a core, as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// One of the keys of a core file, such as `l1.entries`.
    pub key: &'static str,
    /// Its value as text.
    pub value: String,
    /// The source of the value, such as a manual and its section; may be empty.
    pub source: String,
    /// The place of its text, for errors: `FILE:LINE` or the caller's own.
    pub(crate) place: String,
}

/// One level of TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlbLevel {
    /// The number of entries.
    pub entries: usize,
    /// The number of entries in a set; all of them if the level is fully associative.
    pub ways: usize,
    /// log2 of the sizes that an entry can cover, smallest first.
    pub shifts: Vec<u32>,
}

/// The place where a core keeps the table entries that its walks read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkCache {
    /// Nowhere.
    None,
    /// Among the translations of the second level.
    InL2,
    /// In a cache of its own.
    Own {
        /// The number of entries.
        entries: usize,
        /// The number of entries in a set.
        ways: usize,
    },
}

/// The choice of the entry that a full set evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The one that was not used for longest.
    LeastRecentlyUsed,
    /// Any.
    Random,
}

impl fmt::Display for Parameter {
    /// Writes the key and the value: `l1.entries = 48`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} = {}", self.key, self.value)
    }
}

impl fmt::Display for TlbLevel {
    /// Writes entries, associativity and sizes: `1280 entries, 5-way (4K 64K 2M)`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} entries, ", self.entries)?;
        match self.ways {
            ways if ways == self.entries => out.write_str("fully associative")?,
            ways => write!(out, "{ways}-way")?,
        }
        let sizes: Vec<String> = self.shifts.iter().map(|shift| size(*shift)).collect();
        write!(out, " ({})", sizes.join(" "))
    }
}

/// Returns a power of two with its unit: `64K`.
fn size(shift: u32) -> String {
    let (unit, base) = [("T", 40), ("G", 30), ("M", 20), ("K", 10)]
        .into_iter()
        .find(|(_, base)| shift >= *base)
        .unwrap_or(("", 0));
    format!("{}{unit}", 1u64 << (shift - base))
}
