//! Lines of traces: the project's own format, Valgrind's lackey, QEMU's execlog.

use super::line::{Access, Address, TraceFormat, TraceProblem};

/// An access covers at most so many bytes: a cache operation.
const MAX_BYTES: u64 = 4096;

const OWN: TraceProblem =
    TraceProblem::Malformed("`R ADDRESS [BYTES]` or `W ADDRESS [BYTES]` is right, such as R 0x7f001040 8");
const HEADER: TraceProblem = TraceProblem::Malformed(
    "`linmap-trace 1 virtual` or `linmap-trace 1 physical` is right for the first line",
);
const LACKEY: TraceProblem =
    TraceProblem::Malformed("` L ADDRESS,BYTES` is right, or S, M or I, such as ` L 1ffefff7e0,8`");
const EXECLOG: TraceProblem = TraceProblem::Malformed(
    "`CPU, PC, CODE, \"INSTRUCTION\"` is right, with `, load, ADDRESS` or `, store, ADDRESS` after it",
);

/// Parses a trace line by line.
pub(super) struct Parser {
    format: TraceFormat,
    /// True if the header of a trace in the project's own format says that addresses are physical.
    physical: Option<bool>,
}

impl Parser {
    pub(super) const fn new(format: TraceFormat) -> Self {
        Self { format, physical: None }
    }

