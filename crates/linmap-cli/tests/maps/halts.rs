//! A guest is halted while it is read, and no longer: not after the command is interrupted, and not by a slow
//! gdbstub. A guest that was halted before is so afterwards.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::core::debian;
use crate::guest::{Guest, Habits, QEMU};
use crate::run::linmap;
use crate::{monitor, stub};

/// Enough time on any host.
const LONG: [&str; 2] = ["--max-pause", "600"];

/// A guest with a monitor and nothing else.
struct Machine {
    guest: Arc<Guest>,
    /// The monitor, as a SOURCE.
    source: String,
    /// A directory for the command's files.
    directory: TempDir,
}

impl Machine {
    fn new(habits: Habits) -> Self {
        let directory = TempDir::new().expect("a directory");
        let guest = Arc::new(Guest::new(debian(), habits));
        let source = monitor::listen(&guest, &directory.path().join("qmp"));
        std::fs::create_dir(directory.path().join("tmp")).expect("a directory");
        Self { guest, source, directory }
    }

    fn files(&self) -> std::path::PathBuf {
        self.directory.path().join("tmp")
    }

    fn start(&self, source: &str, more: &[&str]) -> Child {
        start(&self.files(), source, more)
    }

    /// Fails unless everything is as before the command.
    fn expect_untouched(&self, what: &str) {
        assert!(self.guest.runs(), "{what}: the guest stands still");
        assert_eq!(self.guest.marks(), [""; 0], "{what}");
        assert!(!monitor::has_stub(&self.guest), "{what}: its gdbstub is still there");
        let left: Vec<_> = std::fs::read_dir(self.files()).expect("the directory").flatten().collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }
}

fn start(files: &Path, source: &str, more: &[&str]) -> Child {
    // Tests in the background of a shell ignore SIGINT, and so would their children.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM,USR1,ALRM", env!("CARGO_BIN_EXE_linmap")]);
    command.args(["stat", source]).args(more).env("TMPDIR", files);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("linmap runs")
}

fn interrupt(child: Child, signal: Signal) -> Output {
    let pid = Pid::from_child(&child);
    kill_process(pid, signal).expect("it has not been waited for");
    child.wait_with_output().expect("it ends")
}

/// The state at each signal: in the middle of the tables, of a stub that answers no more.
const STUCK: Habits = Habits { most_reads: 5, ..QEMU };

#[test]
fn a_guest_goes_on_when_the_command_is_interrupted() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::USR1, Signal::ALARM] {
        for by_port in [false, true] {
            let machine = Machine::new(STUCK);
            let source = &if by_port { stub::listen(&machine.guest) } else { machine.source.clone() };
            let child = machine.start(source, &LONG);
            machine.guest.wait_until_stuck();
            assert!(!machine.guest.runs());
            let ended = interrupt(child, signal);
            assert_eq!(ended.status.signal(), Some(signal.as_raw()), "{source}: {ended:?}");
            machine.expect_untouched(source);
        }
    }
}

/// 10 tries: at every moment, everything is left as it was.
#[test]
fn signals_at_random_moments() {
    test_support::each(1, signals_at_moments_of);
}

fn signals_at_moments_of(seed: u64) {
    let machine = Machine::new(QEMU);
    let by_port = stub::listen(&machine.guest);
    let begun = Instant::now();
    let whole = machine.start(&machine.source, &LONG).wait_with_output().expect("it ends");
    assert_eq!(whole.status.code(), Some(0), "{whole:?}");
    let time = begun.elapsed();
    let mut random = test_support::Random::new(seed);
    let mut killed = 0;
    for attempt in 0..10 {
        let source = if random.one_in(2) { &machine.source } else { &by_port };
        let signal = random.of(&[Signal::INT, Signal::TERM, Signal::HUP]);
        let child = machine.start(source, &LONG);
        std::thread::sleep(time.mul_f64(random.fraction()));
        let ended = interrupt(child, signal);
        killed += u32::from(ended.status.signal() == Some(signal.as_raw()));
        let known = ended.status.signal() == Some(signal.as_raw()) || ended.status.code() == Some(0);
        assert!(known, "try {attempt}: {ended:?}");
        machine.expect_untouched(&format!("try {attempt}, {source}"));
    }
    println!("{killed} of 10 ended by the signal");
}

/// A reader that stops after the first line.
#[test]
fn a_closed_pipe_leaves_no_guest_halted() {
    let machine = Machine::new(QEMU);
    let mut child = machine.start(&machine.source, &LONG);
    drop(child.stdout.take());
    assert_eq!(child.wait_with_output().expect("it ends").status.code(), Some(0));
    machine.expect_untouched("a closed pipe");
}

