//! The common parts of commands that read a SOURCE: its options, opening it, progress, and errors.

use std::ffi::OsString;
use std::fmt;
use std::io;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use linmap::read::BoundedError;
use linmap::{Geometry, OaFormat, Va};
use serde_json::{Value, json};

use super::pausing::Pausing;
use crate::distinct::Collision;
use crate::linux::regions::{Hints, Name, Regions};
use crate::linux::release::Release;
use crate::map::image::Image;
use crate::map::rebuilt::Inconsistent;
use crate::map::stretches::StretchError;
use crate::map::view::{View, WalkError};
use crate::printable::line;
use crate::progress;
use crate::source::{self, Opened, Request, Saved, Source, SourceError, Wanted};
use crate::status::Status;
use crate::terminal;

/// The forms of SOURCE, for the long help of each command.
pub(crate) const SOURCES: &str = "\
SOURCE is one of
  (nothing)        this machine, by /proc/kcore; needs root
  FILE             a core of kdump, QEMU's dump-guest-memory or virsh dump
                   --memory-only: ELF or kdump-compressed, filtered, flattened;
                   a saved `linmap dump --json`, or the text of kernel_page_tables;
                   each also compressed by gzip or zstd
  DIRECTORY        the parts of a split kdump-compressed core
  -                a FILE from the standard input
  qemu:SOCKET      a running QEMU, by the socket of its monitor (QMP or HMP)
  gdb:HOST:PORT    any gdbstub that shows system registers";

#[derive(Args)]
pub(crate) struct SourceArgument {
    /// Source of the page tables [default: this machine, by /proc/kcore]
    #[arg(value_name = "SOURCE", value_parser = source_parser())]
    source: Option<Source>,
}

impl SourceArgument {
    /// Returns the SOURCE that was named, if there is one.
    pub(crate) const fn given(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    pub(crate) fn open(&self, wanted: Wanted, pausing: Pausing) -> Result<Opened, Failure> {
        let source = self.source.as_ref().unwrap_or(&Source::Live);
        refuse_unless_guest(pausing, [source])?;
        open(source, wanted, pausing)
    }
}

pub(crate) fn source_parser() -> impl TypedValueParser<Value = Source> {
    OsStringValueParser::new().try_map(|text: OsString| Source::parse(text))
}

/// Makes a view of an opened source, and notes facts that are not known.
pub(crate) fn view(opened: &Opened) -> Result<View<'_>, Failure> {
    let view = View::of(opened)?;
    for missing in view.missing() {
        let saved = if view.saved.is_some() { "not saved: " } else { "" };
        terminal::note(format_args!("{}: {saved}{missing}", view.name()));
    }
    Ok(view)
}

/// Refuses several SOURCEs that are the standard input, which can be read once.
pub(crate) fn once(sources: &[Source]) -> Result<(), Failure> {
    if sources.iter().filter(|source| **source == Source::Standard).count() > 1 {
        let why = "more than one SOURCE is the standard input, which can be read once";
        return Err(Failure::Wrong(why.to_owned()));
    }
    Ok(())
}

/// Refuses the options for halting a guest where none of the SOURCEs is one.
pub(crate) fn refuse_unless_guest<'a>(
    pausing: Pausing,
    sources: impl IntoIterator<Item = &'a Source>,
) -> Result<(), Failure> {
    let Some(option) = pausing.given() else { return Ok(()) };
    if sources.into_iter().any(|source| matches!(source, Source::Qemu(_) | Source::Gdb(_))) {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "{option} does not apply: no SOURCE is a guest (qemu:SOCKET or gdb:HOST:PORT), and nothing else is halted"
    )))
}

/// Opens a source, shows progress meanwhile, and prints its notes.
pub(crate) fn open(source: &Source, wanted: Wanted, pausing: Pausing) -> Result<Opened, Failure> {
    let opened = open_quietly(source, wanted, pausing)?;
    if let Opened::Tables(tables) = &opened {
        if let Some(paused) = tables.paused {
            terminal::note(format_args!("the guest was paused for {} ms", paused.as_millis()));
        }
        tables.notes.iter().for_each(terminal::note);
    }
    Ok(opened)
}

