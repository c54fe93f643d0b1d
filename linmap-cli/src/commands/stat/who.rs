//! `linmap stat --who`: what each owner of pages costs the linear map.
//!
//! A block is the memory of one leaf above pages (2M with 4K pages). One that is in pages needs an entry of the TLB for each page or
//! contiguous run, in place of one: the others are lost. They are counted for the owner with most pages in the block, and for nobody
//! if all pages of the block are alike.

use std::ops::ControlFlow;

use linmap::{Entry, Level, Va, Visited};
use serde_json::{Value, json};

use super::owners::{By, Kind, Owner, Owners, Page, with_structures};
use crate::commands::names::Names;
use crate::commands::reading::{Failure, regions};
use crate::linux::regions::linear;
use crate::linux::structures::Structures;
use crate::map::descent::descend;
use crate::map::image::Image;
use crate::map::view::View;
use crate::size::{grouped, human};
use crate::table::table;
use crate::terminal::{ASIDE, HEADING};

/// The names of modules that are shown to people.
const SHOWN: usize = 4;

/// The cost of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    /// Pages of its own, and the pieces that they are in.
    bytes: u64,
    pieces: u64,
    /// Blocks in pages, and the entries of a TLB that are lost by them.
    blocks: u64,
    entries: u64,
}

/// The owners of a map, and what each costs.
pub(super) struct Who {
    list: Vec<(Owner, Cost)>,
    /// Facts that are not known, as sentences.
    missing: Vec<String>,
}

/// The block that is being looked at.
#[derive(Default)]
struct Block {
    start: u64,
    pages: u64,
    /// Members of contiguous runs.
    members: u64,
    mapped: u64,
    owned: Vec<(usize, u64)>,
}

struct Count<'a, 's> {
    view: &'a View<'a>,
    owners: Owners<'s>,
    costs: Vec<Cost>,
    block: Block,
    /// The owner of the last page, and the address after it.
    last: Option<(usize, u64)>,
}

impl Who {
    pub(super) fn of(view: &View<'_>, names: &Names) -> Result<Self, Failure> {
        if !view.has_addresses {
            let why = format!(
                "{}: a text dump has no output addresses, so it does not say whose pages are",
                view.name()
            );
            return Err(Failure::Wrong(why));
        }
        let image = Image::find(view).map_err(Failure::walk(view))?;
        with_structures(view, names, |structures| Self::count(view, image.as_ref(), names, structures))
    }

    fn count(
        view: &View<'_>,
        image: Option<&Image>,
        names: &Names,
        structures: &Structures<'_>,
    ) -> Result<Self, Failure> {
        let owners = Owners::of(view, image, &regions(view, image), structures)?;
        let mut count = Count { view, owners, costs: Vec::new(), block: Block::default(), last: None };
        let _ = descend(&view.bounded(), view.geometry, view.root, linear(view.geometry), |found| {
            count.add(found);
            ControlFlow::Continue(())
        })
        .map_err(Failure::walk(view))?;
        count.end_block();
        let costs = count.costs.iter().copied().chain(std::iter::repeat(Cost::default()));
        let mut list: Vec<_> = count.owners.list.iter().cloned().zip(costs).collect();
        list.retain(|(_, cost)| *cost != Cost::default());
        list.sort_by_key(|(owner, cost)| (u64::MAX - cost.entries, u64::MAX - cost.bytes, owner.kind));
        Ok(Self { list, missing: missing(names, structures).into_iter().collect() })
    }

    /// Returns the owners for documents.
    pub(super) fn document(&self) -> Value {
        let owner = |(owner, cost): &(Owner, Cost)| {
            json!({
                "owner": owner.kind.id(),
                "name": owner.name,
                "by": match owner.by { By::Lists => "lists", By::Place => "place", By::Nothing => "nothing" },
                "bytes": cost.bytes,
                "pieces": cost.pieces,
                "blocks_in_pages": cost.blocks,
                "tlb_entries_lost": cost.entries,
            })
        };
        json!({ "owners": self.list.iter().map(owner).collect::<Vec<_>>(), "missing": self.missing })
    }

    /// Returns the owners for people, ending in a line break.
    pub(super) fn report(&self) -> String {
        let rows = self.merged().into_iter().map(|(name, by, cost)| {
            let cells =
                [human(cost.bytes), grouped(cost.pieces), grouped(cost.blocks), grouped(cost.entries)];
            let cells = if cost.pieces == 0 {
                [String::new(), String::new(), cells[2].clone(), cells[3].clone()]
            } else {
                cells
            };
            [&[name, by.text().to_owned()][..], &cells].concat()
        });
        let head = ["whose", "known by", "memory", "pieces", "blocks in pages", "TLB entries lost"];
        let mut text = format!("{HEADING}Whose pages{HEADING:#}\n{}", table(&head, rows));
        for why in &self.missing {
            text += &format!("{ASIDE}note:{ASIDE:#} {why}\n");
        }
        text
    }

