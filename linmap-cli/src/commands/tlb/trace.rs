//! Recorded traces: the project's own format, Valgrind's lackey, QEMU's execlog. What they look like is in
//! docs/tlb.md. A line that makes no sense ends the run, by file and line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::printable::excerpt;

/// What a trace looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As its first lines look
    Auto,
    /// `linmap-trace 1 virtual` or `linmap-trace 1 physical`, then `R ADDRESS [BYTES]` and `W ADDRESS [BYTES]`
    Linmap,
    /// valgrind --tool=lackey --trace-mem=yes
    Lackey,
    /// qemu -plugin libexeclog.so
    Execlog,
}

/// One access of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) address: Address,
    pub(crate) bytes: u64,
    /// Once, or twice for a read and a write in one.
    pub(crate) times: u64,
}

/// What an address counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// In an address space of its own: each page has whatever memory it is given.
    Virtual(u64),
    /// In the machine's RAM.
    Physical(u64),
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },

    #[error("`{}`:{line}: `{text}`: {right}", path.display())]
    Line { path: PathBuf, line: u64, text: String, right: &'static str },

    #[error("`{}` has no access to data in {lines} lines; {right}", path.display())]
    Nothing { path: PathBuf, lines: u64, right: &'static str },
}

const OWN: &str = "`R ADDRESS [BYTES]` or `W ADDRESS [BYTES]` is right, such as R 0x7f001040 8";
const HEADER: &str = "`linmap-trace 1 virtual` or `linmap-trace 1 physical` is right for the first line";
const LACKEY: &str = "` L ADDRESS,BYTES` is right, or S, M or I, such as ` L 1ffefff7e0,8`";
const EXECLOG: &str =
    "`CPU, PC, CODE, \"INSTRUCTION\"` is right, with `, load, ADDRESS` or `, store, ADDRESS` behind it";
const UNKNOWN: &str = "no format is known that looks like this; --trace-format names one of linmap, lackey and \
                       execlog";
const TOO_LONG: &str = "the line is longer than 64K";
/// An access is at most so large: a cache operation.
const MOST_BYTES: u64 = 4096;
const LONGEST: usize = 64 << 10;

/// Calls `each` for every access of a trace, with its line, until that says why it cannot be.
pub(crate) fn read(
    path: &Path,
    format: Format,
    mut each: impl FnMut(Access) -> Result<bool, &'static str>,
) -> Result<(), TraceError> {
    let unreadable = |error| TraceError::Unreadable { path: path.to_owned(), error };
    let mut lines = BufReader::with_capacity(1 << 20, File::open(path).map_err(unreadable)?);
    let mut parser = Parser { format, physical: None };
    let (mut text, mut number, mut accesses) = (Vec::new(), 0u64, 0u64);
    loop {
        text.clear();
        let length = io::Read::by_ref(&mut lines).take_until_newline(&mut text).map_err(unreadable)?;
        if length == 0 {
            break;
        }
        number += 1;
        let wrong = |right| TraceError::Line {
            path: path.to_owned(),
            line: number,
            text: excerpt(&String::from_utf8_lossy(&text[..text.len().min(400)]), 80),
            right,
        };
        if text.len() > LONGEST {
            return Err(wrong(TOO_LONG));
        }
        let line = std::str::from_utf8(&text).map_err(|_| wrong("text is right"))?;
        let mut going = Ok(true);
        parser
            .line(line, &mut |access| {
                accesses += 1;
                if matches!(going, Ok(true)) {
                    going = each(access);
                }
            })
            .map_err(wrong)?;
        if !going.map_err(wrong)? {
            return Ok(());
        }
    }
    match accesses {
        0 => Err(TraceError::Nothing { path: path.to_owned(), lines: number, right: UNKNOWN }),
        _ => Ok(()),
    }
}

/// Reads one line, however long, but keeps no more than a bit over the limit.
trait Lines {
    fn take_until_newline(&mut self, into: &mut Vec<u8>) -> io::Result<usize>;
}

impl<R: BufRead> Lines for R {
    fn take_until_newline(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        io::Read::take(self, LONGEST as u64 + 2).read_until(b'\n', into)
    }
}

/// What is known of a trace so far.
struct Parser {
    format: Format,
    /// What the header of an own trace says of its addresses.
    physical: Option<bool>,
}

impl Parser {
    /// Takes one line apart.
    fn line(&mut self, line: &str, each: &mut dyn FnMut(Access)) -> Result<(), &'static str> {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') || text.starts_with("==") {
            return Ok(());
        }
        if self.format == Format::Auto {
            self.format = guess(text).ok_or(UNKNOWN)?;
        }
        match self.format {
            Format::Auto => Err(UNKNOWN),
            Format::Linmap => self.own(text, each),
            Format::Lackey => lackey(line, each),
            Format::Execlog => execlog(text, each),
        }
    }

    fn own(&mut self, text: &str, each: &mut dyn FnMut(Access)) -> Result<(), &'static str> {
        let mut words = text.split_ascii_whitespace();
        let Some(physical) = self.physical else {
            self.physical = match (words.next(), words.next(), words.next(), words.next()) {
                (Some("linmap-trace"), Some("1"), Some("virtual"), None) => Some(false),
                (Some("linmap-trace"), Some("1"), Some("physical"), None) => Some(true),
                _ => return Err(HEADER),
            };
            return Ok(());
        };
        let kind = words.next();
        let address =
            words.next().and_then(|word| word.strip_prefix("0x")).and_then(hexadecimal).ok_or(OWN)?;
        let bytes = words.next().map_or(Some(8), decimal).ok_or(OWN)?;
        if !matches!(kind, Some("R" | "W")) || words.next().is_some() {
            return Err(OWN);
        }
        let address = if physical { Address::Physical(address) } else { Address::Virtual(address) };
        each(Access { address, bytes, times: 1 });
        Ok(())
    }
}