/// Opens a source, and shows progress meanwhile.
pub(crate) fn open_quietly(source: &Source, wanted: Wanted, pausing: Pausing) -> Result<Opened, Failure> {
    progress::begin("opening the SOURCE");
    let mut opened = source::open(source, Request { wanted, progress: &progress::show }, pausing.into())?;
    // Commands name their own steps.
    progress::begin("working");
    // A VM's words or any file name can be in it.
    match &mut opened {
        Opened::Tables(tables) => tables.name = line(&tables.name),
        Opened::Saved(saved) => saved.name = line(&saved.name),
    }
    Ok(opened)
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Source(#[from] SourceError),
    #[error("{0}")]
    Saved(#[from] Inconsistent),
    #[error("{name}: {}", walk_error(.why))]
    Walk { name: String, why: WalkError },
    #[error("{name}: more rows than any machine has, the first one too many at {va}; a --range has fewer")]
    TooMany { name: String, va: Va },
    #[error("{0}")]
    Collision(#[from] Collision),
    #[error("{0}")]
    Wrong(String),
    #[error("the output could not be written: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// For `map_err`: returns the failure of a walk of this view.
    pub(crate) fn walk(view: &View<'_>) -> impl Fn(WalkError) -> Self {
        let name = view.name();
        move |why| Self::Walk { name: name.to_owned(), why }
    }

    /// For `map_err`: returns the failure of reading rows.
    pub(crate) fn rows(view: &View<'_>) -> impl Fn(StretchError) -> Self {
        let name = view.name();
        move |why| match why {
            StretchError::Walk(why) => Self::Walk { name: name.to_owned(), why },
            StretchError::TooMany(va) => Self::TooMany { name: name.to_owned(), va },
        }
    }
}

fn walk_error(why: &WalkError) -> String {
    match why {
        BoundedError::Limit => {
            "gave up: tables point to one another, or to themselves, so that there are more ways \
                           through them than tables; `linmap check` names them, a --range may leave them out"
                .to_owned()
        }
        BoundedError::Read(unread) => unread.to_string(),
    }
}

/// Returns the exit status of a command. A failure is a message, and with `--json` a document as well.
pub(crate) fn concluded(command: &str, json: bool, result: Result<Status, Failure>) -> Status {
    let failure = match result {
        Ok(status) => return status,
        Err(failure) => failure,
    };
    if json && !matches!(failure, Failure::Output(_)) {
        let document = json!({ "schema": schema(command), "ok": false, "error": failure.to_string() });
        // The run has failed, whether or not this is read.
        let _ = terminal::print_document(&document);
    }
    terminal::error(failure);
    Status::Error
}

/// Returns the name of a command's document.
pub(crate) fn schema(command: &str) -> String {
    match command {
        "dump" => crate::source::DUMP_SCHEMA.to_owned(),
        // In the first, owners had other names, and `bytes` were those of their protected pages.
        "stat" => "linmap.stat/2".to_owned(),
        _ => format!("linmap.{command}/1"),
    }
}

/// Returns the keys on the source that every document has.
pub(crate) fn document(command: &str, ok: bool, view: &View<'_>) -> Value {
    let g = view.geometry;
    json!({
        "schema": schema(command),
        "ok": ok,
        "source": view.origin(),
        "release": release(view).map(|release| release.to_string()),
        "geometry": geometry(g),
        "missing": view.missing(),
    })
}

/// Returns page size, VA bits and address format for documents.
pub(crate) fn geometry(geometry: Geometry) -> Value {
    let format = match geometry.oa_format() {
        OaFormat::Bits48 => "48-bit",
        OaFormat::Lpa => "lpa",
        OaFormat::Lpa2 => "lpa2",
    };
    json!({ "granule": geometry.granule().to_string(), "va_bits": geometry.va_bits(), "format": format })
}

/// Returns an address for documents.
pub(crate) fn hex(address: impl fmt::LowerHex) -> String {
    format!("{address:#x}")
}

/// Returns the kernel's release, if the source shows it.
pub(crate) fn release(view: &View<'_>) -> Option<Release> {
    Release::parse(view.kernel.info.as_ref()?.release()?)
}

/// Returns the regions of addresses, as far as this source shows them.
pub(crate) fn regions(view: &View<'_>, image: Option<&Image>) -> Regions {
    let info = view.kernel.info.as_ref();
    let pair = |start, end| Some((info?.number(start)?, info?.number(end)?));
    if let Some(saved) = view.saved.and_then(|saved| saved.regions.as_ref()) {
        return Regions::saved(view.geometry, &saved.from, &saved.list);
    }
    let release = release(view);
    let marked = |name| view.saved.and_then(|saved| marked(saved, name));
    let hints = Hints {
        release: release.as_ref(),
        modules: pair("MODULES_VADDR", "MODULES_END").or_else(|| marked(Name::Modules)),
        vmalloc: pair("VMALLOC_START", "VMALLOC_END").or_else(|| marked(Name::Vmalloc)),
        vmemmap: pair("VMEMMAP_START", "VMEMMAP_END").or_else(|| marked(Name::Vmemmap)),
        kernel: image.map(Image::range),
        is_saved: view.saved.is_some(),
    };
    Regions::of(view.geometry, &hints)
}

/// Returns start and end of a region of a saved dump, by its marker lines.
fn marked(saved: &Saved, name: Name) -> Option<(u64, u64)> {
    let (start, end) = name.markers();
    let at = |text: &str| saved.markers.iter().find(|marker| marker.1 == text).map(|marker| marker.0);
    let (start, end) = (at(start)?, at(end)?);
    let last = saved.stretches.get(end.checked_sub(1)?)?;
    Some((saved.stretches.get(start)?.va.0, last.va.0.wrapping_add(last.bytes)))
}

/// Returns `4K pages, 48 VA bits`, and the kernel's name.
pub(crate) fn facts(view: &View<'_>) -> String {
    let g = view.geometry;
    let format = if g.oa_format() == OaFormat::Lpa2 { ", LPA2" } else { "" };
    let release = release(view).map(|release| format!(", Linux {release}")).unwrap_or_default();
    format!("{} granule, {}-bit addresses{format}{release}", g.granule(), g.va_bits())
}
