//! The contents of one line of a trace: an access to an address, in one of the formats.

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Detected from the first lines.
    Auto,
    /// `linmap-trace 1 virtual` or `linmap-trace 1 physical`, then `R ADDRESS [BYTES]` and `W ADDRESS [BYTES]`.
    Linmap,
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// `qemu -plugin libexeclog.so`.
    Execlog,
}

impl TraceFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Linmap, Self::Lackey, Self::Execlog];

    /// Returns its name: `auto`, `linmap`, `lackey` or `execlog`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Linmap => "linmap",
            Self::Lackey => "lackey",
            Self::Execlog => "execlog",
        }
    }
}

/// One access of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) address: Address,
    pub(crate) bytes: u64,
    /// 1, or 2 for a read and a write in one.
    pub(crate) times: u64,
}

/// An address, and the address space that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// In an address space of its own: each page is given memory when it is first touched.
    Virtual(u64),
    /// In the machine's RAM.
    Physical(u64),
}

/// Why a line of a trace cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceProblem {
    /// It does not have the form of its format; holds the right one.
    #[error("{0}")]
    Malformed(&'static str),
    /// It has the form of no format.
    #[error("no format is known that looks like this")]
    UnknownFormat,
    /// It is longer than 64 KiB.
    #[error("the line is longer than 64K")]
    TooLong,
    /// It is not UTF-8.
    #[error("text is right")]
    NotText,
    /// The access ends after the last address.
    #[error("it ends beyond all addresses")]
    BeyondAddresses,
    /// The physical address is not RAM in the linear map.
    #[error("no RAM of this machine is there")]
    NoRam,
    /// The trace touches more pages than its footprint has.
    #[error("more memory is touched than the footprint allows")]
    FootprintExceeded,
}