/// What the first line of a trace looks like.
fn guess(text: &str) -> Option<Format> {
    let first = text.split_ascii_whitespace().next()?;
    match first {
        "linmap-trace" => Some(Format::Linmap),
        "I" | "L" | "S" | "M" if text.contains(',') => Some(Format::Lackey),
        _ if execlog(text, &mut |_| {}).is_ok() => Some(Format::Execlog),
        _ => None,
    }
}

/// `I  04001090,3`, ` L 1ffefff7e0,8`.
fn lackey(line: &str, each: &mut dyn FnMut(Access)) -> Result<(), &'static str> {
    let (kind, rest) = line.trim().split_once(' ').ok_or(LACKEY)?;
    let (address, bytes) = rest.trim().split_once(',').ok_or(LACKEY)?;
    let (address, bytes) = (hexadecimal(address).ok_or(LACKEY)?, decimal(bytes).ok_or(LACKEY)?);
    let times = match kind {
        "I" => return Ok(()),
        "L" | "S" => 1,
        "M" => 2,
        _ => return Err(LACKEY),
    };
    each(Access { address: Address::Virtual(address), bytes, times });
    Ok(())
}

/// `0, 0xffff800080010000, 0xf9400000, "ldr x0, [x0]", load, 0x40102030, RAM`: what the last field is decides
/// what the one before counts.
fn execlog(text: &str, each: &mut dyn FnMut(Access)) -> Result<(), &'static str> {
    let (head, rest) = text.split_once('"').ok_or(EXECLOG)?;
    let mut head = head.split(',').map(str::trim);
    let cpu = head.next().and_then(|word| word.parse::<u32>().ok());
    let numbers = head.filter(|word| !word.is_empty()).map(|word| hexadecimal(word.strip_prefix("0x")?));
    if cpu.is_none() || numbers.collect::<Option<Vec<_>>>().is_none_or(|numbers| numbers.len() != 2) {
        return Err(EXECLOG);
    }
    // An instruction's text has no quotes in it.
    let (_, memory) = rest.split_once('"').ok_or(EXECLOG)?;
    let mut fields = memory.split(',').map(str::trim).filter(|field| !field.is_empty()).peekable();
    while let Some(kind) = fields.next() {
        if !matches!(kind, "load" | "store") {
            return Err(EXECLOG);
        }
        let address =
            fields.next().and_then(|word| word.strip_prefix("0x")).and_then(hexadecimal).ok_or(EXECLOG)?;
        let device = fields.next_if(|field| !matches!(*field, "load" | "store"));
        let address = match device {
            None => Address::Virtual(address),
            Some("RAM") => Address::Physical(address),
            // A device's registers are not in the linear map.
            Some(_) => continue,
        };
        each(Access { address, bytes: 8, times: 1 });
    }
    Ok(())
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let all = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if all { u64::from_str_radix(digits, 16).ok() } else { None }
}

