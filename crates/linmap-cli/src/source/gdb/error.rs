//! Why a stub cannot be used, or shows no tables.

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

/// Why no tables can be read through a stub.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GdbError {
    #[error(transparent)]
    Stub(#[from] StubError),
    #[error("the gdbstub does not describe its registers (qXfer:features:read)")]
    NoDescription,
    #[error("the gdbstub is of architecture `{0}`, not aarch64")]
    NotArm64(String),
    #[error("the gdbstub shows no `{0}`; QEMU's does")]
    NoRegister(&'static str),
    #[error("no CPU has translation on: the kernel has not come that far yet, or has ended")]
    Off,
    #[error("the gdbstub cannot read physical memory (Qqemu.PhyMemMode); QEMU's can")]
    NotPhysical,
}