#[test]
fn signals_that_are_ignored_stay_ignored() {
    let machine = Machine::new(Habits { delay: Duration::from_millis(1), ..QEMU });
    let source = &machine.source;
    // Like nohup: the shell's `trap ''` is inherited.
    let line = format!("trap '' HUP; exec \"$0\" stat {source} --max-pause 600");
    let mut command = Command::new("sh");
    command.args(["-c", &line, env!("CARGO_BIN_EXE_linmap")]).env("TMPDIR", machine.files());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a shell");
    while machine.guest.runs() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(interrupt(child, Signal::HUP).status.code(), Some(0));
    machine.expect_untouched("nohup");
}

/// One limit for the whole halt, however the stub divides its time.
#[test]
fn a_slow_stub_does_not_hold_its_guest() {
    let dripping = Habits { delay: Duration::from_millis(100), ..QEMU };
    let silent = Habits { most_reads: 3, ..QEMU };
    for habits in [dripping, silent] {
        let machine = Machine::new(habits);
        let by_port = stub::listen(&machine.guest);
        for source in [&machine.source, &by_port] {
            let ran = linmap(&["stat", source, "--max-pause", "2s", "--json"]).exits(2);
            let why = ran.document()["error"].as_str().expect("an error").to_owned();
            assert!(why.contains("--max-pause") && why.contains("2 s"), "{source}: {why}");
            machine.expect_untouched(source);
            // The slow stub would take 100 s for all of it; the rest above 2 s is the delay of a busy host.
            let longest = machine.guest.longest_halt();
            assert!(longest < Duration::from_secs(60), "{source}: {habits:?}: {longest:?}");
        }
    }
}

/// The tables above those of pages were read: their facts are reported, and the missing ones as well.
#[test]
fn what_was_not_read_in_time_is_said() {
    let machine = Machine::new(Habits { most_reads: 12, ..QEMU });
    let ran = linmap(&["check", &machine.source, "--max-pause", "0.5", "--json"]).exits(2);
    let error = ran.document()["error"].as_str().expect("an error").to_owned();
    ran.says(&error).says("--max-pause");
    let ran = linmap(&["dump", &machine.source, "--max-pause", "500ms"]).exits(2);
    let stderr = ran.stderr();
    assert!(stderr.contains("cannot be read"), "{stderr}");
    machine.expect_untouched("dump");
    // All but the last table, which comes in two halves: the fixmap's.
    let machine = Machine::new(Habits { most_reads: 2 * Guest::new(debian(), QEMU).tables - 2, ..QEMU });
    let ran = linmap(&["check", &machine.source, "--max-pause", "15", "--json"]).exits(2);
    let document = ran.document();
    assert!(
        document["count"].is_u64() && document["error"].is_string(),
        "what was found so far: {document:#}"
    );
    ran.says(document["error"].as_str().expect("words")).says("--max-pause");
}

#[test]
fn a_guest_that_stood_still_does_so_afterwards() {
    let machine = Machine::new(QEMU);
    let by_port = stub::listen(&machine.guest);
    for source in [&machine.source, &by_port] {
        machine.guest.stop();
        let ran = linmap(&["stat", source, LONG[0], LONG[1]]).exits(0);
        assert!(!machine.guest.runs(), "{source}");
        assert!(!ran.stderr().contains("was paused for"), "{source}: {}", ran.stderr());
        let ran = linmap(&["stat", source, "--resume", LONG[0], LONG[1]]).exits(0);
        assert!(!ran.stderr().contains("earlier run"), "{}", ran.stderr());
        machine.expect_untouched(source);
    }
    // A stub that does not report a stop, like a newer QEMU's: the target may have run.
    let silent = Arc::new(Guest::new(debian(), Habits { tells: false, monitor: false, ..QEMU }));
    silent.stop();
    linmap(&["stat", &stub::listen(&silent), LONG[0], LONG[1]]).exits(0);
    assert!(silent.runs());
}

/// SIGKILL leaves a mark and a halted guest; the next run cleans up.
#[test]
fn a_guest_that_a_killed_run_left_halted_is_recognised() {
    for by_port in [false, true] {
        let machine = Machine::new(STUCK);
        let source = &if by_port { stub::listen(&machine.guest) } else { machine.source.clone() };
        let child = machine.start(source, &LONG);
        machine.guest.wait_until_stuck();
        let pid = child.id();
        interrupt(child, Signal::KILL);
        assert!(!machine.guest.runs() && !machine.guest.marks().is_empty(), "{source}");
        for _ in 0..2 {
            let ran = linmap(&["walk", source, "0", "--max-pause", "200ms"]).exits(2);
            let (stderr, named) = (ran.stderr(), format!("process {pid}"));
            assert!(stderr.contains(&named) && stderr.contains("--resume"), "{source}: {stderr}");
            assert!(!machine.guest.runs(), "{source}");
        }
        let ran = linmap(&["walk", source, "0", "--max-pause", "200ms", "--resume"]).exits(2);
        assert!(ran.stderr().contains("runs again"), "{source}: {}", ran.stderr());
        machine.expect_untouched(source);
    }
}
