//! The leaves of a linear map, as the kernel counts them.

use serde_json::Value;

use super::document::Document;
use crate::size::human;

/// All leaves of one kind.
pub(crate) struct Leaves {
    /// Bytes that one descriptor maps.
    pub(crate) size: u64,
    /// True if the descriptors are runs that can share a TLB entry.
    pub(crate) contiguous: bool,
    pub(crate) descriptors: u64,
}

impl Leaves {
    /// Returns the leaves in the kernel's report, largest first; malformed ones are left out.
    pub(crate) fn of(document: &Document) -> Vec<Self> {
        let mut leaves: Vec<Self> = document.list("/linear/leaves").iter().filter_map(Self::read).collect();
        leaves.sort_by_key(|leaves| std::cmp::Reverse((leaves.size, leaves.contiguous)));
        leaves
    }

    fn read(value: &Value) -> Option<Self> {
        Some(Self {
            size: value.get("size")?.as_u64()?,
            contiguous: value.get("contiguous").and_then(Value::as_bool).unwrap_or(false),
            descriptors: value.get("descriptors")?.as_u64()?,
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.descriptors)
    }

    /// Returns the name: `2M`, or `32M contiguous (16 x 2M)`.
    pub(crate) fn name(&self, page_size: u64) -> String {
        let size = human(self.size);
        match run_length(page_size, self.size) {
            _ if !self.contiguous => size,
            Some(run) => format!("{} contiguous ({run} x {size})", human(self.size.saturating_mul(run))),
            None => format!("{size} contiguous"),
        }
    }
}

/// Returns how many descriptors make a contiguous run.
fn run_length(page_size: u64, size: u64) -> Option<u64> {
    let sizes = super::cost::geometry(page_size, 48)?.leaf_sizes();
    sizes.iter().find(|s| s.contiguous && 1 << s.entry_shift == size).map(|s| s.descriptors())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_far_a_run_reaches() {
        let name = |page_size, size, contiguous| Leaves { size, contiguous, descriptors: 1 }.name(page_size);
        assert_eq!(name(4 << 10, 1 << 30, false), "1G");
        assert_eq!(name(4 << 10, 2 << 20, true), "32M contiguous (16 x 2M)");
        assert_eq!(name(16 << 10, 16 << 10, true), "2M contiguous (128 x 16K)");
        assert_eq!(name(16 << 10, 32 << 20, true), "1G contiguous (32 x 32M)");
        assert_eq!(name(64 << 10, 512 << 20, true), "16G contiguous (32 x 512M)");
        assert_eq!(name(0, 1, true), "1 contiguous");
    }
}
