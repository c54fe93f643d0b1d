//! The initial RAM disk of the kernels: busybox, the static command, a program that takes pages, and a shell that
//! runs given lines; for a guest that is to crash, also modules, the tools of a crash, and a kernel to crash into.

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

/// Entries in the format that kernels unpack (`newc`).
struct Archive(Vec<u8>);

/// Returns an archive for any guest, with `more` files of `linux`.
pub(crate) fn archive(linux: &Path, more: &[&str]) -> Vec<u8> {
    let mut archive = Archive::of_programs(linux);
    for name in more {
        archive.file(&format!("bin/{name}"), &read(&linux.join(name)));
    }
    archive.finish()
}

/// Returns an archive with the modules of a kernel, kexec, makedumpfile, and the kernel and the archive for its crash.
pub(crate) fn archive_for_a_crash(linux: &Path, kernel: &str) -> Vec<u8> {
    let with_tools = || {
        let mut archive = Archive::of_programs(linux);
        archive.directory(&linux.join("crash/bin"), "bin");
        archive.directory(&linux.join("crash/lib"), "lib");
        archive
    };
    let mut archive = with_tools();
    archive.directory(&linux.join(format!("modules-{kernel}")), "modules");
    archive.file("crash/kernel", &read(&linux.join(format!("vmlinuz-{kernel}"))));
    archive.file("crash/initrd", &with_tools().finish());
    archive.finish()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

impl Archive {
    fn of_programs(linux: &Path) -> Self {
        let mut archive = Self(Vec::new());
        for directory in ["bin", "lib", "proc", "sys", "dev", "tmp", "modules", "crash"] {
            archive.entry(directory, 0o40_755, &[], (0, 0));
        }
        archive.entry("dev/console", 0o20_600, &[], (5, 1));
        archive.entry("dev/null", 0o20_666, &[], (1, 3));
        for program in ["busybox", "linmap", "taker"] {
            archive.file(&format!("bin/{program}"), &read(&linux.join(program)));
        }
        archive.file("init", INIT.as_bytes());
        archive
    }

    /// Adds the files of a directory, if there is one.
    fn directory(&mut self, from: &Path, to: &str) {
        for entry in fs::read_dir(from).into_iter().flatten().flatten() {
            self.file(&format!("{to}/{}", entry.file_name().display()), &read(&entry.path()));
        }
    }

    fn file(&mut self, name: &str, data: &[u8]) {
        self.entry(name, 0o100_755, data, (0, 0));
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8], (major, minor): (u32, u32)) {
        let Self(archive) = self;
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

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.0
    }
}
