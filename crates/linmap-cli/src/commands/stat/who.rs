//! `linmap stat --who`: who has the memory of the linear map, and what each owner costs it.
//!
//! A block is the memory of one leaf above pages (2M with 4K pages). One that is in pages needs an entry of the TLB for each page or
//! contiguous run, in place of one: the others are lost. They are counted for the owner with most pages in the block that are read-only
//! or invalid, and for nobody if all pages of the block are alike.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use linmap::arch::{Entry, Level};
use linmap::{Pa, Va};
use serde_json::{Value, json};

use crate::commands::csv::quoted;
use crate::commands::names::Names;
use crate::commands::owners::{self, Known};
use crate::commands::reading::{Failure, regions};
use crate::map::image::Image;
use crate::map::owners::{Kind, Owners};
use crate::map::runs::{Entries, descend_runs};
use crate::map::view::View;
use crate::size::{grouped, human};
use crate::table::table;
use crate::terminal::{ASIDE, HEADING};

/// Whose pages are, or why they are in pages though they are nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    /// An owner, by its number.
    Known(usize),
    /// Read-only or invalid without a known owner.
    ReadOnly,
    Invalid,
    /// Blocks that are in pages though nobody has a page in them.
    Edge,
    Nobody,
}

impl Whose {
    /// Returns its name in documents and for people, if it is no known owner.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Known(_) => ("", ""),
            Self::ReadOnly => ("read_only", "unknown: read-only"),
            Self::Invalid => ("invalid", "unknown: taken out of the map"),
            Self::Edge => ("edge", "edges of memory, or memory that is not mapped"),
            Self::Nobody => ("nobody", "nobody: alike, and in pages as the kernel maps all RAM so"),
        }
    }
}

/// The memory and the cost of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    /// All of its memory.
    bytes: u64,
    /// The part that is read-only or invalid, and the pieces that it is in.
    protected: u64,
    pieces: u64,
    /// Blocks in pages, and the entries of a TLB that are lost by them.
    blocks: u64,
    entries: u64,
}

/// The owners of a map, and what each costs.
pub(super) struct Who {
    known: Known,
    list: Vec<(Whose, Cost)>,
}

/// The block that is being looked at.
#[derive(Default)]
struct Block {
    start: u64,
    pages: u64,
    /// Members of contiguous runs.
    members: u64,
    mapped: u64,
    owned: Vec<(Whose, u64)>,
}

struct Count<'a> {
    view: &'a View<'a>,
    owners: &'a Owners,
    costs: BTreeMap<Whose, Cost>,
    block: Block,
    /// The owner of the last page, and the address after it.
    last: Option<(Whose, u64)>,
}

/// Leaves of one owner that continue each other, within a block if they are pages.
#[derive(Clone, Copy)]
struct Part {
    va: u64,
    bytes: u64,
    owner: Option<usize>,
    valid: bool,
    writable: bool,
}

impl Who {
    /// Finds the owners of these addresses of the linear map.
    pub(super) fn of(view: &View<'_>, names: &Names, range: (Va, Va)) -> Result<Self, Failure> {
        if !view.has_addresses {
            let why = format!(
                "{}: a text dump has no output addresses, so it does not say whose pages are",
                view.name()
            );
            return Err(Failure::Wrong(why));
        }
        let walk = Failure::walk(view);
        let image = Image::find(view).map_err(&walk)?;
        let known = owners::of(view, &regions(view, image.as_ref()), names)?;
        let (costs, block) = (BTreeMap::new(), Block::default());
        let mut count = Count { view, owners: &known.owners, costs, block, last: None };
        let _ = descend_runs(view, range, |found| {
            count.add(found);
            ControlFlow::Continue(())
        })
        .map_err(&walk)?;
        count.end_block();
        let mut list: Vec<_> = count.costs.into_iter().collect();
        list.sort_by_key(|(whose, cost)| (u64::MAX - cost.entries, u64::MAX - cost.bytes, *whose));
        Ok(Self { known, list })
    }

    /// Returns the owners for documents.
    pub(super) fn document(&self) -> Value {
        let owner = |(whose, cost): &(Whose, Cost)| {
            let mut owner = match whose {
                Whose::Known(number) => owners::document(&self.known.owners.list()[*number]),
                _ => json!({ "owner": whose.names().0, "name": null, "by": "nothing" }),
            };
            owner["bytes"] = json!(cost.bytes);
            owner["protected_bytes"] = json!(cost.protected);
            owner["pieces"] = json!(cost.pieces);
            owner["blocks_in_pages"] = json!(cost.blocks);
            owner["tlb_entries_lost"] = json!(cost.entries);
            owner
        };
        json!({ "owners": self.list.iter().map(owner).collect::<Vec<_>>(), "missing": self.missing() })
    }

    /// Returns comma-separated values, one row for each owner after the names of the columns.
    pub(super) fn csv(&self) -> String {
        let mut text =
            "owner,name,by,bytes,protected_bytes,pieces,blocks_in_pages,tlb_entries_lost\n".to_owned();
        for (whose, cost) in &self.list {
            let (id, name, by) = match whose {
                Whose::Known(number) => {
                    let owner = &self.known.owners.list()[*number];
                    (owner.kind.id(), owner.name.as_deref().unwrap_or_default(), owner.by.id())
                }
                _ => (whose.names().0, "", "nothing"),
            };
            let Cost { bytes, protected, pieces, blocks, entries } = cost;
            text += &format!("{id},{},{by},{bytes},{protected},{pieces},{blocks},{entries}\n", quoted(name));
        }
        text
    }

