//! One of Debian's kernels under QEMU, from its start to its certain end.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::initrd::{self, READY};
use crate::monitor::Monitor;

/// The time limit of a guest for anything; a boot takes ten seconds, and longer on a busy host.
const PATIENCE: Duration = Duration::from_secs(7200);

/// The releases that are tested, oldest first.
pub(crate) const KERNELS: [&str; 7] = ["6.1", "6.12", "6.17", "6.18", "7.0", "7.2", "7.3"];

/// Returns those of them that are there; the script that fetches them names the others.
pub(crate) fn at_hand() -> Vec<&'static str> {
    KERNELS.into_iter().filter(|kernel| is_there(kernel)).collect()
}

/// Returns the kernels with 16K pages that are there, oldest first.
pub(crate) fn at_hand_16k() -> Vec<&'static str> {
    ["6.12-16k", "7.2-16k"].into_iter().filter(|kernel| is_there(kernel)).collect()
}

fn is_there(kernel: &str) -> bool {
    linux().join(format!("vmlinuz-{kernel}")).exists()
}

/// A kernel to boot, and its machine.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    /// One of [`KERNELS`], or one with 16K pages.
    pub(crate) kernel: &'a str,
    /// The kernel's command line.
    pub(crate) arguments: &'a str,
    pub(crate) machine: &'a str,
    pub(crate) cpu: &'a str,
    pub(crate) ram: &'a str,
    /// More of QEMU's arguments; `RAM` in them is a file for the guest's RAM.
    pub(crate) more: &'a [&'a str],
    /// True if QEMU starts with a gdbstub.
    pub(crate) stub: bool,
    /// Files beside the kernels that the guest has in `/bin` as well.
    pub(crate) files: &'a [&'a str],
    /// True if it has modules, and the tools and the kernel for a crash.
    pub(crate) crash: bool,
}

/// 4 GiB, QEMU's own CPU, and no gdbstub.
pub(crate) const PLAIN: Machine<'static> = Machine {
    kernel: "6.12",
    arguments: "nokaslr",
    machine: "virt,gic-version=3",
    cpu: "max,pauth-impdef=on",
    ram: "4G",
    more: &[],
    stub: false,
    files: &[],
    crash: false,
};

/// A guest that runs. Dropping it ends it.
pub(crate) struct Guest {
    qemu: Child,
    console: UnixStream,
    /// For sockets, whose paths have to be short.
    sockets: TempDir,
    /// For files, which are large.
    files: TempDir,
    port: u16,
    kernel: String,
    begun: Instant,
}

/// Returns the directory of the kernels, which has room for cores.
pub(crate) fn linux() -> PathBuf {
    std::env::var_os("LINMAP_LINUX").expect("LINMAP_LINUX: `make test-linux` sets it").into()
}

impl Guest {
    /// Boots a kernel and waits for its shell.
    pub(crate) fn boot(machine: Machine<'_>) -> Self {
        let begun = Instant::now();
        let sockets = TempDir::new().expect("a directory");
        let files = TempDir::new_in(linux()).expect("a directory");
        let path = |name: &str| sockets.path().join(name);
        let initrd = files.path().join("initrd");
        let archive = match machine.crash {
            true => initrd::archive_for_a_crash(&linux(), machine.kernel),
            false => initrd::archive(&linux(), machine.files),
        };
        std::fs::write(&initrd, archive).expect("room for it");
        let console = UnixListener::bind(path("console")).expect("a socket");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let mut command = Command::new("qemu-system-aarch64");
        command.args(["-nodefaults", "-display", "none", "-no-reboot", "-smp", "2"]);
        command.args(["-M", machine.machine, "-cpu", machine.cpu, "-m", machine.ram]);
        command.arg("-kernel").arg(linux().join(format!("vmlinuz-{}", machine.kernel)));
        command.arg("-initrd").arg(initrd);
        command.args(["-append", &format!("console=ttyAMA0 quiet {}", machine.arguments)]);
        let socket = |name: &str| format!("unix:{},server=on,wait=off", path(name).display());
        command.args(["-serial", &format!("unix:{}", path("console").display())]);
        command.args(["-qmp", &socket("qmp"), "-monitor", &socket("hmp")]);
        if machine.stub {
            command.args(["-gdb", &format!("tcp:127.0.0.1:{port}")]);
        }
        let ram = files.path().join("ram").display().to_string();
        command.args(machine.more.iter().map(|argument| argument.replace("RAM", &ram)));
        let qemu = command.stdin(Stdio::null()).spawn().expect("QEMU starts");
        let (console, _) = console.accept().expect("QEMU connects");
        let kernel = machine.kernel.to_owned();
        let mut guest = Self { qemu, console, sockets, files, port, kernel, begun };
        guest.until_ready();
        guest
    }

    pub(crate) fn qmp(&self) -> PathBuf {
        self.sockets.path().join("qmp")
    }

    pub(crate) fn hmp(&self) -> PathBuf {
        self.sockets.path().join("hmp")
    }

    /// Returns the address of its gdbstub.
    pub(crate) fn stub(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns a path for a large file that is removed with the guest.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Returns the answer of QEMU's monitor to a command for people.
    pub(crate) fn monitor(&self, command: &str) -> String {
        Monitor::connect(&self.qmp()).command(command)
    }

    /// Returns the output of the guest's shell for a line.
    pub(crate) fn shell(&mut self, line: &str) -> String {
        self.console.write_all(format!("{line}\n").as_bytes()).expect("a console");
        self.until_ready()
    }

    /// Returns all output of the guest from a line on until it has ended.
    pub(crate) fn last_words(&mut self, line: &str) -> String {
        self.console.write_all(format!("{line}\n").as_bytes()).expect("a console");
        self.console.set_read_timeout(Some(PATIENCE)).expect("a console");
        let mut words = Vec::new();
        self.console.read_to_end(&mut words).expect("an end");
        String::from_utf8_lossy(&words).into_owned()
    }

    fn until_ready(&mut self) -> String {
        let until = Instant::now() + PATIENCE;
        let mut text = String::new();
        let mut buffer = [0; 1 << 16];
        while !text.trim_end().ends_with(READY) {
            let patience = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.console.set_read_timeout(Some(patience)).expect("a console");
            let read = self.console.read(&mut buffer);
            let bytes = read.unwrap_or_else(|e| panic!("the guest is silent ({e}) after:\n{text}"));
            assert_ne!(bytes, 0, "the guest ended after:\n{text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
        }
        text.trim_end().trim_end_matches(READY).to_owned()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        // Beside the name of the test, and shown for tests that pass, too.
        let _ = write!(io::stderr(), "[{} {} s] ", self.kernel, self.begun.elapsed().as_secs());
    }
}

/// Returns a SOURCE that is a path.
pub(crate) fn named(kind: &str, path: &Path) -> String {
    format!("{kind}{}", path.display())
}
