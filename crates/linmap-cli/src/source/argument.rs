//! SOURCE on the command line: recognised by its beginning, otherwise a path.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::printable::line;

/// A source of page tables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Source {
    /// This machine, by its `/proc/kcore`.
    #[default]
    Live,
    /// A file or a named pipe; its contents decide how it is read.
    File(PathBuf),
    /// The standard input.
    Standard,
    /// A running QEMU, by the socket of its monitor, of either kind.
    Qemu(PathBuf),
    /// A gdbstub, as `HOST:PORT`.
    Gdb(String),
}

/// The text is not a SOURCE.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum NotASource {
    /// An empty path.
    #[error(
        "an empty SOURCE: name a core, a saved dump, `qemu:SOCKET` or `gdb:HOST:PORT`, or nothing for this machine"
    )]
    Empty,
    /// `qemu:` without a path.
    #[error("`qemu:` needs the path of a monitor socket, such as `qemu:/run/vm.sock`")]
    NoSocket,
    /// `gdb:` without an address that can be one.
    #[error("`{0}` needs a host and a port, such as `gdb:localhost:1234`")]
    NoAddress(String),
}

impl Source {
    /// Returns the file of a source, if it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        if let Self::File(path) = self { Some(path) } else { None }
    }

    /// Reads a SOURCE, for clap: `#[arg(value_parser =
    /// clap::builder::OsStringValueParser::new().try_map(Source::parse))]`.
    pub(crate) fn parse(text: OsString) -> Result<Self, NotASource> {
        let bytes = text.as_bytes();
        if let Some(socket) = bytes.strip_prefix(b"qemu:") {
            return match socket {
                [] => Err(NotASource::NoSocket),
                _ => Ok(Self::Qemu(OsStr::from_bytes(socket).into())),
            };
        }
        if let Some(address) = text.to_str().and_then(|text| text.strip_prefix("gdb:")) {
            let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            return match port.map(|(_, port)| port.parse()) {
                Some(Ok(1u16..)) => Ok(Self::Gdb(address.to_owned())),
                _ => Err(NotASource::NoAddress(format!("gdb:{address}"))),
            };
        }
        match bytes {
            [] => Err(NotASource::Empty),
            b"-" => Ok(Self::Standard),
            b"/proc/kcore" => Ok(Self::Live),
            _ => Ok(Self::File(text.into())),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => write!(f, "/proc/kcore"),
            Self::Standard => write!(f, "-"),
            Self::File(path) => f.write_str(&line(&path.to_string_lossy())),
            Self::Qemu(path) => write!(f, "qemu:{}", line(&path.to_string_lossy())),
            Self::Gdb(address) => write!(f, "gdb:{}", line(address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_recognised_by_its_beginning() {
        let parse = |text: &str| Source::parse(text.into());
        assert_eq!(parse("/proc/kcore"), Ok(Source::Live));
        assert_eq!(parse("-"), Ok(Source::Standard));
        assert_eq!(parse("vmcore"), Ok(Source::File("vmcore".into())));
        assert_eq!(parse("qemu:/run/a.sock"), Ok(Source::Qemu("/run/a.sock".into())));
        assert_eq!(parse("gdb:localhost:1234"), Ok(Source::Gdb("localhost:1234".into())));
        assert_eq!(parse("gdb:[::1]:1234"), Ok(Source::Gdb("[::1]:1234".into())));
        assert_eq!(parse(""), Err(NotASource::Empty));
        assert_eq!(parse("qemu:"), Err(NotASource::NoSocket));
        for wrong in ["gdb:", "gdb:1234", "gdb::1234", "gdb:host:", "gdb:host:0", "gdb:host:99999"] {
            assert_eq!(parse(wrong), Err(NotASource::NoAddress(wrong.to_owned())), "{wrong}");
        }
    }
}
