//! `linmap dump`: prints the page tables of a kernel.
//!
//! - `text`: in the form of Linux.  `rows`: as JSON and CSV.

mod rows;
mod text;

use clap::Args;
use linmap::Va;

use super::names::{Names, SymbolsArgument};
use super::options::MapOptions;
use super::reading::{Failure, SOURCES, SourceArgument, concluded, regions, view};
use crate::map::image::Image;
use crate::map::view::View;
use crate::progress;
use crate::source::Wanted;
use crate::status::Status;
use crate::terminal;

/// Print the page tables of an arm64 kernel in the form of Linux's kernel_page_tables
///
/// Consecutive equal entries are one line. Permissions are each entry's own; `linmap walk` and `linmap check` apply
/// those of the tables above. linmap reads the document of --json as a SOURCE. Exit status: 0, or 2 for an error.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: SourceArgument,

    #[command(flatten)]
    map: MapOptions,

    /// Show the symbol that each row begins in
    #[arg(long)]
    names: bool,

    #[command(flatten)]
    symbols: SymbolsArgument,
}

/// Prints the tables.
pub(crate) fn run(options: &Options) -> Status {
    concluded("dump", options.map.form.json, dump(options))
}

fn dump(options: &Options) -> Result<Status, Failure> {
    // The regions are known only after something was read.
    let opened = options
        .source
        .open(options.map.selection.range().map_or(Wanted::All, wanted), options.map.pausing)?;
    let view = view(&opened)?;
    // The image can be outside of the range that was read.
    let image = match Image::find(&view) {
        Err(_) if options.map.selection.range().is_some() => None,
        found => found.map_err(Failure::walk(&view))?,
    };
    let regions = regions(&view, image.as_ref());
    let parts = options.map.selection.parts(&view, &regions)?;
    let names = options.names(&view)?;
    progress::begin("collecting rows");
    if options.map.form.json {
        rows::print_json(&view, &regions, &parts, names.as_ref())?;
    } else if options.map.form.csv {
        rows::print_csv(&view, &regions, &parts, names.as_ref())?;
    } else {
        text::print(&view, &parts, names.as_ref())?;
    }
    Ok(Status::Fine)
}

impl Options {
    /// Returns the symbols if rows are to have names.
    fn names(&self, view: &View<'_>) -> Result<Option<Names>, Failure> {
        if !self.names {
            self.symbols.refuse("rows have no symbols without --names")?;
            return Ok(None);
        }
        let names = self.symbols.names(view)?;
        if let Some(why) = &names.missing {
            terminal::note(format_args!(
                "{}: no row has a name: {why}; --symbols names a file of them",
                view.name()
            ));
        }
        Ok(Some(names))
    }
}

const fn wanted((first, last): (Va, Va)) -> Wanted {
    Wanted::Range(first, last)
}
