//! Errors of reading a SOURCE, each with a remedy where there is one.

use std::io;

use super::argument::Source;
use super::bytes::PartError;
use super::core::CoreError;
use super::flattened::FlattenedError;
use super::gdb::{GdbError, StubError};
use super::kcore::LiveError;
use super::kdump::KdumpError;
use super::packed::PackedError;
use super::qemu::QemuError;
use super::regime::RegimeError;
use super::saved::{JsonError, TextError};
use super::snapshot::{TooMany, Unread};

/// An error of one SOURCE.
#[derive(Debug, thiserror::Error)]
#[error("`{subject}`: {why}{}", address_hint(.subject, .why))]
pub(crate) struct SourceError {
    /// The SOURCE as written on the command line.
    pub(crate) subject: Source,
    /// The error.
    pub(crate) why: Problem,
}

/// Everything that can be wrong with a SOURCE.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("it cannot be opened: {0}{hint}", hint = open_hint(.0))]
    Open(io::Error),
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is {}; a SOURCE is a core or a saved dump", if *.directory { "a directory" } else { "neither a file nor a pipe" })]
    NotAFile { directory: bool },
    #[error("it is empty; a SOURCE is a core or a saved dump")]
    Empty,
    #[error(
        "it is no SOURCE: it begins with `{beginning}`, and neither as an ELF core or a core of makedumpfile does, nor as a text of kernel_page_tables (`---[` or `0x`), nor as a --json dump (`{{`)"
    )]
    NotRecognised { beginning: String },
    #[error("{0}")]
    Compressed(String),
    #[error("it is a named pipe, and nobody wrote to it in {seconds} seconds")]
    NoWriter { seconds: u64 },
    #[error("it has {bytes} bytes or more, and no dump has more than {most}")]
    TooLong { bytes: u64, most: u64 },
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("it begins as a text of kernel_page_tables and cannot be read as one; {0}")]
    Text(#[from] TextError),
    #[error(transparent)]
    Core(#[from] CoreError),
    #[error(transparent)]
    Kdump(#[from] KdumpError),
    #[error(transparent)]
    Flattened(#[from] FlattenedError),
    #[error("it is in makedumpfile's flattened form, and the file in it is no core")]
    FlattenedOther,
    #[error(transparent)]
    Packed(#[from] PackedError),
    #[error(transparent)]
    Part(#[from] PartError),
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
    #[error("{why}; {note}")]
    Noted { why: Box<Self>, note: String },
    #[error("{why}; and it may still be halted: {halted}")]
    LeftHalted { why: Box<Self>, halted: Halted },
    #[error(transparent)]
    Halted(#[from] Halted),
    #[error("the root table cannot be read: {0}")]
    Root(Unread),
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

/// A hint for an address in the place of a SOURCE.
fn address_hint(subject: &Source, why: &Problem) -> String {
    match (subject, why) {
        (Source::File(path), Problem::Open(error)) if error.kind() == io::ErrorKind::NotFound => {
            let text = path.to_string_lossy();
            if is_address(&text) {
                return format!("; is `{text}` an address? `linmap walk SOURCE {text}` translates one");
            }
            String::new()
        }
        _ => String::new(),
    }
}

/// Returns true if a text can only be meant as an address of a kernel.
pub(crate) fn is_address(text: &str) -> bool {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let least = if digits.len() < text.len() { 1 } else { 12 };
    (least..=16).contains(&digits.len()) && digits.chars().all(|digit| digit.is_ascii_hexdigit())
}

/// A guest was halted and does not run again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Halted {
    #[error("the gdbstub was told to let the target go on and did not confirm it: {0}")]
    Stub(StubError),
    #[error("QEMU was told to let the guest go on and did not: {0}; `cont` in its monitor does")]
    Monitor(String),
}

/// Returns the result of reading, or an error if the guest does not run again.
pub(super) fn and_released<T>(read: Result<T, Problem>, released: Result<(), Halted>) -> Result<T, Problem> {
    match (read, released) {
        (read, Ok(())) => read,
        (Ok(_), Err(halted)) => Err(halted.into()),
        (Err(why), Err(halted)) => Err(Problem::LeftHalted { why: why.into(), halted }),
    }
}

fn open_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; root may",
        io::ErrorKind::NotFound => "; a SOURCE is a core, a saved dump, `qemu:SOCKET` or `gdb:HOST:PORT`",
        _ => "",
    }
}
