//! The class of each piece of memory, by the size of its leaf, its permissions or its owner.

use std::collections::BTreeSet;

use clap::ValueEnum;
use linmap::arch::LeafSize;
use linmap::{Attributes, Geometry, Pa};
use linmap_plot::Class;

use crate::commands::owners::named;
use crate::map::leaves;
use crate::map::owners::{self, Kind, Owner, Owners};
use crate::map::permissions::el1_executes;
use crate::size::human;
use crate::source::{EntryKind, SavedRun};

/// The classes of memory that have colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum By {
    /// The size of its leaves
    Size,
    /// Its permissions, with those of the tables above
    Permission,
    /// Who has it, by the kernel's lists, by symbols, or by the region that maps it as well
    Owner,
}

impl By {
    pub(super) const ALL: [Self; 3] = [Self::Size, Self::Permission, Self::Owner];

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Size => "leaf size",
            Self::Permission => "permissions",
            Self::Owner => "owner",
        }
    }

    /// Returns its name on the command line and in documents.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Permission => "permission",
            Self::Owner => "owner",
        }
    }

    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Size => "s",
            Self::Permission => "p",
            Self::Owner => "o",
        }
    }
}

/// The colours of leaf sizes, largest first; those of the two smallest are the last ones.
const SIZES: [u32; 6] = [0x08_306b, 0x21_71b5, 0x6b_aed6, 0x74_c476, 0xc7_e9c0, 0xfe_e391];
const SMALLEST: [u32; 2] = [0xfd_ae61, 0xd7_301f];
/// The colours of permissions, in their order.
const PERMISSIONS: [(&str, u32); 4] = [
    ("writable", 0x42_92c6),
    ("read-only", 0x2e_8b57),
    ("read-only, executable", 0xc9_8a00),
    ("writable and executable", 0xd7_301f),
];
/// The colours of owners, in the order of [`Kind::ALL`].
const OWNERS: [u32; 18] = [
    0x00_0000, 0xd7_301f, 0xfd_8d3c, 0xfe_cc5c, 0xc5_1b8a, 0x7a_0177, 0x8c_510a, 0x01_665e, 0x99_0000,
    0xbf_812d, 0x54_2788, 0x96_9696, 0xae_017e, 0xf7_68a1, 0xdd_3497, 0x41_ab5d, 0x22_5ea8, 0x80_7dba,
];
/// The colour of memory without a known owner.
const NOBODY: u32 = 0xc6_dbef;
/// The colour of present-invalid memory.
const INVALID: u32 = 0x52_5252;

/// Memory of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its first address.
    pub(super) va: u64,
    /// Its size in bytes, at least 1.
    pub(super) bytes: u64,
    /// The number of its class.
    pub(super) class: usize,
}

/// A class of pieces: its name, its owner if it has a known one, and the number of its entry in the legend.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) owner: Option<Owner>,
    pub(super) entry: usize,
}

impl Name {
    pub(super) fn new(text: impl Into<String>, entry: usize) -> Self {
        Self { text: text.into(), owner: None, entry }
    }

    /// Returns the class of an owner. All owners of a kind share an entry of the legend.
    fn of_owner(owner: &Owner) -> Self {
        Self { text: owner.text(), owner: Some(owner.clone()), entry: 1 + owner.kind as usize }
    }

    /// Returns the name for people: `vmalloc [address]`.
    pub(super) fn shown(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{} [{}]", self.text, owner.by.id()),
            None => self.text.clone(),
        }
    }
}

/// An entry of the legend.
fn entry(name: impl Into<String>, color: u32) -> Class {
    Class { name: name.into(), color }
}

/// Memory and its classes.
#[derive(Debug)]
pub(super) struct Painted {
    /// In order of address, without overlaps.
    pub(super) pieces: Vec<Piece>,
    pub(super) names: Vec<Name>,
    /// The entries of the legend, without bytes.
    pub(super) entries: Vec<Class>,
    /// The bytes of all pieces, and of those that are invalid.
    pub(super) bytes: u64,
    pub(super) invalid: u64,
}

