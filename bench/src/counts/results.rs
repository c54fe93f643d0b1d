//! What all boots counted, by boot.

use std::collections::{BTreeMap, BTreeSet};

use super::boots::{Boot, Map, PageSize};
use super::counted::Counted;

pub(crate) struct Results(pub(crate) BTreeMap<Boot, Counted>);

impl Results {
    /// What the image for all page sizes counted.
    pub(crate) fn of(&self, page_size: PageSize, map: Map, gib: u64) -> Option<&Counted> {
        self.0.get(&Boot { page_size, map, gib, fixed: false })
    }

    /// What the image for this page size alone counted.
    pub(crate) fn fixed(&self, page_size: PageSize, map: Map, gib: u64) -> Option<&Counted> {
        self.0.get(&Boot { page_size, map, gib, fixed: true })
    }

    /// Maps of one kind by the image for all page sizes, by RAM.
    pub(crate) fn by_ram(&self, page_size: PageSize, map: Map) -> impl Iterator<Item = (u64, &Counted)> {
        let same = move |boot: &Boot| (boot.page_size, boot.map, boot.fixed) == (page_size, map, false);
        self.0.iter().filter(move |(boot, _)| same(boot)).map(|(boot, counted)| (boot.gib, counted))
    }

    /// The names of all windows that maps of one page size have.
    pub(crate) fn windows(&self, page_size: PageSize, maps: &[Map]) -> BTreeSet<&str> {
        let same = |boot: &Boot| boot.page_size == page_size && maps.contains(&boot.map);
        let counted = self.0.iter().filter(|(boot, _)| same(boot)).map(|(_, counted)| counted);
        counted.flat_map(|counted| counted.windows.keys()).map(String::as_str).collect()
    }
}
