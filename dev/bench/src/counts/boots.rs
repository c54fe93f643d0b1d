//! The boots that are counted, by page size, RAM and kind of map.

use std::fmt;

/// Sizes of RAM to map, in GiB.
const RAM: [u64; 5] = [4, 16, 64, 256, 512];

/// A page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PageSize {
    K4,
    K16,
    K64,
}

impl PageSize {
    pub(crate) const ALL: [Self; 3] = [Self::K4, Self::K16, Self::K64];

    /// The argument of `--page-size`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::K4 => "4k",
            Self::K16 => "16k",
            Self::K64 => "64k",
        }
    }

    /// The name in tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::K4 => "4K",
            Self::K16 => "16K",
            Self::K64 => "64K",
        }
    }
}

/// The map of a boot, and the changes made to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Map {
    /// Large leaves, split while they are in use.
    Large,
    /// Pages from the start.
    Pages,
    /// Large leaves, repainted into pages when a CPU that may abort arrives.
    Repaint,
    /// Large leaves, split while the other CPUs are parked.
    Park,
}

impl Map {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Pages => "pages",
            Self::Repaint => "repaint",
            Self::Park => "park",
        }
    }

    pub(crate) fn options(self) -> &'static str {
        match self {
            Self::Large => "--cpus 1 --run bench,modules,micro,contend,pagealloc",
            Self::Pages => "--cpus 1 --run bench,modules,micro --bbml2 off --split pages",
            Self::Repaint => "--cpus 4 --run bench --bbml2 3 --split pages",
            Self::Park => "--cpus 8 --run bench --bbml2 off --split park",
        }
    }
}

/// One boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Boot {
    pub(crate) map: Map,
    /// Boots the image for this page size alone.
    pub(crate) fixed: bool,
    pub(crate) page_size: PageSize,
    pub(crate) gib: u64,
}

/// `4k/64G/large`.
impl fmt::Display for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fixed = if self.fixed { "/fixed" } else { "" };
        f.pad(&format!("{}/{}G/{}{fixed}", self.page_size.name(), self.gib, self.map.name()))
    }
}

impl Boot {
    /// Returns the options after `linmap boot --count --json --image IMAGE`.
    pub(crate) fn options(&self) -> String {
        format!("--page-size {} --ram {}G {}", self.page_size.name(), self.gib, self.map.options())
    }
}

fn each(map: Map, sizes: &[u64], fixed: bool) -> impl Iterator<Item = Boot> {
    PageSize::ALL
        .into_iter()
        .flat_map(move |page_size| sizes.iter().map(move |gib| Boot { page_size, gib: *gib, map, fixed }))
}

/// The boots whose counts are stored: every kind of map, in little time.
pub(crate) fn stored() -> Vec<Boot> {
    let kinds: [(Map, &[u64]); 4] =
        [(Map::Large, &[4, 64]), (Map::Pages, &[4]), (Map::Repaint, &[4, 64]), (Map::Park, &[4])];
    kinds.into_iter().flat_map(|(map, sizes)| each(map, sizes, false)).collect()
}

/// The boots on the page.
pub(crate) fn reported() -> Vec<Boot> {
    let maps = each(Map::Large, &RAM, false).chain(each(Map::Pages, &RAM, false));
    let moved = each(Map::Repaint, &[4, 64, 256], false).chain(each(Map::Park, &[4], false));
    maps.chain(moved).chain(choosing().into_iter().filter(|boot| boot.fixed)).collect()
}

/// The boots that show the cost of choosing the page size at boot: the image for all page sizes and those for one.
pub(crate) fn choosing() -> Vec<Boot> {
    [false, true]
        .into_iter()
        .flat_map(|fixed| [Map::Large, Map::Pages].into_iter().flat_map(move |map| each(map, &[64], fixed)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_say_which_boot_it_is() {
        let boot = Boot { page_size: PageSize::K16, gib: 64, map: Map::Park, fixed: true };
        assert_eq!(boot.to_string(), "16k/64G/park/fixed");
        assert!(boot.options().starts_with("--page-size 16k --ram 64G --cpus 8 "));
    }

    #[test]
    fn no_boot_is_done_twice() {
        for boots in [stored(), reported()] {
            let names: BTreeSet<_> = boots.iter().map(ToString::to_string).collect();
            assert_eq!(names.len(), boots.len());
        }
    }

    #[test]
    fn what_is_compared_is_reported() {
        let reported = reported();
        assert!(choosing().iter().all(|boot| reported.contains(boot)));
    }
}