    /// Calls `each` for every access of one line.
    pub(super) fn line(&mut self, line: &str, each: &mut dyn FnMut(Access)) -> Result<(), TraceProblem> {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') || text.starts_with("==") {
            return Ok(());
        }
        if self.format == TraceFormat::Auto {
            self.format = detect(text).ok_or(TraceProblem::UnknownFormat)?;
        }
        match self.format {
            TraceFormat::Auto => Err(TraceProblem::UnknownFormat),
            TraceFormat::Linmap => self.own(text, each),
            TraceFormat::Lackey => lackey(line, each),
            TraceFormat::Execlog => execlog(text, each),
        }
    }

    fn own(&mut self, text: &str, each: &mut dyn FnMut(Access)) -> Result<(), TraceProblem> {
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

/// Returns the format whose lines look like this first one.
fn detect(text: &str) -> Option<TraceFormat> {
    let first = text.split_ascii_whitespace().next()?;
    match first {
        "linmap-trace" => Some(TraceFormat::Linmap),
        "I" | "L" | "S" | "M" if text.contains(',') => Some(TraceFormat::Lackey),
        _ if execlog(text, &mut |_| {}).is_ok() => Some(TraceFormat::Execlog),
        _ => None,
    }
}

/// Reads a line of lackey: `I  04001090,3`, ` L 1ffefff7e0,8`.
fn lackey(line: &str, each: &mut dyn FnMut(Access)) -> Result<(), TraceProblem> {
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

/// Reads a line of execlog: `0, 0xffff800080010000, 0xf9400000, "ldr x0, [x0]", load, 0x40102030, RAM`. The last field
/// decides whether the address is virtual, in RAM, or a device's.
fn execlog(text: &str, each: &mut dyn FnMut(Access)) -> Result<(), TraceProblem> {
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
    digits.parse().ok().filter(|bytes| all && (1..=MAX_BYTES).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    fn parsed(format: TraceFormat, text: &str) -> Result<Vec<Access>, String> {
        let (mut parser, mut all) = (Parser::new(format), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let done = parser.line(line, &mut |access| all.push(access));
            done.map_err(|problem| format!("{}: {problem}", index + 1))?;
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
        assert_eq!(parsed(TraceFormat::Auto, own), Ok(expected.to_vec()));
        let lackey = "==12== Lackey\nI  04001090,3\n L 1ffefff7e0,8\n S 04222cac,4\n M 0421c7cc,4\n";
        let expected = [
            once(Address::Virtual(0x1f_feff_f7e0), 8),
            once(Address::Virtual(0x0422_2cac), 4),
            Access { address: Address::Virtual(0x0421_c7cc), bytes: 4, times: 2 },
        ];
        assert_eq!(parsed(TraceFormat::Auto, lackey), Ok(expected.to_vec()));
        let execlog = "0, 0xa12, 0xf8012400, \"movs r4, #0\"\n\
                       0, 0xa14, 0xf87f42b4, \"ldr r0, [r1, #4]\", load, 0x40001e8c, RAM\n\
                       1, 0xa18, 0xd4, \"swp\", load, 0x10, store, 0x18\n\
                       0, 0xa1c, 0xd5, \"str\", store, 0x09000000, pl011\n";
        let expected = [
            once(Address::Physical(0x4000_1e8c), 8),
            once(Address::Virtual(0x10), 8),
            once(Address::Virtual(0x18), 8),
        ];
        assert_eq!(parsed(TraceFormat::Auto, execlog), Ok(expected.to_vec()));
    }

    #[test]
    fn errors_name_the_line_and_the_right_form() {
        let said = |text: &str| parsed(TraceFormat::Auto, text).expect_err(text);
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

    /// Counts the accesses of a line of execlog by the shape of its fields.
    fn accesses(line: &str) -> Option<usize> {
        let letter = |word: &str| {
            if word == "load" {
                'L'
            } else if word == "RAM" {
                'R'
            } else {
                'A'
            }
        };
        let shape: String = line.split(", ").skip(4).map(letter).collect();
        let mut loads = shape.split('L');
        // After a load: its address, and at most one word more, which is RAM or a device.
        let whole = loads.next() == Some("") && loads.clone().all(|after| matches!(after, "A" | "AR" | "AA"));
        whole.then(|| loads.filter(|after| *after != "AA").count())
    }

    proptest! {
        /// Text at random has the form of no line.
        #[test]
        fn any_text_is_passed_over_or_refused_with_the_right_form(text: String) {
            let words = text.trim();
            let is_comment = words.is_empty() || words.starts_with('#') || words.starts_with("==");
            prop_assert_eq!(parsed(TraceFormat::Auto, &text).is_ok(), is_comment);
            for (format, right) in
                [(TraceFormat::Linmap, HEADER), (TraceFormat::Lackey, LACKEY), (TraceFormat::Execlog, EXECLOG)]
            {
                let expected = if is_comment { Ok(Vec::new()) } else { Err(format!("1: {right}")) };
                prop_assert_eq!(parsed(format, &text), expected);
            }
        }

        #[test]
        fn accesses_read_back(
            list in prop::collection::vec((any::<u64>(), 1..=MAX_BYTES, any::<bool>()), 1..9), physical: bool,
        ) {
            let space = if physical { Address::Physical } else { Address::Virtual };
            let all = |of: fn(u64) -> Address, whole: bool| -> Vec<Access> {
                list.iter().map(|&(at, bytes, _)| once(of(at), if whole { bytes } else { 8 })).collect()
            };
            let own = list.iter().map(|(at, bytes, store)| format!("{} {at:#x} {bytes}\n", if *store { 'W' } else { 'R' }));
            let own = format!("linmap-trace 1 {}\n", if physical { "physical" } else { "virtual" }) + &own.collect::<String>();
            prop_assert_eq!(parsed(TraceFormat::Auto, &own), Ok(all(space, true)));
            let lackey = list.iter().map(|(at, bytes, store)| format!(" {} {at:x},{bytes}\n", if *store { 'S' } else { 'L' }));
            prop_assert_eq!(parsed(TraceFormat::Auto, &lackey.collect::<String>()), Ok(all(Address::Virtual, true)));
            let place = if physical { ", RAM" } else { "" };
            let fields = list.iter().map(|(at, _, store)| format!(", {}, {at:#x}{place}", if *store { "store" } else { "load" }));
            let line = format!("0, 0x1, 0x2, \"x\"{}\n", fields.collect::<String>());
            prop_assert_eq!(parsed(TraceFormat::Auto, &line), Ok(all(space, false)));
        }

        #[test]
        fn a_line_of_execlog_has_as_many_accesses_as_loads(
            text in "[0-3], 0x[0-9a-f]{1,16}, 0x1, \"x\"(, load|, 0x[0-9a-f]{1,16}|, RAM|, load, 0x[0-9a-f]{1,16}){0,4}",
        ) {
            let found = parsed(TraceFormat::Execlog, &text).map(|all| all.len());
            prop_assert_eq!(found.ok(), accesses(&text));
        }
    }
}
