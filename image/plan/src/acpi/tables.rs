//! The tables of a machine that are used, found from their root or one after the other in a file, and whole.
//!
//! Firmware is not trusted: a table that cannot be read or whose checksum is wrong is named and left out.

use core::fmt;

use linmap::Pa;
use zerocopy::FromBytes;

use super::layout::{Header, Rsdp1, Rsdp2};
use crate::note::{Note, Signature, Subject, TableDefect};

/// The tables that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Table {
    /// Fixed hardware: the conduit of PSCI.
    Fadt,
    /// CPUs and interrupt controllers.
    Madt,
    /// The timers.
    Gtdt,
    /// The console.
    Spcr,
    /// Ports for debuggers.
    Dbg2,
    /// Nodes of memory.
    Srat,
}

impl Table {
    const ALL: [Self; 6] = [Self::Fadt, Self::Madt, Self::Gtdt, Self::Spcr, Self::Dbg2, Self::Srat];

    /// Returns its signature.
    pub(super) const fn signature(self) -> Signature {
        Signature(*match self {
            Self::Fadt => b"FACP",
            Self::Madt => b"APIC",
            Self::Gtdt => b"GTDT",
            Self::Spcr => b"SPCR",
            Self::Dbg2 => b"DBG2",
            Self::Srat => b"SRAT",
        })
    }

    /// Returns the subject of what it describes.
    pub(super) const fn subject(self) -> Subject {
        match self {
            Self::Fadt => Subject::Cpus,
            Self::Madt | Self::Gtdt => Subject::Interrupts,
            Self::Spcr | Self::Dbg2 => Subject::Console,
            Self::Srat => Subject::Memory,
        }
    }

    /// Makes a note of it.
    pub(super) const fn wrong(self, defect: TableDefect) -> Note<'static> {
        Note::Table { subject: self.subject(), table: self.signature(), defect }
    }

    fn of(signature: [u8; 4]) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.signature().0 == signature)
    }
}

/// Physical memory: returns so many bytes from an address on, or none if not all of them can be read.
pub type Memory<'m, 'a> = &'m dyn Fn(Pa, usize) -> Option<&'a [u8]>;

/// The tables of a machine, each with a right checksum.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tables<'a>([Option<&'a [u8]>; Table::ALL.len()]);

/// The reason why no tables are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoTables {
    /// The root pointer cannot be read.
    Unreachable(Pa),
    /// At its address is no root pointer: its signature or a checksum is wrong.
    NotRoot(Pa),
    /// The table of tables cannot be read or is damaged.
    Root(Signature, TableDefect),
}

impl fmt::Display for NoTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(at) => write!(f, "the RSDP of ACPI cannot be read at {at}"),
            Self::NotRoot(at) => {
                write!(f, "at {at} is no RSDP of ACPI: its signature or its checksum is wrong")
            }
            Self::Root(table, defect) => write!(f, "the ACPI table {table} {defect}"),
        }
    }
}

/// The most bytes of a table.
const MOST: u32 = 1 << 20;

const XSDT: Signature = Signature(*b"XSDT");
const RSDT: Signature = Signature(*b"RSDT");

impl<'a> Tables<'a> {
    /// Finds the tables from the RSDP on. Calls `note` for each that is left out.
    ///
    /// # Errors
    ///
    /// The RSDP is none, or the table of tables cannot be used.
    pub fn find(rsdp: Pa, memory: Memory<'_, 'a>, note: &mut dyn FnMut(Note<'_>)) -> Result<Self, NoTables> {
        let (root, width) = root(rsdp, memory, note)?;
        let mut tables = Self::default();
        for address in root[size_of::<Header>()..].chunks_exact(width) {
            let at = Pa(address.iter().rev().fold(0, |n, byte| n << 8u32 | u64::from(*byte)));
            let header = memory(at, size_of::<Header>());
            let Some(table) = header.and_then(|bytes| Table::of(bytes.first_chunk().copied()?)) else {
                continue;
            };
            match whole(at, memory) {
                Ok(bytes) => tables.keep(table, bytes, note),
                Err(defect) => note(table.wrong(defect)),
            }
        }
        Ok(tables)
    }

    /// Returns the tables that lie in a file one after the other, as [`copy_to`](Self::copy_to) writes them. Calls `note`
    /// for each that is left out.
    pub fn in_file(file: &'a [u8], note: &mut dyn FnMut(Note<'_>)) -> Self {
        let (mut tables, mut rest) = (Self::default(), file);
        while let Ok((header, _)) = Header::ref_from_prefix(rest) {
            let table = Table::of(header.signature);
            let signature = Signature(header.signature);
            let subject = table.map_or(Subject::Texts, Table::subject);
            let mut wrong = |defect| note(Note::Table { subject, table: signature, defect });
            let bytes = header.length.get();
            let Some((own, after)) = length(bytes).ok().and_then(|bytes| rest.split_at_checked(bytes)) else {
                wrong(TableDefect::Length { bytes });
                break;
            };
            match (table, sum(own)) {
                (Some(table), 0) => tables.keep(table, own, note),
                (Some(_), sum) => wrong(TableDefect::Checksum { sum }),
                (None, _) => {}
            }
            rest = after;
        }
        tables
    }