impl Painted {
    /// Finds the class of everything that is mapped in these rows.
    pub(super) fn of(geometry: Geometry, rows: &[SavedRun], owners: &Owners, by: By) -> Self {
        let sizes = geometry.leaf_sizes();
        let mut entries: Vec<Class> = match by {
            By::Size => {
                let large = SIZES.iter().take(sizes.len().saturating_sub(SMALLEST.len()));
                let colors = large.chain(&SMALLEST).copied();
                sizes.iter().zip(colors).map(|(size, color)| entry(leaves::name(*size), color)).collect()
            }
            By::Permission => PERMISSIONS.iter().map(|(name, color)| entry(*name, *color)).collect(),
            By::Owner => {
                let kinds = Kind::ALL.into_iter().zip(OWNERS).map(|(kind, color)| entry(kind.text(), color));
                [entry("unknown", NOBODY)].into_iter().chain(kinds).collect()
            }
        };
        let mut names: Vec<Name> = match by {
            By::Owner => {
                let owners = owners.list().iter().map(Name::of_owner);
                [Name::new("unknown", 0)].into_iter().chain(owners).collect()
            }
            _ => entries.iter().enumerate().map(|(number, class)| Name::new(&class.name, number)).collect(),
        };
        let invalid_class = names.len();
        names.push(Name::new("present-invalid", entries.len()));
        entries.push(entry("present-invalid", INVALID));
        let mut painted = Self { pieces: Vec::new(), names, entries, bytes: 0, invalid: 0 };
        for row in rows {
            let EntryKind::Leaf { oa, attributes, contiguous, valid } = row.what else { continue };
            painted.bytes = painted.bytes.saturating_add(row.bytes);
            if !valid {
                painted.invalid = painted.invalid.saturating_add(row.bytes);
            }
            match (by, oa) {
                (By::Owner, Some(oa)) => {
                    painted.add_owned(row, oa, owners, if valid { 0 } else { invalid_class });
                }
                _ if !valid => painted.add(row.va.0, row.bytes, invalid_class),
                (By::Size, _) => {
                    let size = leaves::size(geometry, row.level, contiguous);
                    painted.add(row.va.0, row.bytes, number(&sizes, size));
                }
                (By::Permission, _) => painted.add(row.va.0, row.bytes, permission(attributes)),
                (By::Owner, None) => painted.add(row.va.0, row.bytes, 0),
            }
        }
        painted
    }

    /// Adds the pieces of a row by their owners; those without one are of class `unknown`.
    fn add_owned(&mut self, row: &SavedRun, oa: Pa, owners: &Owners, unknown: usize) {
        let mut done = 0;
        while done < row.bytes {
            let (owner, end) = owners.at(Pa(oa.0.saturating_add(done)));
            // At the last address of all there is no progress by the end alone.
            let bytes = end.0.saturating_sub(oa.0).clamp(done + 1, row.bytes) - done;
            self.add(row.va.0.saturating_add(done), bytes, owner.map_or(unknown, |owner| 1 + owner));
            done += bytes;
        }
    }

    /// Adds a piece, joined with the last one if it goes on there.
    fn add(&mut self, va: u64, bytes: u64, class: usize) {
        match self.pieces.last_mut() {
            Some(last) if last.class == class && last.va.checked_add(last.bytes) == Some(va) => {
                last.bytes += bytes;
            }
            _ => self.pieces.push(Piece { va, bytes, class }),
        }
    }

    /// Returns the legend: entries with the bytes of their classes, and for owners how they are known.
    pub(super) fn legend(&self) -> Vec<Class> {
        let mut bytes = vec![0_u64; self.names.len()];
        for piece in &self.pieces {
            bytes[piece.class] = bytes[piece.class].saturating_add(piece.bytes);
        }
        let of_entry = |(number, class): (usize, &Class)| {
            let mut members: Vec<(&Name, u64)> = self.names.iter().zip(bytes.iter().copied()).collect();
            members.retain(|(name, _)| name.entry == number);
            members.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
            let sum = members.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
            let shown = if sum == 0 { "none".to_owned() } else { human(sum) };
            entry(format!("{}: {shown}", described(&class.name, &members)), class.color)
        };
        self.entries.iter().enumerate().map(of_entry).collect()
    }
}

