//! The reasons why a medium cannot be written.

use std::io;
use std::path::PathBuf;

use kernel_plan::efi::command_line::{MOST, NotText};

use crate::commands::boot;
use crate::distinct::Collision;

/// Why the exit status is 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    NoImage(#[from] boot::failure::Failure),

    #[error("`{}` cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::Error),

    #[error("`{}` is an arm64 kernel image and no EFI application: it has no PE header; `make image` builds one that has", .0.display())]
    NotEfi(PathBuf),

    #[error(transparent)]
    Collision(#[from] Collision),

    #[error("--args: {}", refusal(*.0))]
    Arguments(NotText),

    #[error("--args: the image would not do as they say:\n  {}", .0.join("\n  "))]
    Ignored(Vec<String>),

    #[error("`{}` cannot be written: {}", .0.display(), .1)]
    Unwritable(PathBuf, io::Error),

    #[error("cannot write to stdout: {0}")]
    Output(io::Error),
}

fn refusal(why: NotText) -> String {
    match why {
        NotText::Character(at) => {
            format!(
                "the character at offset {at} is not ASCII that can be printed; boot arguments have no other"
            )
        }
        NotText::TooLong => format!("boot arguments have at most {MOST} bytes"),
    }
}
