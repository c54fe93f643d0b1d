//! The end: all pages are restored, and the map gets back the leaves that it had.

use core::ops::Range;

use kernel::stress::model::{Change, Page};
use linmap::Policy;

use super::state::{At, Stress};
use crate::cpu;
use crate::leaf::Leaf;

impl Stress<'_> {
    /// Returns the pages of the linear map whose leaves lie within the range; the leaves at its ends may not.
    pub(super) fn whole_leaves(&self) -> Range<usize> {
        let all = 0..self.pages.linear;
        let (first, last) = self.ends(&all);
        let shift = self.system.geometry.page_shift();
        let ends = |va| Leaf::at(self.system, va).map(|leaf| (leaf.va, leaf.va.0 + (leaf.size.bytes() - 1)));
        let (Some((start, start_end)), Some((end_start, end))) = (ends(first), ends(last)) else {
            return 0..0;
        };
        let from = if start == first { first.0 } else { start_end + 1 };
        let to = if end == last.0 { last.0 + 1 } else { end_start.0 };
        if from >= to {
            return 0..0;
        }
        ((from - first.0) >> shift) as usize..((to - first.0) >> shift) as usize
    }

    /// Restores all pages. `whole` are those in whole leaves. If the policy is that no leaf changes its size, such
    /// leaves were split while they were invalid, and do not collapse; so they are mapped anew.
    pub(super) fn restore(&self, whole: Range<usize>) {
        let at = At { cpu: cpu::this().index, number: u64::MAX >> 8 };
        self.add_missing(at);
        let is_ram = |page: usize| self.model.at(page) == Page::RAM;
        let (all, mut page) = (0..self.pages.linear, 0);
        while let Some(start) = (page..all.end).find(|page| !is_ram(*page)) {
            page = (start..all.end).find(|page| is_ram(*page)).unwrap_or(all.end);
            self.change(at, Change::Data, start..page);
            self.change(at, Change::Valid, start..page);
        }
        self.collapse(at, &all);
        if self.system.space.policy() == Policy::Fixed && !whole.is_empty() {
            self.change(at, Change::Unmap, whole.clone());
            self.change(at, Change::Map { skewed: false }, whole);
        }
        self.unmap_all(at, self.pages.linear..self.pages.all());
    }
}
