//! The two ends of a range that changes: the leaves and contiguous runs that contain them are cut, so that the change
//! affects whole leaves only.

use crate::batch::TlbBatch;
use crate::build::OutOfFrames;
use crate::edit::editor::Editor;
use crate::edit::guard::Guard;
use crate::edit::resize::Resize;
use crate::edit::stop::{Needs, Stop};
use crate::format::{Descriptor, Geometry, LeafChange, Level, Span};
use crate::plan::Policy;
use crate::read::Table;

/// The two ends of a range, which may be within leaves.
pub(crate) struct Ends<'a, G: Guard> {
    editor: &'a Editor<'a, G>,
    change: &'a LeafChange,
    /// The change that is made with the cut: the same, or none.
    built: &'a LeafChange,
    /// Other changes that may follow.
    later: &'a [LeafChange],
    span: Span,
    /// A table that translates all of the range.
    above: &'a Table,
}

/// A leaf that contains an end of a range, or the run that it is in.
#[derive(Clone, Copy)]
struct End {
    /// Its change, without the tables that replace it.
    resize: Resize,
    /// True if the leaf itself is cut.
    split: bool,
}

impl End {
    /// Returns the addresses of the leaf.
    #[inline(always)]
    fn leaf(&self) -> Span {
        self.resize.table.span_of(self.resize.index)
    }
}

