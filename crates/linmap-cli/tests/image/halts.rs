//! A real QEMU: signals at random moments while the map of a running guest is read. The guest runs afterwards.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A guest that never ends by itself. It ends with the test.
struct Guest(Child, TempDir);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guest {
    fn boot() -> Self {
        let directory = TempDir::new().expect("a directory");
        let image = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().map(|target| target.join("linmap.img"));
        let mut command = Command::new("qemu-system-aarch64");
        command.args(["-nodefaults", "-display", "none", "-no-reboot", "-smp", "1", "-m", "256M"]);
        command.args(["-M", "virt,gic-version=3", "-cpu", "max,midr=0xc00fac30"]);
        command.arg("-kernel").arg(image.expect("a directory"));
        command.args(["-append", "run=stress:1000000000:7"]);
        let qmp = directory.path().join("qmp");
        command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", qmp.display()));
        let mut guest = Self(command.stdin(Stdio::null()).spawn().expect("QEMU starts"), directory);
        while linmap(&qmp, guest.files()).wait().expect("it ends").code() != Some(0) {
            assert!(guest.0.try_wait().expect("QEMU").is_none(), "the guest has ended");
            std::thread::sleep(Duration::from_millis(100));
        }
        guest
    }

    fn files(&self) -> &Path {
        self.1.path()
    }

    /// Returns the answer of QEMU's monitor to a command for people.
    fn monitor(&self, command: &str) -> String {
        let mut socket = BufReader::new(UnixStream::connect(self.files().join("qmp")).expect("a monitor"));
        socket.read_line(&mut String::new()).expect("a greeting");
        let arguments = json!({ "command-line": command });
        writeln!(socket.get_mut(), "{}", json!({ "execute": "qmp_capabilities" })).expect("a monitor");
        let request = json!({ "execute": "human-monitor-command", "arguments": arguments, "id": "test" });
        writeln!(socket.get_mut(), "{request}").expect("a monitor");
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).expect("an answer");
            let answer: Value = serde_json::from_str(&line).expect("JSON");
            // An answer to a killed client can come first.
            if answer["id"] == "test" {
                return answer["return"].as_str().expect("text").to_owned();
            }
        }
    }
}

fn linmap(qmp: &Path, files: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.arg("check").arg(format!("qemu:{}", qmp.display())).args(["--max-pause", "600"]);
    command.env("TMPDIR", files).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("linmap runs")
}

#[test]
fn a_guest_goes_on_after_signals_at_random_moments() {
    test_support::each(1, signals_at_moments_of);
}

fn signals_at_moments_of(seed: u64) {
    let guest = Guest::boot();
    let qmp = guest.files().join("qmp");
    let begun = Instant::now();
    linmap(&qmp, guest.files()).wait().expect("it ends");
    let (time, mut random, mut killed) = (begun.elapsed(), test_support::Random::new(seed), 0);
    for attempt in 0..60 {
        let mut child = linmap(&qmp, guest.files());
        std::thread::sleep(time.mul_f64(random.fraction()));
        let signal = random.of(&[Signal::INT, Signal::TERM, Signal::HUP]);
        kill_process(Pid::from_child(&child), signal).expect("it was not waited for");
        killed += u32::from(child.wait().expect("it ends").code().is_none());
        let what = format!("try {attempt}");
        let status = guest.monitor("info status");
        assert!(status.contains("running"), "{what}: {status}");
        let devices = guest.monitor("info chardev");
        assert!(!devices.contains("gdb: ") && !devices.contains("linmap-reads"), "{what}: {devices}");
        let left = std::fs::read_dir(guest.files()).expect("the directory").count();
        assert_eq!(left, 1, "{what}: something is left beside the monitor's socket");
    }
    println!("{killed} of 60 were ended by their signal");
}
