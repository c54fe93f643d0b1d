//! The gdbstub of a made-up guest, on a socket of either kind.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crate::guest::Guest;

/// TCR_EL1 of 4K pages and 48 bits.
const TCR: u64 = 2 << 30 | 16 << 16 | 5 << 32;

/// Listens on a port. Returns it as a SOURCE.
pub(crate) fn listen(guest: &Arc<Guest>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port");
    let guest = guest.clone();
    thread::spawn(move || listener.incoming().flatten().for_each(|socket| serve(&guest, socket)));
    format!("gdb:{address}")
}

/// Listens on a path for as long as it exists.
pub(crate) fn listen_at(guest: &Arc<Guest>, path: &Path) {
    let listener = UnixListener::bind(path).expect("a path");
    let guest = guest.clone();
    thread::spawn(move || listener.incoming().flatten().for_each(|socket| serve(&guest, socket)));
}

/// Serves a debugger until it leaves. If it leaves without a goodbye, the guest stays halted, as in QEMU.
fn serve(guest: &Guest, mut socket: impl Read + Write) {
    let ran = guest.stop();
    if ran && guest.habits.tells {
        let _ = send(&mut socket, b"T02thread:01;");
    }
    let (mut arrived, mut buffer, mut reads) = (Vec::new(), [0; 4096], 0);
    let (mut thread, mut is_described) = (1, false);
    loop {
        let Some(packet) = take(&mut arrived) else {
            match socket.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(bytes) => arrived.extend_from_slice(&buffer[..bytes]),
            }
            continue;
        };
        thread::sleep(guest.habits.delay);
        if packet.starts_with('m') {
            reads += 1;
            if reads > guest.habits.most_reads {
                guest.is_stuck();
                continue;
            }
        }
        is_described |= packet.starts_with("qXfer:features:read:");
        if packet.starts_with('p') && !is_described {
            // QEMU shows only the registers that every debugger knows.
            let _ = send(&mut socket, b"E14");
            continue;
        }
        if let Some(selected) = packet.strip_prefix("Hg") {
            thread = selected.parse().expect("a thread");
        }
        let gone = answers(guest, &packet, thread).iter().any(|answer| send(&mut socket, answer).is_err());
        if gone {
            return;
        }
    }
}

/// Returns the packets that answer one.
fn answers(guest: &Guest, packet: &str, thread: usize) -> Vec<Vec<u8>> {
    let answer = match packet {
        "qfThreadInfo" => "m1,2".to_owned(),
        "qsThreadInfo" => "l".to_owned(),
        "D" => {
            guest.go_on();
            "OK".to_owned()
        }
        _ if packet.starts_with("qSupported") => "PacketSize=1000;qXfer:features:read+".to_owned(),
        _ if packet.starts_with("qXfer:features:read:target.xml:0,") => format!("l{}", description(guest)),
        _ if packet.starts_with("Hg") || packet.starts_with("Qqemu.PhyMemMode:") => "OK".to_owned(),
        _ if packet.starts_with('p') => register(guest, packet, thread),
        _ if packet.starts_with('m') => memory(guest, &packet[1..]),
        _ if packet.starts_with("qRcmd,") && guest.habits.monitor => {
            let command = String::from_utf8(bytes(&packet[6..])).expect("a command");
            let printed = guest.monitor(&command);
            let lines = printed.lines().map(|line| format!("O{}", hex(format!("{line}\r\n").as_bytes())));
            return lines.chain(["OK".to_owned()]).map(String::into_bytes).collect();
        }
        _ => String::new(),
    };
    vec![answer.into_bytes()]
}

fn description(guest: &Guest) -> String {
    let mut names = vec!["cpsr", "SCTLR", "TTBR1_EL1", "TCR_EL1"];
    names.extend(guest.habits.midrs.map(|_| "MIDR_EL1"));
    let registers: String =
        names.iter().map(|name| format!("<reg name=\"{name}\" bitsize=\"64\"/>")).collect();
    format!("<target><architecture>aarch64</architecture>{registers}</target>")
}

fn register(guest: &Guest, packet: &str, thread: usize) -> String {
    let midr = guest.habits.midrs.map_or(0, |midrs| midrs[thread - 1]);
    let number = usize::from_str_radix(&packet[1..], 16).expect("a number");
    let values: [u64; 5] = [1 << 2, 1, guest.root_now(), TCR, midr];
    values.get(number).map_or_else(|| "E01".to_owned(), |value| hex(&value.to_le_bytes()))
}

fn memory(guest: &Guest, range: &str) -> String {
    let (pa, count) = range.split_once(',').expect("a range");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    guest.read(number(pa), number(count) as usize).map_or_else(|| "E14".to_owned(), |bytes| hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
}

/// Returns the first complete packet.
fn take(arrived: &mut Vec<u8>) -> Option<String> {
    let start = arrived.iter().position(|byte| *byte == b'$')?;
    let end = start + arrived[start..].iter().position(|byte| *byte == b'#')?;
    if arrived.len() < end + 3 {
        return None;
    }
    let packet = String::from_utf8(arrived[start + 1..end].to_vec()).expect("text");
    arrived.drain(..end + 3);
    Some(packet)
}

fn send(socket: &mut impl Write, packet: &[u8]) -> std::io::Result<()> {
    let sum = packet.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    let mut framed = b"+$".to_vec();
    framed.extend(packet);
    framed.extend(format!("#{sum:02x}").bytes());
    socket.write_all(&framed)
}
