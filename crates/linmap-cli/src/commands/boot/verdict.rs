//! Judges a run. Pure: of several things that are wrong, the most telling one is the failure.

use super::failure::Failure;
use super::supervise::{Ending, Run};
use super::transcript::Transcript;
use crate::printable::excerpt;
use crate::status::Status;

/// Returns fine or findings if the kernel finished, and a failure in every other case.
pub(crate) fn judge(run: &Run) -> Result<Status, Failure> {
    let transcript = &run.transcript;
    match &run.ending {
        Ending::ReaderLeft => Ok(Status::Fine),
        Ending::Interrupted(signal) => Err(Failure::Interrupted(*signal)),
        Ending::NotShown(error) => Err(Failure::Output(error.to_string())),
        Ending::TimedOut(after) => {
            Err(Failure::TimedOut { seconds: after.as_secs(), last_line: transcript.last_line() })
        }
        Ending::Idle(time) => {
            Err(Failure::Idle { seconds: time.as_secs(), last_line: transcript.last_line() })
        }
        Ending::Exited(exit) if !exit.success() => Err(Failure::QemuDied {
            exit: *exit,
            complaints: run.complaints.clone(),
            command: run.command.clone(),
        }),
        Ending::Exited(_) => judge_kernel(transcript),
    }
}

/// Judges a kernel that switched the machine off.
fn judge_kernel(transcript: &Transcript) -> Result<Status, Failure> {
    let document = &transcript.document;
    if let Some(fault) = document.at("/fault") {
        let text = fault.as_str().map_or_else(|| fault.to_string(), str::to_owned);
        return Err(Failure::Fault(excerpt(&text, 400)));
    }
    if let Some((count, first)) = transcript.malformed_lines() {
        return Err(Failure::Malformed { count, first: first.to_owned() });
    }
    match (document.flag("/finished"), document.flag("/ok")) {
        (Some(true), Some(true)) => Ok(Status::Fine),
        (Some(true), Some(false)) => Ok(Status::Findings),
        (Some(true), None) => Err(Failure::NoVerdict),
        _ => Err(Failure::Unfinished { last_line: transcript.last_line() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::boot::console::Piece;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    fn run(ending: Ending, lines: &[&str]) -> Run {
        let mut transcript = Transcript::default();
        for line in lines {
            transcript.take(Piece::Document(line.as_bytes().to_vec()));
        }
        Run { ending, transcript, complaints: "why\n".into(), command: "qemu -x".into() }
    }

    /// Returns the verdict in words.
    fn verdict(ending: Ending, lines: &[&str]) -> String {
        match judge(&run(ending, lines)) {
            Ok(status) => format!("{status:?}"),
            Err(failure) => failure.to_string(),
        }
    }

    fn exited(wait_status: i32) -> Ending {
        Ending::Exited(ExitStatus::from_raw(wait_status))
    }

    #[test]
    fn a_kernel_that_finished_decides_itself() {
        assert_eq!(verdict(exited(0), &[r#"{"finished":true,"ok":true}"#]), "Fine");
        assert_eq!(verdict(exited(0), &[r#"{"finished":true,"ok":false}"#]), "Findings");
        assert!(verdict(exited(0), &[r#"{"finished":true,"ok":"yes"}"#]).contains("lacks `ok`"));
    }

    #[test]
    fn one_that_did_not_is_a_failure() {
        assert_eq!(
            verdict(exited(0), &[]),
            "the guest ended without finishing, with an empty console; is this an arm64 CPU that can run it?"
        );
        let fault = r#"{"finished":false,"ok":false,"fault":"data abort"}"#;
        assert_eq!(verdict(exited(0), &[fault]), "the kernel faulted: data abort");
        let other = r#"{"finished":true,"ok":true,"fault":{"esr":1}}"#;
        assert_eq!(verdict(exited(0), &[other]), r#"the kernel faulted: {"esr":1}"#);
    }

    #[test]
    fn a_bad_line_spoils_a_good_run() {
        let text = verdict(exited(0), &["{", r#"{"finished":true,"ok":true}"#]);
        assert!(text.starts_with("malformed `linmap: ` lines on the console: 1;"), "{text}");
    }

    #[test]
    fn how_it_ended_comes_before_what_it_said() {
        let good = [r#"{"finished":true,"ok":true}"#];
        assert_eq!(verdict(Ending::Interrupted(2), &good), "interrupted");
        assert!(
            verdict(Ending::TimedOut(Duration::from_secs(3)), &good).starts_with("not finished after 3 s")
        );
        let died = verdict(exited(1 << 8), &good);
        assert_eq!(died, "QEMU failed with exit status 1:\nwhy\nit was started as: qemu -x");
        assert!(verdict(exited(9), &good).starts_with("QEMU was killed by signal 9"));
    }
}
