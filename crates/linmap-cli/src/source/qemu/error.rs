//! Why no tables can be read with a monitor.

use super::monitor::MonitorError;

/// Why no tables can be read with a monitor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QemuError {
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    #[error("QEMU says of no memory that it is RAM of the guest (`info mtree -f`)")]
    NoRam,
    #[error("its gdbstub, which shows the registers, talks to another debugger; detach that first")]
    StubBusy,
    #[error("QEMU cannot start a gdbstub, which shows the registers: {0}")]
    NoStub(String),
}
