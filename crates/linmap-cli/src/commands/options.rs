//! The options that every command that reads a map has. They mean the same in all of them; where one does not apply, the
//! command refuses it with the reason.

use clap::Args;

use super::pausing::Pausing;
use super::selection::Selection;

#[derive(Args)]
pub(crate) struct MapOptions {
    #[command(flatten)]
    pub(crate) selection: Selection,

    #[command(flatten)]
    pub(crate) form: Form,

    #[command(flatten)]
    pub(crate) pausing: Pausing,
}

/// The form of the output.
#[derive(Args, Clone, Copy)]
pub(crate) struct Form {
    /// Print one JSON document
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// Print comma-separated values: the names of the columns, then the rows
    #[arg(long)]
    pub(crate) csv: bool,
}
