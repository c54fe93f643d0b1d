//! Runs that end before the kernel has finished. None of them leaves a process behind.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use snapbox::{assert_data_eq, str};

use crate::machine::{GOOD, Machine, assert_exit, boot, document, stderr};

/// Waits for ever; the process id is left in a file beside the image.
const HANG: &str = r#"
echo $$ > "${2%/*}/pid"
echo booting
echo hanging
exec sleep 100000
"#;

/// Boots with more and more time, by this option, until the machine's last line is the expected one, as the time depends
/// on the host. Returns the message, with `N` for the time.
fn given_up(machine: &Machine, option: &str, last_line: &str) -> String {
    let last_line = format!("last console line: `{last_line}`");
    for seconds in (0..10).map(|n| (1 << n).to_string()) {
        let mut command = machine.command(&["--timeout", "10000", option, &seconds, "--json"]);
        let output = command.stderr(Stdio::null()).output().expect("linmap runs");
        assert_exit(&output, 2);
        let error = document(&output)["error"].as_str().expect("a reason").to_owned();
        if error.contains(&last_line) {
            assert!(!machine.is_alive());
            return error.replace(&format!(" {seconds} s, "), " N s, ");
        }
    }
    panic!("never so far as {last_line}")
}

#[test]
fn a_hanging_machine_is_given_up() {
    let machine = Machine::new(HANG);
    assert_eq!(
        given_up(&machine, "--timeout", "hanging"),
        "not finished after N s, last console line: `hanging`; --timeout allows more"
    );
    assert_eq!(
        given_up(&machine, "--idle", "hanging"),
        "QEMU has used no CPU time for N s, last console line: `hanging`; --idle allows more"
    );
}

#[test]
fn a_chatty_hang_is_given_up_too() {
    let machine = Machine::new("echo $$ > \"${2%/*}/pid\"; exec yes");
    assert_eq!(
        given_up(&machine, "--timeout", "y"),
        "not finished after N s, last console line: `y`; --timeout allows more"
    );
}

#[test]
fn what_a_wrapper_started_is_gone_as_well() {
    let machine = Machine::new("sleep 100000 & echo $! > \"${2%/*}/pid\"; echo started");
    let output = machine.boot(&["--timeout", "10000"]);
    assert_exit(&output, 2);
    // Not a timeout: nothing waited for it.
    assert_eq!(stderr(&output), "error: the guest ended without finishing, last console line: `started`\n");
    // It is not a child of linmap, which kills it but cannot wait for it.
    wait_until(|| !machine.is_alive());
}

#[test]
fn signals_end_qemu_first() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let machine = Machine::new(HANG);
        let mut linmap = machine.command(&["--json"]).spawn().expect("linmap runs");
        let mut console = BufReader::new(linmap.stderr.take().expect("a pipe"));
        wait_for(&mut console, "hanging");
        kill_process(Pid::from_child(&linmap), signal).expect("linmap runs");
        let output = linmap.wait_with_output().expect("linmap ends");
        // Ended as by the signal: a shell then ends its loop.
        assert_eq!(output.status.signal(), Some(signal.as_raw()));
        assert!(!machine.is_alive(), "{signal:?}");
        assert_eq!(document(&output)["error"], "interrupted", "{signal:?}");
        let mut rest = String::new();
        console.read_to_string(&mut rest).expect("stderr is UTF-8");
        assert_eq!(rest, "error: interrupted\n", "{signal:?}");
    }
}

#[test]
fn a_signal_is_heard_while_nobody_reads() {
    let machine = Machine::new("echo $$ > \"${2%/*}/pid\"; exec yes");
    let linmap = machine.command(&[]).spawn().expect("linmap runs");
    wait_until(|| machine.file("pid").exists() && machine.is_alive());
    // Long enough for the pipe to be full.
    std::thread::sleep(Duration::from_millis(200));
    kill_process(Pid::from_child(&linmap), Signal::INT).expect("linmap runs");
    wait_until(|| !machine.is_alive());
    let output = ended(linmap);
    assert_eq!(output.status.signal(), Some(Signal::INT.as_raw()));
    assert_eq!(stderr(&output), "error: interrupted\n");
}

#[test]
fn a_closed_stdout_is_no_error() {
    let machine = Machine::new("echo $$ > \"${2%/*}/pid\"; exec yes");
    let mut linmap = machine.command(&[]).spawn().expect("linmap runs");
    let mut console = BufReader::new(linmap.stdout.take().expect("a pipe"));
    wait_for(&mut console, "y");
    drop(console);
    let output = ended(linmap);
    assert_exit(&output, 0);
    assert_eq!(stderr(&output), "");
    assert!(!machine.is_alive());
}

#[test]
fn a_closed_stdout_at_the_summary_is_no_error() {
    let wait = r#"while [ ! -e "${2%/*}/closed" ]; do sleep 0.01; done"#;
    for options in [&["--json"][..], &[]] {
        let machine = Machine::new(&format!("{wait}\n{}", GOOD.replace("bye\n", "")));
        let mut linmap = machine.command(options).spawn().expect("linmap runs");
        drop(linmap.stdout.take());
        std::fs::write(machine.file("closed"), "").expect("a file");
        let output = ended(linmap);
        assert_exit(&output, 0);
        assert!(!stderr(&output).contains("error"), "{}", stderr(&output));
    }
}

#[test]
fn qemu_dies_with_a_reason() {
    let output = boot("echo 'qemu: no such machine' >&2; exit 1", &[]);
    assert_exit(&output, 2);
    assert_data_eq!(
        stderr(&output),
        str![[r#"
error: QEMU failed with exit status 1:
qemu: no such machine
it was started as: [..]/fake-qemu -M virt,[..] -append 'pagesize=4k [..] run=dump'

"#]]
    );
}

#[test]
fn qemu_is_killed_by_another() {
    let output = boot("echo started; kill -9 $$", &["--json"]);
    assert_exit(&output, 2);
    let error = document(&output)["error"].to_string();
    assert!(error.starts_with("\"QEMU was killed by signal 9 and said nothing"), "{error}");
}

#[test]
fn what_qemu_mutters_is_passed_on_where_it_may_help() {
    let output = boot(&format!("echo 'warning: slow' >&2\n{GOOD}"), &[]);
    assert_exit(&output, 0);
    assert_eq!(stderr(&output), "");
    let output = boot("echo 'warning: slow' >&2; echo one", &[]);
    assert_exit(&output, 2);
    assert_data_eq!(
        stderr(&output),
        str![[r#"
note: QEMU says: warning: slow
error: the guest ended without finishing, last console line: `one`

"#]]
    );
}

/// Reads lines until the expected one.
fn wait_for(lines: &mut impl BufRead, expected: &str) {
    let mut line = String::new();
    while line.trim_end() != expected {
        line.clear();
        assert_ne!(lines.read_line(&mut line).expect("UTF-8"), 0, "{expected:?} never came");
    }
}

/// Waits without a limit, as the host can be busy.
fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the output of a process that ends without being read.
fn ended(mut linmap: Child) -> Output {
    let status = linmap.wait().expect("linmap ends");
    let mut stderr = Vec::new();
    linmap.stderr.take().expect("a pipe").read_to_end(&mut stderr).expect("stderr");
    Output { status, stdout: Vec::new(), stderr }
}
