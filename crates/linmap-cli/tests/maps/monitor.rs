//! The monitor of a made-up guest: QMP on a path, and a gdbstub that it starts and ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

use crate::guest::Guest;
use crate::stub;

/// The device of the gdbstub.
const STUB: &str = "gdb";

/// Listens on a path. Returns it as a SOURCE.
pub(crate) fn listen(guest: &Arc<Guest>, path: &Path) -> String {
    let listener = UnixListener::bind(path).expect("a path");
    let guest = guest.clone();
    thread::spawn(move || listener.incoming().flatten().for_each(|socket| serve(&guest, socket)));
    format!("qemu:{}", path.display())
}

/// Starts a gdbstub, or ends it, as `gdbserver` does.
pub(crate) fn gdbserver(guest: &Arc<Guest>, device: &str) -> String {
    let Some(path) = device.strip_prefix("unix:").and_then(|device| device.split(',').next()) else {
        let at = guest.monitor("info chardev");
        let path = at.lines().find_map(|line| line.strip_prefix("gdb: filename=disconnected:unix:"));
        // QEMU removes the socket as well.
        path.into_iter().for_each(|path| drop(fs::remove_file(path.split(',').next().unwrap_or(path))));
        guest.device(STUB, None);
        return "Disabled gdbserver\r\n".to_owned();
    };
    stub::listen_at(guest, Path::new(path));
    guest.device(STUB, Some(format!("disconnected:unix:{path},server=on")));
    format!("Waiting for gdb connection on device '{device}'\r\n")
}

/// Returns true if there is a gdbstub.
pub(crate) fn has_stub(guest: &Guest) -> bool {
    guest.monitor("info chardev").contains("gdb: ")
}

fn serve(guest: &Arc<Guest>, socket: UnixStream) {
    let mut reader = BufReader::new(socket);
    let answer = |reader: &mut BufReader<UnixStream>, value: Value| writeln!(reader.get_mut(), "{value}");
    if answer(&mut reader, json!({ "QMP": { "version": {} } })).is_err() {
        return;
    }
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|bytes| bytes != 0) {
        let request: Value = serde_json::from_str(&line).expect("JSON");
        line.clear();
        let returned = match request["arguments"]["command-line"].as_str() {
            None => json!({}),
            Some(command) => match command.strip_prefix("gdbserver ") {
                Some(device) => gdbserver(guest, device).into(),
                None => guest.monitor(command).into(),
            },
        };
        if answer(&mut reader, json!({ "return": returned, "id": request["id"] })).is_err() {
            return;
        }
    }
}
