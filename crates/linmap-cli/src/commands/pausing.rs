//! The options for halting a guest: for how long, and its state afterwards.

use std::time::Duration;

use clap::Args;

use crate::source::Pause;

/// The heading of these options in a help. `next_help_heading` would be that of the options after them as well.
const HEADING: &str = "Halting a guest (qemu: and gdb:)";

/// For `qemu:` and `gdb:`; other SOURCEs are not halted.
#[derive(Args, Clone, Copy)]
pub(crate) struct Pausing {
    /// The longest time that the guest is halted, in seconds such as 0.2 or as 200ms [default: 1]
    ///
    /// The guest is halted while its tables are read. When this time is over it runs again, whatever was read; the
    /// command then names the parts that it could not read and exits with 2. Tables of 1 GiB in 4K pages take about
    /// 20 ms through a gdbstub, and 1 ms if the guest's RAM can be read in another way.
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = HEADING)]
    max_pause: Option<Duration>,

    /// Let the guest run afterwards even if it was halted before
    ///
    /// A guest that was stopped stays stopped. A guest that an earlier linmap left halted, as it was killed while it
    /// read the guest, is recognised by a mark in QEMU (a character device `linmap-reads-PID`), and the command
    /// reports it; this option lets it run. If a stub does not tell whether its target ran, the target runs
    /// afterwards in any case.
    #[arg(long, help_heading = HEADING)]
    resume: bool,
}

impl From<Pausing> for Pause {
    fn from(pausing: Pausing) -> Self {
        Self { most: pausing.max_pause.unwrap_or(Duration::from_secs(1)), resume: pausing.resume }
    }
}

impl Pausing {
    /// Returns the name of an option that was given, if there is one.
    pub(crate) const fn given(self) -> Option<&'static str> {
        match (self.max_pause, self.resume) {
            (Some(_), _) => Some("--max-pause"),
            (None, true) => Some("--resume"),
            (None, false) => None,
        }
    }
}

/// Reads a time: `1`, `0.2`, `5s`, `200ms`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3f64),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0f64),
    };
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let seconds: Option<f64> = number.parse().ok().filter(|_| is_plain);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds * unit).ok());
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| "not a time above 0: write seconds, such as 1, 0.2 or 30s, or 200ms".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds() {
        let millis = |text| parse_time(text).map(|time| time.as_millis());
        for (text, expected) in [("1", 1000), ("0.2", 200), ("30s", 30_000), ("200ms", 200), ("1.5s", 1500)] {
            assert_eq!(millis(text), Ok(expected), "{text}");
        }
        for wrong in ["", "0", "-1", "+1", "s", "1m", "1e3", "inf", "nan", "1.2.3", ".5", "1 s", "0ms"] {
            assert!(millis(wrong).is_err(), "{wrong}");
        }
        assert!(parse_time("99999999999999999999999").is_err());
    }
}
