//! Why there is nothing to read, said so that somebody can do something about it.

use std::io;

use super::argument::Source;
use super::core::CoreError;
use super::gdb::GdbError;
use super::kcore::LiveError;
use super::qemu::QemuError;
use super::regime::RegimeError;
use super::saved::{JsonError, TextError};
use super::snapshot::{TooMany, Unread};

/// What was wrong with which SOURCE.
#[derive(Debug, thiserror::Error)]
#[error("`{subject}`: {why}")]
pub(crate) struct SourceError {
    /// The SOURCE, as it is written.
    pub(crate) subject: Source,
    /// What was wrong.
    pub(crate) why: Why,
}

/// What can be wrong with a SOURCE.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Why {
    #[error("it can not be opened: {0}{hint}", hint = open_hint(.0))]
    Open(io::Error),
    #[error("it can not be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is {}; a SOURCE is a core or a saved dump", if *.directory { "a directory" } else { "not a regular file" })]
    NotAFile { directory: bool },
    #[error("it is empty; a SOURCE is a core or a saved dump")]
    Empty,
    #[error(
        "it is no SOURCE: it begins with `{beginning}`, and neither as an ELF core does, nor as a text of kernel_page_tables (`---[` or `0x`), nor as a --json dump (`{{`)"
    )]
    NotRecognised { beginning: String },
    #[error(
        "it is a compressed core, which has to be made an ELF core first: `makedumpfile -E`, or dump-guest-memory without -z, -l and -s"
    )]
    Compressed,
    #[error("it has {bytes} bytes, and no dump has more than {most}")]
    TooLong { bytes: u64, most: u64 },
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("it begins as a text of kernel_page_tables and does not go on as one; {0}")]
    Text(#[from] TextError),
    #[error(transparent)]
    Core(#[from] CoreError),
    #[error(
        "it has no VMCOREINFO, neither in a note nor in memory, so nothing says where its tables are; is it the memory of an arm64 Linux (4.19 or newer)?"
    )]
    NoVmcoreInfo,
    #[error(transparent)]
    Regime(#[from] RegimeError),
    #[error(transparent)]
    Gdb(#[from] GdbError),
    #[error(transparent)]
    Qemu(#[from] QemuError),
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("it went away while its tables were read; is it still running?")]
    Lost,
    #[error("the root is not to be had: {0}")]
    Root(Unread),
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

fn open_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; root may",
        io::ErrorKind::NotFound => "; a SOURCE is a core, a saved dump, `qemu:SOCKET` or `gdb:HOST:PORT`",
        _ => "",
    }
}