impl<'a, G: Guard> Ends<'a, G> {
    /// Returns the ends of a range, which lies within one table.
    pub(crate) const fn new(
        editor: &'a Editor<'a, G>,
        change: &'a LeafChange,
        (above, span): (&'a Table, Span),
    ) -> Self {
        Self { editor, change, built: change, later: &[], span, above }
    }

    /// Returns the ends of a range whose leaves are cut for this change, but do not change yet. Others may follow it.
    pub(crate) const fn cutting(
        editor: &'a Editor<'a, G>,
        (change, later): (&'a LeafChange, &'a [LeafChange]),
        at: (&'a Table, Span),
    ) -> Self {
        Self { built: &LeafChange::NONE, later, ..Self::new(editor, change, at) }
    }

    /// Changes the size of the leaves that contain the ends. `in_use` is the first of them that is in use.
    ///
    /// # Errors
    ///
    /// The policy or the CPUs do not permit it, or it takes more than the guard covers, or table pages. Nothing has changed.
    pub(crate) fn resize(&self, in_use: Option<u64>, batch: &mut TlbBatch) -> Result<(), Stop> {
        let editor = self.editor;
        editor.may_resize(editor.policy, in_use)?;
        editor.guard.settle(editor, self.span);
        let in_use = in_use.is_some();
        let first = self.end(self.span.first)?;
        // The other end may be in the same leaf.
        let last = match first {
            Some(both) if both.split && both.leaf().covers(self.span.last, self.span.last) => None,
            _ => self.end(self.span.last)?,
        };
        match (first, last) {
            (Some(first), Some(last)) => self.carry_out([first, last], in_use, batch),
            (Some(one), None) | (None, Some(one)) => self.carry_out([one], in_use, batch),
            (None, None) => Ok(()),
        }
    }

    /// Does so for one leaf or two.
    #[inline(always)]
    fn carry_out<const N: usize>(
        &self,
        ends: [End; N],
        in_use: bool,
        batch: &mut TlbBatch,
    ) -> Result<(), Stop> {
        let (editor, policy) = (self.editor, self.editor.policy);
        let frames = || ends.iter().map(|end| self.frames(end)).sum();
        // The tables of one leaf are built or given back.
        if N > 1 {
            editor.has_frames(frames())?;
        }
        let mut resizes = ends.map(|End { resize, .. }| resize);
        for (resize, end) in resizes.iter_mut().zip(ends) {
            if end.split {
                resize.link = Some(self.build(&end.resize).map_err(|_| Needs::Frames(frames()))?);
            }
        }
        for Resize { table, index, dissolves, .. } in &resizes {
            // In a long operation this hold is the only one that changes them.
            let at = table.run_of(*index, dissolves.unwrap_or(1));
            editor.guard.mark(at.common(self.span));
        }
        if let [first, last] = &mut resizes[..]
            && last.dissolves_run_of(first)
        {
            last.dissolves = None;
        }
        Resize::all::<G, 4>(editor, (policy, in_use), &resizes, true)?;
        if in_use && policy != Policy::Park {
            for resize in &resizes {
                self.invalidate(resize, batch);
            }
        }
        Ok(())
    }

    /// Adds a leaf to a batch if it was split.
    #[inline(always)]
    fn invalidate(&self, &Resize { table, index, link, .. }: &Resize, batch: &mut TlbBatch) {
        if link.is_some() {
            // One TLB entry held the leaf, so any of its addresses invalidates it (D8.17, RLGSCG).
            let leaf = table.span_of(index);
            let Span { first, last } = leaf.common(self.span);
            batch.add(first, last, table.shift);
        }
    }

    /// Returns the number of table pages that it takes to split the leaf of an end.
    #[inline(always)]
    fn frames(&self, end: &End) -> u64 {
        let (g, level) = (self.editor.geometry, end.resize.table.level);
        if end.split { tables_for_ends(g, level, end.leaf(), self.span) } else { 0 }
    }

    /// Builds the tables that replace a leaf.
    #[inline(always)]
    fn build(&self, &Resize { table, index, .. }: &Resize) -> Result<Descriptor, OutOfFrames> {
        let old = self.editor.load(&table, index);
        let replacement = self.editor.replacement(*self.built, self.span);
        let mut replacement = replacement.before(*self.change, old, table.level);
        for change in self.later {
            replacement = replacement.before(*change, old, table.level);
        }
        replacement.leaf(old, &table, table.va(index))
    }

    /// Returns the leaf or run that contains an end of the range and has to be cut, if there is one.
    #[inline(always)]
    fn end(&self, va: u64) -> Result<Option<End>, Stop> {
        let editor = self.editor;
        let table = editor.deepest(*self.above, Span { first: va, last: va });
        let index = table.index_of(va);
        let old = editor.load(&table, index);
        let at = table.span_of(index);
        if self.change.of(old, table.level) == old || !editor.tables().is_leaf(old, table.level) {
            return Ok(None);
        }
        let run = editor.run(&table, old);
        let dissolves = run.filter(|_| editor.dissolves(&table, index, old, self.span));
        let split = !self.span.covers(at.first, at.last);
        if !split && dissolves.is_none() {
            return Ok(None);
        }
        let changes = table.run_of(index, dissolves.unwrap_or(1));
        editor.tables().owns(changes)?;
        editor.covers(changes)?;
        Ok(Some(End { resize: Resize { table, index, dissolves, link: None }, split }))
    }
}

/// Returns the number of tables that replace a leaf at `level` if a part of it is in `span`: one for each entry that
/// contains an end of the span, at each level.
pub(crate) fn tables_for_ends(g: Geometry, level: Level, leaf: Span, span: Span) -> u64 {
    let Span { first, last } = leaf.common(span);
    // After the highest address comes 0.
    let (mut tables, after) = (0, last.wrapping_add(1));
    let mut shift = g.level_shift(level);
    while shift > g.page_shift() {
        let within = (1u64 << shift) - 1;
        let begins = first & within != 0 || first >> shift == last >> shift && after & within != 0;
        let ends = after & within != 0 && first >> shift != last >> shift;
        tables += u64::from(begins) + u64::from(ends);
        shift -= g.index_bits();
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{Counters, Replacement};
    use crate::format::TableAttributes;
    use crate::platform::host::HostMemory;
    use crate::tests::geometries;
    use test_support::prelude::*;

    proptest! {
        /// The tables that are counted are those that are built.
        #[test]
        fn as_many_tables_as_are_built(seed: u64, pages: u64) {
            for g in geometries() {
                let memory = HostMemory::new(g, 16);
                let level = g.first_leaf_level();
                if level == Level::PAGE { continue }
                let shift = g.level_shift(level);
                let all = 1u64 << (shift - g.page_shift());
                let base = g.base(crate::format::Half::Upper);
                let first = seed % all;
                let count = pages % (all - first) + 1;
                if count == all { continue }
                let page = g.page_shift();
                let span = Span { first: base + (first << page), last: base + ((first + count) << page) - 1 };
                let leaf = Span { first: base, last: base + ((1 << shift) - 1) };
                let counters = Counters::new();
                let leaf_of = crate::format::Leaf {
                    oa: crate::format::Pa(0),
                    attributes: crate::format::Attributes::RAM,
                    contiguous: false,
                    valid: true,
                };
                let old = crate::format::Descriptor::leaf(leaf_of, g, level);
                let change = LeafChange { set: 1 << 54, ..LeafChange::NONE };
                let above = Table { pa: crate::format::Pa(0), words: core::ptr::null_mut(), level, shift, base };
                let built = Replacement { memory: &memory, geometry: g, tables: TableAttributes::empty(), change, span, pages: false, counters: Some(&counters) };
                prop_assert!(built.leaf(old, &above, base).is_ok());
                prop_assert_eq!(memory.in_use() as u64, tables_for_ends(g, level, leaf, span), "{:?} {} {}", g, first, count);
            }
        }
    }
}
