//! Connects to sockets in the file system, in bounded time.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// The time limit of a connection, which waits while others fill the listener's queue.
const CONNECTING: Duration = Duration::from_secs(5);

/// Connects, or fails after that time.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(CONNECTING))?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