    /// Returns a row for each owner, with all modules as one.
    fn merged(&self) -> Vec<(String, By, Cost)> {
        let (mut rows, mut all): (Vec<(String, By, Cost)>, Cost) = (Vec::new(), Cost::default());
        let mut names: Vec<&str> = Vec::new();
        for (owner, cost) in &self.list {
            if owner.kind == Kind::Module {
                all.add(cost);
                names.extend(owner.name.as_deref());
            } else {
                rows.push((owner.kind.text().to_owned(), owner.by, *cost));
            }
        }
        if !names.is_empty() {
            let (shown, more) = (names.len().min(SHOWN), names.len().saturating_sub(SHOWN));
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let names = crate::printable::line(&names[..shown].join(", "));
            rows.push((format!("modules: {names}{more}"), By::Lists, all));
            rows.sort_by_key(|(_, _, cost)| u64::MAX - cost.entries);
        }
        rows
    }
}

/// Returns why the kernel's lists were not read, if they were not.
fn missing(names: &Names, structures: &Structures<'_>) -> Option<String> {
    if let Some(why) = &names.missing {
        return Some(format!(
            "owners are known by their places alone: {why}; --symbols names a file of symbols"
        ));
    }
    if names.address("modules").is_none() {
        return Some(
            "owners are known by their places alone: the kernel's own symbols are those of code (CONFIG_KALLSYMS_ALL is not set); \
             --symbols names a file of symbols"
                .to_owned(),
        );
    }
    let no_types =
        "the kernel has no BTF, so its lists of modules, of BPF programs and of secret memory were not read";
    (!structures.has_types()).then(|| no_types.to_owned())
}

impl Cost {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.pieces += other.pieces;
        self.blocks += other.blocks;
        self.entries += other.entries;
    }
}

impl Count<'_, '_> {
    /// Returns the bytes of a block.
    fn block_bytes(&self) -> u64 {
        self.view.geometry.level_size(Level::new(Level::PAGE.number() - 1))
    }

    fn add(&mut self, found: &Visited) {
        let Entry::Leaf(leaf) = found.entry else { return };
        let (bytes, start) =
            (self.view.geometry.level_size(found.level), found.va.0 & !(self.block_bytes() - 1));
        if start != self.block.start {
            self.end_block();
            self.block = Block { start, ..Block::default() };
        }
        let writable = found.limits.restrict(leaf.attributes).is_writable();
        let owner = self.owners.owner(Page { va: found.va, pa: leaf.oa, valid: leaf.valid, writable });
        if let Some(owner) = owner {
            self.add_owned(owner, found.va, bytes);
        }
        if found.level == Level::PAGE {
            self.block.mapped += bytes;
            self.block.members += u64::from(leaf.valid && leaf.contiguous);
            self.block.pages += u64::from(leaf.valid && !leaf.contiguous);
        }
    }

    fn add_owned(&mut self, owner: usize, va: Va, bytes: u64) {
        let goes_on = self.last == Some((owner, va.0));
        let cost = self.cost(owner);
        cost.bytes += bytes;
        cost.pieces += u64::from(!goes_on);
        self.last = Some((owner, va.0.wrapping_add(bytes)));
        match self.block.owned.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, owned)) => *owned += bytes,
            None => self.block.owned.push((owner, bytes)),
        }
    }

    fn cost(&mut self, owner: usize) -> &mut Cost {
        if self.costs.len() <= owner {
            self.costs.resize(owner + 1, Cost::default());
        }
        &mut self.costs[owner]
    }

    /// Counts a block in pages for its owner.
    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        if block.mapped == 0 {
            return;
        }
        let run = self.view.geometry.contiguous_entries(Level::PAGE) as u64;
        let entries = block.pages + block.members.div_ceil(run);
        // Of equal ones, the first.
        let owner = block.owned.iter().rev().max_by_key(|(_, bytes)| *bytes).map(|(owner, _)| *owner);
        let is_whole = block.mapped == self.block_bytes();
        let none = |kind| Owner { kind, name: None, by: By::Nothing };
        let owner = owner
            .unwrap_or_else(|| self.owners.number(none(if is_whole { Kind::Nobody } else { Kind::Edge })));
        let cost = self.cost(owner);
        cost.blocks += 1;
        cost.entries += entries.saturating_sub(1);
    }
}