    /// Returns the owners for people, ending in a line break.
    pub(super) fn report(&self) -> String {
        let sized = |bytes, is_shown| if is_shown { human(bytes) } else { String::new() };
        let rows = self.merged().into_iter().map(|(name, by, cost)| {
            let (has_memory, has_pieces) = (cost.bytes != 0, cost.pieces != 0);
            let pieces = if has_pieces { grouped(cost.pieces) } else { String::new() };
            let memory = [sized(cost.bytes, has_memory), sized(cost.protected, has_pieces), pieces];
            let blocks = [grouped(cost.blocks), grouped(cost.entries)];
            [&[name, by.to_owned()][..], &memory, &blocks].concat()
        });
        let head = [
            "whose",
            "known by",
            "memory",
            "read-only or invalid",
            "pieces",
            "blocks in pages",
            "TLB entries lost",
        ];
        let mut text = format!("{HEADING}Whose pages{HEADING:#}\n{}", table(&head, rows));
        for why in self.missing() {
            text += &format!("{ASIDE}note:{ASIDE:#} {why}\n");
        }
        text
    }

    fn missing(&self) -> Vec<&str> {
        self.known.missing.as_deref().into_iter().collect()
    }

    /// Returns a row for each owner, with all modules as one: its name, how it is known, and its cost.
    fn merged(&self) -> Vec<(String, &'static str, Cost)> {
        let (mut rows, mut all): (Vec<_>, Cost) = (Vec::new(), Cost::default());
        let (mut names, mut by): (Vec<&str>, _) = (Vec::new(), "");
        for (whose, cost) in &self.list {
            match whose {
                Whose::Known(number) => {
                    let owner = &self.known.owners.list()[*number];
                    if owner.kind == Kind::Module {
                        all.add(cost);
                        names.extend(owner.name.as_deref());
                        by = owner.by.text();
                    } else {
                        rows.push((owner.text(), owner.by.text(), *cost));
                    }
                }
                _ => rows.push((whose.names().1.to_owned(), "", *cost)),
            }
        }
        if !names.is_empty() {
            rows.push((owners::named(&names), by, all));
            rows.sort_by_key(|(_, _, cost)| (u64::MAX - cost.entries, u64::MAX - cost.bytes));
        }
        rows
    }
}

impl Cost {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.protected += other.protected;
        self.pieces += other.pieces;
        self.blocks += other.blocks;
        self.entries += other.entries;
    }
}

impl Count<'_> {
    /// Returns the bytes of a block.
    fn block_bytes(&self) -> u64 {
        self.view.geometry.level_size(Level::new(Level::PAGE.number() - 1))
    }

    fn add(&mut self, entries: &Entries<'_>) {
        let found = entries.first;
        let Entry::Leaf(leaf) = found.entry else { return };
        let writable = found.limits.restrict(leaf.attributes).is_writable();
        let is_page = found.level == Level::PAGE;
        let mut done = 0;
        while done < entries.bytes {
            let (va, pa) = (found.va.0.wrapping_add(done), leaf.oa.0.saturating_add(done));
            let (owner, end) = self.owners.at(Pa(pa));
            let mut bytes = end.0.saturating_sub(pa).clamp(1, entries.bytes - done);
            self.begin_block(va);
            if is_page {
                bytes = bytes.min(self.block_bytes() - va % self.block_bytes());
                self.add_pages(bytes, leaf.valid.then_some(leaf.contiguous));
            }
            self.add_part(Part { va, bytes, owner, valid: leaf.valid, writable });
            done += bytes;
        }
    }

    fn begin_block(&mut self, va: u64) {
        let start = va & !(self.block_bytes() - 1);
        if start != self.block.start {
            self.end_block();
            self.block = Block { start, ..Block::default() };
        }
    }

    /// Adds pages of the block; whether they are contiguous if they are valid.
    fn add_pages(&mut self, bytes: u64, contiguous: Option<bool>) {
        let pages = bytes / self.view.geometry.page_size();
        self.block.mapped += bytes;
        match contiguous {
            Some(true) => self.block.members += pages,
            Some(false) => self.block.pages += pages,
            None => {}
        }
    }

    fn add_part(&mut self, part: Part) {
        let whose = match (part.owner, part.valid, part.writable) {
            (Some(owner), ..) => Whose::Known(owner),
            (None, false, _) => Whose::Invalid,
            (None, true, false) => Whose::ReadOnly,
            (None, true, true) => return,
        };
        // The pool of KFENCE has to be in pages as a whole.
        let is_pool = part.owner.is_some_and(|owner| self.owners.list()[owner].kind == Kind::Kfence);
        let goes_on = self.last == Some((whose, part.va));
        let cost = self.costs.entry(whose).or_default();
        cost.bytes += part.bytes;
        if part.valid && part.writable && !is_pool {
            return;
        }
        cost.protected += part.bytes;
        cost.pieces += u64::from(!goes_on);
        self.last = Some((whose, part.va.wrapping_add(part.bytes)));
        match self.block.owned.iter_mut().find(|(known, _)| *known == whose) {
            Some((_, owned)) => *owned += part.bytes,
            None => self.block.owned.push((whose, part.bytes)),
        }
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
        let owner = owner.unwrap_or(if is_whole { Whose::Nobody } else { Whose::Edge });
        let cost = self.costs.entry(owner).or_default();
        cost.blocks += 1;
        cost.entries += entries.saturating_sub(1);
    }
}