fn decimal(digits: &str) -> Option<u64> {
    let all = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|bytes| all && (1..=MOST_BYTES).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    fn parsed(format: Format, text: &str) -> Result<Vec<Access>, String> {
        let (mut parser, mut all) = (Parser { format, physical: None }, Vec::new());
        for (index, line) in text.lines().enumerate() {
            let done = parser.line(line, &mut |access| all.push(access));
            done.map_err(|right| format!("{}: {right}", index + 1))?;
        }
        Ok(all)
    }

    const fn once(address: Address, bytes: u64) -> Access {
        Access { address, bytes, times: 1 }
    }

    #[test]
    fn formats_are_known_by_their_first_lines() {
        let own = "# by me\nlinmap-trace 1 physical\nR 0x40000000\nW 0x40001000 64\n";
        let expected = [once(Address::Physical(0x4000_0000), 8), once(Address::Physical(0x4000_1000), 64)];
        assert_eq!(parsed(Format::Auto, own), Ok(expected.to_vec()));
        let lackey = "==12== Lackey\nI  04001090,3\n L 1ffefff7e0,8\n S 04222cac,4\n M 0421c7cc,4\n";
        let expected = [
            once(Address::Virtual(0x1f_feff_f7e0), 8),
            once(Address::Virtual(0x0422_2cac), 4),
            Access { address: Address::Virtual(0x0421_c7cc), bytes: 4, times: 2 },
        ];
        assert_eq!(parsed(Format::Auto, lackey), Ok(expected.to_vec()));
        let execlog = "0, 0xa12, 0xf8012400, \"movs r4, #0\"\n\
                       0, 0xa14, 0xf87f42b4, \"ldr r0, [r1, #4]\", load, 0x40001e8c, RAM\n\
                       1, 0xa18, 0xd4, \"swp\", load, 0x10, store, 0x18\n\
                       0, 0xa1c, 0xd5, \"str\", store, 0x09000000, pl011\n";
        let expected = [
            once(Address::Physical(0x4000_1e8c), 8),
            once(Address::Virtual(0x10), 8),
            once(Address::Virtual(0x18), 8),
        ];
        assert_eq!(parsed(Format::Auto, execlog), Ok(expected.to_vec()));
    }

    #[test]
    fn broken_lines_say_what_would_be_right() {
        let said = |text: &str| parsed(Format::Auto, text).expect_err(text);
        assert!(said("hello world").starts_with("1: no format is known"), "{}", said("hello world"));
        assert!(said("linmap-trace 2 virtual").starts_with("1: `linmap-trace 1 virtual` or"));
        for line in
            ["R", "X 0x10", "R 10", "R 0x", "R 0x10 0", "R 0x10 9999", "R 0x10 8 8", "R 0x1_0", "R 0x+1"]
        {
            let text = format!("linmap-trace 1 virtual\n{line}");
            assert!(said(&text).starts_with("2: `R ADDRESS [BYTES]`"), "{line}: {}", said(&text));
        }
        assert!(said(" L 10,8\n Q 10,8").starts_with("2: ` L ADDRESS,BYTES`"));
        assert!(said(" L 10,8\n L 10;8").starts_with("2: ` L ADDRESS,BYTES`"));
        assert!(said("0, 0x1, 0x2, \"nop\"\n0, 0x1, \"nop\"").starts_with("2: `CPU, PC, CODE"));
        assert!(said("0, 0x1, 0x2, \"nop\"\n0, 0x1, 0x2, \"ldr\", load, x").starts_with("2: `CPU, PC, CODE"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            for format in Format::value_variants() {
                let _ = parsed(*format, &text);
            }
        }

        #[test]
        fn no_line_panics(text in "([0-3], 0x[0-9a-f]{0,20}, 0x1, \"x\"(, load|, 0x[0-9a-f]{0,18}|, RAM){0,4}\n){1,3}") {
            let _ = parsed(Format::Execlog, &text);
        }
    }
}
