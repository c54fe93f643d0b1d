//! `linmap map`: the linear map as a picture.
//!
//! - `paint`: the class of each piece, by leaf size, permissions or owner.  `grid`: pure, pieces become strips.
//! - `page`: an HTML page with all of them.  `list`: the pieces as rows and as a document.

mod grid;
mod list;
mod page;
mod paint;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use linmap::Va;
use linmap::layout::linear_range;
use linmap_plot::Strips;

use super::names::SymbolsArgument;
use super::options::MapOptions;
use super::owners;
use super::reading::{Failure, SOURCES, SourceArgument, concluded, facts, regions, view};
use crate::distinct::distinct;
use crate::linux::regions;
use crate::map::image::Image;
use crate::map::linear;
use crate::map::owners::Owners;
use crate::map::stretches::{self, Permissions};
use crate::map::view::View;
use crate::progress;
use crate::size::human;
use crate::source::{SavedRun, Source, Wanted};
use crate::status::Status;
use crate::terminal;
use grid::{Axis, Grid};
use paint::{By, Painted};

/// Draw the linear map as a picture, coloured by leaf size, permissions or owner
///
/// One strip is a power of two of memory, as many as fit on a page; a column of a strip shows the classes that it has,
/// and its numbers on hover. --csv and --json list the pieces of memory instead, each of one class. --region and --range
/// draw other addresses than the linear map. Exit status: 0, or 2 for
/// an error.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
#[group(id = "forms", required = true, multiple = true, args = ["svg", "html", "json", "csv"])]
pub(crate) struct Options {
    #[command(flatten)]
    source: SourceArgument,

    #[command(flatten)]
    map: MapOptions,

    #[command(flatten)]
    symbols: SymbolsArgument,

    /// Write the picture into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write a page with the pictures by size, permissions and owner into this file; it needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Colour the SVG picture by this class, or list pieces of memory by it with --csv and --json
    #[arg(long, value_name = "CLASS", value_enum, default_value_t = By::Size)]
    by: By,
}

/// Draws the pictures.
pub(crate) fn run(options: &Options) -> Status {
    concluded("map", options.map.form.json, draw(options))
}

fn draw(options: &Options) -> Result<Status, Failure> {
    let read = options.source.given().and_then(Source::file);
    distinct(&[options.svg.as_deref(), options.html.as_deref()], read.as_slice())?;
    let opened = options.source.open(Wanted::All, options.map.pausing)?;
    let view = view(&opened)?;
    // A page leaves that picture out.
    let is_only_page = options.svg.is_none() && !options.map.form.json && !options.map.form.csv;
    if options.by == By::Owner && !view.has_addresses && !is_only_page {
        return Err(Failure::Wrong(format!(
            "{}: a text dump has no output addresses, so owners are not known",
            view.name()
        )));
    }
    if options.by != By::Owner && options.html.is_none() {
        options.symbols.refuse("owners are not shown without --by owner or --html")?;
    }
    let drawing = Drawing::of(options, &view)?;
    let nothing =
        || Failure::Wrong(format!("{}: nothing is mapped there, so there is no picture", view.name()));
    if options.map.form.json {
        terminal::print_document(&list::document(&view, options.by, &drawing.painted(options.by)))?;
    } else if options.map.form.csv {
        terminal::print(&list::csv(&drawing.painted(options.by)))?;
    }
    if let Some(file) = &options.svg {
        write(file, &drawing.picture(options.by).ok_or_else(nothing)?.render())?;
    }
    if let Some(file) = &options.html {
        let known = By::ALL.into_iter().filter(|by| *by != By::Owner || view.has_addresses);
        // A style in one SVG of a page counts in all of them.
        let draw = |by: By| Some((by.text(), drawing.picture(by)?.render_in(by.prefix())));
        let pictures = known.map(draw).collect::<Option<Vec<_>>>();
        write(file, &page::of(&title(&view), &pictures.ok_or_else(nothing)?))?;
    }
    Ok(Status::Fine)
}

/// Everything that pictures of a map are drawn from.
struct Drawing<'v> {
    view: &'v View<'v>,
    rows: Vec<SavedRun>,
    owners: Owners,
    axis: Axis,
}

impl<'v> Drawing<'v> {
    fn of(options: &Options, view: &'v View<'v>) -> Result<Self, Failure> {
        let walk = Failure::walk(view);
        let image = Image::find(view).map_err(&walk)?;
        let regions = regions(view, image.as_ref());
        let has_owners = options.html.is_some() || options.by == By::Owner;
        let owners = match has_owners.then(|| options.symbols.names(view)).transpose()? {
            Some(names) => owners::of(view, &regions, &names)?.owners,
            None => Owners::default(),
        };
        let is_linear = options.map.selection.is_default();
        progress::begin("drawing");
        let mut rows = Vec::new();
        for range in ranges(options, view, &regions)? {
            rows.extend(stretches::of(view, range, Permissions::Effective).map_err(Failure::rows(view))?);
        }
        let offset = linear::offset(view).map_err(&walk)?.filter(|_| view.has_addresses && is_linear);
        let (start, _) = linear_range(view.geometry);
        let axis = match offset {
            Some(offset) => Axis { origin: offset, physical: true },
            None => Axis { origin: if is_linear { start.0 } else { 0 }, physical: false },
        };
        Ok(Self { view, rows, owners, axis })
    }

    fn painted(&self, by: By) -> Painted {
        Painted::of(self.view.geometry, &self.rows, &self.owners, by)
    }

    /// Returns the picture; `None` if nothing is mapped.
    fn picture(&self, by: By) -> Option<Strips> {
        let painted = self.painted(by);
        let grid = Grid::of(&painted, self.axis)?;
        Some(strips(self.view, by, &painted, &grid))
    }
}

/// Returns the addresses to draw: the linear map unless the options name others.
fn ranges(options: &Options, view: &View<'_>, known: &regions::Regions) -> Result<Vec<(Va, Va)>, Failure> {
    if !options.map.selection.is_default() {
        return Ok(options.map.selection.parts(view, known)?.iter().map(|part| part.range).collect());
    }
    let (first, last) = regions::linear(view.geometry);
    let known = view.known().into_iter();
    let known = known.map(|(from, to)| (from.max(first), to.min(last)));
    Ok(known.filter(|(from, to)| from <= to).collect())
}

fn title(view: &View<'_>) -> String {
    format!("{}: {}", view.origin(), facts(view))
}

fn strips(view: &View<'_>, by: By, painted: &Painted, grid: &Grid) -> Strips {
    let what = if painted.invalid > 0 {
        format!(", {} of it invalid", human(painted.invalid))
    } else {
        String::new()
    };
    Strips {
        title: title(view),
        subtitle: format!(
            "{}{what}, by {}; each strip {}, each column {}",
            human(painted.bytes),
            by.text(),
            human(grid.strip),
            human(grid.column)
        ),
        classes: painted.legend(),
        strips: grid.strips.clone(),
    }
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text)
        .map_err(|error| Failure::Wrong(format!("`{}` cannot be written: {error}", file.display())))
}
