//! Why this machine's tables cannot be read.

use std::io;

/// Why this machine's tables cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LiveError {
    #[error(
        "this machine is not arm64 but {0}; name a SOURCE: a core, a saved dump, `qemu:SOCKET` or `gdb:HOST:PORT`"
    )]
    Machine(&'static str),
    #[error("this kernel has none (CONFIG_PROC_KCORE)")]
    None,
    #[error("it cannot be opened: {0}; root may, unless the kernel is locked down")]
    Open(io::Error),
    #[error("it has no segment of the linear map")]
    NoLinearMap,
    #[error("it has no VMCOREINFO; kernels have since Linux 4.19")]
    NoVmcoreInfo,
}
