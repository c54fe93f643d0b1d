//! Sources without anything to read: each has its own message, and exit status 2. A silent stub is given up before it
//! ends, as its message shows.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use crate::guest::{Guest, Machine, PLAIN, named};
use crate::sources::linmap;

/// Expects a failure with this message.
fn refused(source: &str, says: &str) {
    let output = linmap(&["stat", source]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{source}: {stderr}");
    assert!(stderr.contains(says), "{source}: `{says}` was to be in: {stderr}");
}

/// Starts a stub that answers the first questions as given and then closes the connection or stays silent.
fn fake_stub(answers: &'static [&'static str], closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port");
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut buffer = [0; 4096];
        for answer in answers {
            let _ = socket.read(&mut buffer);
            let sum = answer.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
            let _ = socket.write_all(format!("+${answer}#{sum:02x}").as_bytes());
        }
        if !closes {
            thread::sleep(Duration::from_secs(100_000));
        }
    });
    format!("gdb:{address}")
}

/// Starts a stub with this description of its registers, which answers no other question.
fn described_stub(description: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port");
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let (mut asked, mut buffer) = (String::new(), [0; 4096]);
        while let Ok(length @ 1..) = socket.read(&mut buffer) {
            asked += &String::from_utf8_lossy(&buffer[..length]);
            while let Some((packet, rest)) = asked.split_once('#').filter(|(_, rest)| rest.len() >= 2) {
                let answer = match packet.rsplit('$').next().unwrap_or_default() {
                    question if question.starts_with("qSupported") => "PacketSize=1000",
                    question if question.starts_with("qXfer:features") => description,
                    question if question.starts_with('D') => "OK",
                    _ => "",
                };
                asked = rest[2..].to_owned();
                let sum = answer.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
                let _ = socket.write_all(format!("+${answer}#{sum:02x}").as_bytes());
            }
        }
    });
    format!("gdb:{address}")
}

#[test]
fn stubs_that_are_none() {
    refused("gdb:127.0.0.1:1", "no gdbstub there");
    refused(&fake_stub(&[], true), "gone away");
    refused(&fake_stub(&[], false), "did not answer");
    refused(&described_stub("E01"), "does not describe its registers");
    const X86: &str = "l<target><architecture>i386:x86-64</architecture></target>";
    refused(&described_stub(X86), "architecture `i386:x86-64`, not aarch64");
    const BARE: &str = "l<target><architecture>aarch64</architecture></target>";
    refused(&described_stub(BARE), "shows no `TTBR1_EL1`");
    refused(&fake_stub(&["PacketSize=1000"], true), "gone away");
}

#[test]
fn monitors_that_are_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    refused(&named("qemu:", &path), "no monitor there");
    let listener = UnixListener::bind(&path).expect("a socket");
    refused(&named("qemu:", &path), "does not greet");
    thread::spawn(move || {
        for socket in listener.incoming() {
            let _ = socket.expect("a connection").write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        }
    });
    // The first connection was the one above.
    refused(&named("qemu:", &path), "no QEMU monitor: it says `SSH-2.0-OpenSSH_9.2`");
}

/// A process that ends with the test in any case.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_guest_that_has_not_begun_stays_stopped() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("qmp");
    let qemu = std::process::Command::new("qemu-system-aarch64")
        .args(["-M", "virt", "-cpu", "max", "-S", "-nodefaults", "-display", "none", "-qmp"])
        .arg(format!("unix:{},server=on,wait=off", path.display()))
        .spawn()
        .expect("QEMU starts");
    let _qemu = Ended(qemu);
    while !path.exists() {
        thread::sleep(Duration::from_millis(10));
    }
    refused(&named("qemu:", &path), "no CPU has translation on");
    let status = crate::monitor::Monitor::connect(&path).command("info status");
    assert!(!status.contains("running"), "{status}");
}

#[test]
fn a_core_that_was_cut_short() {
    let guest = Guest::boot(Machine { ram: "512M", ..PLAIN });
    let core = guest.path("core");
    assert_eq!(guest.monitor(&named("dump-guest-memory ", &core)), "");
    let name = core.display().to_string();
    assert_eq!(linmap(&["stat", &name]).status.code(), Some(0));
    let file = std::fs::OpenOptions::new().write(true).open(&core).expect("the core");
    file.set_len(300 << 20).expect("a shorter file");
    refused(&name, "it is not whole");
    file.set_len(100).expect("a shorter file");
    refused(&name, "it is not whole");
    file.set_len(0).expect("a shorter file");
    refused(&name, "it is empty");
}