/// Returns the name of an entry of the legend with its owners, of whom only modules have names: `per-CPU areas [list, symbol]`.
fn described(name: &str, members: &[(&Name, u64)]) -> String {
    let owners = || members.iter().filter_map(|(name, _)| name.owner.as_ref());
    let drawn = members.iter().filter(|(_, bytes)| *bytes > 0);
    let modules: Vec<&str> = drawn.filter_map(|(name, _)| name.owner.as_ref()?.name.as_deref()).collect();
    let name = if modules.is_empty() { name.to_owned() } else { named(&modules) };
    let evidence: BTreeSet<_> = owners().map(|owner| owner.by).collect();
    let evidence: Vec<&str> = evidence.into_iter().map(owners::By::id).collect();
    if evidence.is_empty() { name } else { format!("{name} [{}]", evidence.join(", ")) }
}

/// Returns the number of a size among all of them; an unknown one counts as the smallest.
fn number(sizes: &[LeafSize], size: Option<LeafSize>) -> usize {
    let found = size.and_then(|size| sizes.iter().position(|other| *other == size));
    found.unwrap_or_else(|| sizes.len().saturating_sub(1))
}

/// Returns the number of permissions in [`PERMISSIONS`].
fn permission(attributes: Attributes) -> usize {
    match (attributes.is_writable(), el1_executes(attributes)) {
        (true, false) => 0,
        (false, false) => 1,
        (false, true) => 2,
        (true, true) => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::arch::Level;
    use linmap::{Granule, OaFormat, Va};

    const BASE: u64 = 0xffff_0000_0000_0000;

    fn row(va: u64, bytes: u64, level: i8, attributes: Attributes, valid: bool) -> SavedRun {
        let what = EntryKind::Leaf { oa: Some(Pa(va)), attributes, contiguous: false, valid };
        SavedRun { va: Va(BASE + va), bytes, level: Level::new(level), what, descriptor: None }
    }

    #[test]
    fn each_piece_has_its_class() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let rows = [
            row(0, 1 << 30, 1, Attributes::RAM, true),
            row(1 << 30, 4 << 20, 2, Attributes::RAM, true),
            row((1 << 30) + (4 << 20), 4096, 3, Attributes::KERNEL_RODATA, true),
            row((1 << 30) + (4 << 20) + 4096, 4096, 3, Attributes::RAM, false),
        ];
        let of = |by| Painted::of(g, &rows, &Owners::default(), by);
        let named = |painted: &Painted| {
            let names = painted.pieces.iter().map(|piece| painted.names[piece.class].text.clone());
            names.collect::<Vec<_>>()
        };
        assert_eq!(named(&of(By::Size)), ["1G", "2M", "4K", "present-invalid"]);
        assert_eq!(named(&of(By::Permission)), ["writable", "read-only", "present-invalid"]);
        let owned = of(By::Owner);
        assert_eq!(named(&owned), ["unknown", "present-invalid"]);
        assert_eq!((owned.bytes, owned.invalid), ((1 << 30) + (4 << 20) + 8192, 4096));
        assert!(owned.legend()[1].name.ends_with(": none"), "{:?}", owned.legend());
    }

    /// Each module is a class, and all of them are one entry of the legend, which names the largest.
    #[test]
    fn modules_have_names() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let module = |name: String| Owner { kind: Kind::Module, name: Some(name), by: owners::By::List };
        let pages =
            (0..7u64).map(|n| (Pa(n << 16)..Pa((n << 16) + ((n + 1) << 12)), module(format!("m{n}"))));
        let owners = Owners::from_found(pages);
        let painted = Painted::of(g, &[row(0, 1 << 20, 2, Attributes::RAM, true)], &owners, By::Owner);
        let classes: BTreeSet<_> =
            painted.pieces.iter().map(|piece| painted.names[piece.class].shown()).collect();
        assert!(classes.contains("module m0 [list]") && classes.len() == 8, "{classes:?}");
        let legend: Vec<_> = painted.legend().into_iter().map(|class| class.name).collect();
        assert!(legend.contains(&"modules: m6, m5, m4, m3 and 3 more [list]: 112K".to_owned()), "{legend:?}");
        assert_eq!(legend.len(), 2 + Kind::ALL.len());
    }
}