    fn keep(&mut self, table: Table, bytes: &'a [u8], note: &mut dyn FnMut(Note<'_>)) {
        match &mut self.0[table as usize] {
            Some(_) => note(table.wrong(TableDefect::Twice)),
            place @ None => *place = Some(bytes),
        }
    }

    /// Returns the bytes of all tables.
    pub fn bytes(&self) -> usize {
        self.0.iter().flatten().map(|table| table.len()).sum()
    }

    /// Writes the tables one after the other to the start of `to`, and returns what it has written; none, with nothing
    /// written, if there is no room for [`bytes`](Self::bytes).
    pub fn copy_to<'t>(&self, to: &'t mut [u8]) -> Option<&'t [u8]> {
        let to = to.get_mut(..self.bytes())?;
        let mut at = 0;
        for table in self.0.iter().flatten() {
            to[at..at + table.len()].copy_from_slice(table);
            at += table.len();
        }
        Some(to)
    }

    /// Returns a table with its fixed part. Notes it if it is too short for that, and also if it is not there but has to
    /// be.
    pub(super) fn get<T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned>(
        &self,
        table: Table,
        has_to_be: bool,
        note: &mut dyn FnMut(Note<'_>),
    ) -> Option<(&'a T, &'a [u8])> {
        let bytes = self.0[table as usize];
        let Some(bytes) = bytes else {
            if has_to_be {
                note(table.wrong(TableDefect::Missing));
            }
            return None;
        };
        let read = T::ref_from_prefix(bytes).ok();
        if read.is_none() {
            note(table.wrong(TableDefect::TooShort { bytes: bytes.len(), least: size_of::<T>() }));
        }
        read.map(|(fixed, _)| (fixed, bytes))
    }
}

/// Returns the table of tables, and the bytes of each address in it. The XSDT goes before the RSDT.
fn root<'a>(
    rsdp: Pa,
    memory: Memory<'_, 'a>,
    note: &mut dyn FnMut(Note<'_>),
) -> Result<(&'a [u8], usize), NoTables> {
    let unreachable = NoTables::Unreachable(rsdp);
    let not_root = NoTables::NotRoot(rsdp);
    let bytes = memory(rsdp, size_of::<Rsdp1>()).ok_or(unreachable)?;
    let first = Rsdp1::ref_from_bytes(bytes).map_err(|_| unreachable)?;
    if first.signature != *b"RSD PTR " || sum(bytes) != 0 {
        return Err(not_root);
    }
    let named = |at: Pa, signature: Signature| {
        let bytes = whole(at, memory)?;
        if bytes.starts_with(&signature.0) { Ok(bytes) } else { Err(TableDefect::Missing) }
    };
    if first.revision >= 2 {
        let bytes = memory(rsdp, size_of::<Rsdp2>()).ok_or(unreachable)?;
        let all = Rsdp2::ref_from_bytes(bytes).map_err(|_| unreachable)?;
        if sum(bytes) != 0 {
            return Err(not_root);
        }
        match named(Pa(all.xsdt.get()), XSDT) {
            Ok(xsdt) => return Ok((xsdt, 8)),
            Err(defect) if first.rsdt.get() == 0 => return Err(NoTables::Root(XSDT, defect)),
            Err(defect) => note(Note::Table { subject: Subject::Cpus, table: XSDT, defect }),
        }
    }
    let rsdt = named(Pa(first.rsdt.get().into()), RSDT).map_err(|defect| NoTables::Root(RSDT, defect))?;
    Ok((rsdt, 4))
}

/// Returns a table whole.
fn whole<'a>(at: Pa, memory: Memory<'_, 'a>) -> Result<&'a [u8], TableDefect> {
    let header = memory(at, size_of::<Header>()).ok_or(TableDefect::Unreachable(at))?;
    let header = Header::ref_from_bytes(header).map_err(|_| TableDefect::Unreachable(at))?;
    let bytes = memory(at, length(header.length.get())?).ok_or(TableDefect::Unreachable(at))?;
    match sum(bytes) {
        0 => Ok(bytes),
        sum => Err(TableDefect::Checksum { sum }),
    }
}

/// Returns the bytes that a header gives its table, if they can be.
fn length(bytes: u32) -> Result<usize, TableDefect> {
    let fits = (size_of::<Header>() as u32..=MOST).contains(&bytes);
    if fits { Ok(bytes as usize) } else { Err(TableDefect::Length { bytes }) }
}

/// Returns the sum of bytes, modulo 256.
fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}
