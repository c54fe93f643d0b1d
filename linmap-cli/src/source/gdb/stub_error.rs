//! Why a stub cannot be used.

use std::io;
use std::time::Duration;

use crate::source::seconds::Seconds;

/// Why a stub cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StubError {
    #[error("no gdbstub there: {0}; QEMU starts one with `-gdb tcp::1234`")]
    Connect(io::Error),
    #[error("the gdbstub has gone away")]
    Gone,
    #[error(
        "the gdbstub did not answer `{question}` within the {} for which the target may be halted \
         (--max-pause); is it a gdbstub?",
        Seconds(*.most)
    )]
    NotInTime { question: String, most: Duration },
    #[error("the gdbstub did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the connection failed: {0}")]
    Io(io::Error),
    #[error("what answers is no gdbstub: its answer to `{0}` is no packet, or a damaged one")]
    Damaged(String),
    #[error("the gdbstub's answer to `{question}` makes no sense: `{answer}`")]
    Senseless { question: String, answer: String },
}
