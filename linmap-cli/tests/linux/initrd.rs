//! The initial RAM disk of the kernels: busybox, the static command, a program that takes pages, and a shell that
//! runs given lines.

use std::fs;
use std::path::Path;

/// The shell prints this when it is ready, and after each line.
pub(crate) const READY: &str = "-- ready --";

const INIT: &str = "#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox stty -echo -onlcr
echo '-- ready --'
while read -r line; do eval \"$line\"; echo '-- ready --'; done
";

/// Returns an archive in the format that kernels unpack (`newc`).
///
/// `more` are further files of `linux`.
pub(crate) fn archive(linux: &Path, more: &[&str]) -> Vec<u8> {
    let file = |name: &str| fs::read(linux.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut archive = Vec::new();
    for directory in ["bin", "proc", "sys", "dev"] {
        entry(&mut archive, directory, 0o40_755, &[], (0, 0));
    }
    entry(&mut archive, "dev/console", 0o20_600, &[], (5, 1));
    entry(&mut archive, "dev/null", 0o20_666, &[], (1, 3));
    entry(&mut archive, "bin/busybox", 0o100_755, &file("busybox"), (0, 0));
    entry(&mut archive, "bin/linmap", 0o100_755, &file("linmap"), (0, 0));
    entry(&mut archive, "bin/taker", 0o100_755, &file("taker"), (0, 0));
    for name in more {
        entry(&mut archive, &format!("bin/{name}"), 0o100_644, &file(name), (0, 0));
    }
    entry(&mut archive, "init", 0o100_755, INIT.as_bytes(), (0, 0));
    entry(&mut archive, "TRAILER!!!", 0, &[], (0, 0));
    archive
}

fn entry(archive: &mut Vec<u8>, name: &str, mode: u32, data: &[u8], (major, minor): (u32, u32)) {
    let inode = archive.len() as u32 + 1;
    let (size, length) = (data.len() as u32, name.len() as u32 + 1);
    let fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, length, 0];
    archive.extend(b"070701");
    for field in fields {
        archive.extend(format!("{field:08x}").bytes());
    }
    archive.extend(name.bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(data);
    archive.resize(archive.len().next_multiple_of(4), 0);
}
