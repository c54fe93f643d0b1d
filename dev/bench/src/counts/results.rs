//! The counts of all boots.

use std::collections::{BTreeMap, BTreeSet};

use super::boots::{Boot, Map, PageSize};
use super::counted::Counted;

/// The counts of each boot.
pub(crate) struct Results(pub(crate) BTreeMap<Boot, Counted>);

impl Results {
    /// Returns the counts of the image for all page sizes.
    pub(crate) fn of(&self, page_size: PageSize, map: Map, gib: u64) -> Option<&Counted> {
        self.0.get(&Boot { page_size, map, gib, fixed: false })
    }

    /// Returns the counts of the image for this page size alone.
    pub(crate) fn fixed(&self, page_size: PageSize, map: Map, gib: u64) -> Option<&Counted> {
        self.0.get(&Boot { page_size, map, gib, fixed: true })
    }

    /// Returns the counts of the image for all page sizes for one kind of map, by RAM in GiB.
    pub(crate) fn by_ram(&self, page_size: PageSize, map: Map) -> impl Iterator<Item = (u64, &Counted)> {
        let same = move |boot: &Boot| (boot.page_size, boot.map, boot.fixed) == (page_size, map, false);
        self.0.iter().filter(move |(boot, _)| same(boot)).map(|(boot, counted)| (boot.gib, counted))
    }

    /// Returns the names of all windows of some kinds of map.
    pub(crate) fn windows(&self, page_size: PageSize, maps: &[Map]) -> BTreeSet<&str> {
        let same = |boot: &Boot| boot.page_size == page_size && maps.contains(&boot.map);
        let counted = self.0.iter().filter(|(boot, _)| same(boot)).map(|(_, counted)| counted);
        counted.flat_map(|counted| counted.windows.keys()).map(String::as_str).collect()
    }
}
