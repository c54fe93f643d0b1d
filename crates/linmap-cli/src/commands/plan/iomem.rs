//! `/proc/iomem`: what Linux says is where in physical memory.
//!
//! ```text
//! 40000000-33fffffff : System RAM
//!   40210000-41a5ffff : Kernel code
//!   41ed0000-425dffff : Kernel data
//!   fffff000-ffffffff : reserved
//! ```
//!
//! Two spaces more for what lies within. Only root is shown more than zeros.

use std::ops::Range;

use linmap::Pa;

use crate::printable::excerpt;

/// Resources that only an x86 machine has.
const X86: [&str; 6] = ["Local APIC", "IOAPIC", "System ROM", "Video ROM", "Adapter ROM", "PCI MMCONFIG"];

/// The parts of it that make a linear map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Iomem {
    pub(crate) ram: Vec<Range<Pa>>,
    pub(crate) reserved: Vec<Range<Pa>>,
    /// The kernel's code and constants.
    pub(crate) code: Option<Range<Pa>>,
    /// The whole kernel.
    pub(crate) kernel: Option<Range<Pa>>,
    pub(crate) crash: Option<Range<Pa>>,
}

/// Why a text is not the memory of an arm64 machine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IomemError {
    #[error("line {line}: `{text}` is no line of /proc/iomem; START-END : NAME is right, in hexadecimal")]
    Malformed { line: usize, text: String },

    #[error("line {line}: the range ends before it starts")]
    Reversed { line: usize },

    #[error("line {line}: `{name}` at {start:#x} overlaps what starts before it")]
    Overlap { line: usize, name: String, start: u64 },

    #[error("all {lines} addresses are zero: Linux shows them to root alone; read /proc/iomem with sudo")]
    Zeros { lines: usize },

    #[error("line {line}: only x86 machines have `{name}`; the map that is planned is one of arm64")]
    X86 { line: usize, name: &'static str },

    #[error("no line of it is `System RAM`; /proc/iomem of a running Linux has some")]
    NoRam,

    #[error("it is empty; /proc/iomem of a running Linux has lines such as `40000000-bfffffff : System RAM`")]
    Empty,
}

/// One line.
struct Resource<'a> {
    depth: usize,
    range: Range<Pa>,
    name: &'a str,
}

/// Reads the whole text.
pub(crate) fn read(text: &str) -> Result<Iomem, IomemError> {
    let lines = || text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let used: Vec<_> = lines().filter(|(_, line)| !line.trim().is_empty()).collect();
    if used.is_empty() {
        return Err(IomemError::Empty);
    }
    let mut iomem = Iomem::default();
    let mut in_ram = false;
    let mut zeros = true;
    for (line, text) in &used {
        let (line, resource) = (*line, resource(*line, text)?);
        if let Some(name) = X86.iter().find(|name| resource.name.starts_with(**name)) {
            return Err(IomemError::X86 { line, name });
        }
        zeros &= resource.range == (Pa(0)..Pa(1));
        if resource.depth == 0 {
            in_ram = resource.name == "System RAM";
        }
        if in_ram {
            iomem.take(line, &resource)?;
        }
    }
    match () {
        () if zeros => Err(IomemError::Zeros { lines: used.len() }),
        () if iomem.ram.is_empty() => Err(IomemError::NoRam),
        () => Ok(iomem),
    }
}

impl Iomem {
    /// Takes RAM, or a resource in RAM.
    fn take(&mut self, line: usize, resource: &Resource<'_>) -> Result<(), IomemError> {
        let range = resource.range.clone();
        match resource.name {
            "System RAM" if resource.depth == 0 => {
                // Zeros are judged for the whole text.
                if self.ram.last().is_some_and(|last| range.start < last.end && range.end != Pa(1)) {
                    let name = resource.name.to_owned();
                    return Err(IomemError::Overlap { line, name, start: range.start.0 });
                }
                self.ram.push(range);
            }
            "Kernel code" => {
                self.kernel = Some(joined(self.kernel.take(), &range));
                self.code = Some(range);
            }
            "Kernel data" | "Kernel bss" => self.kernel = Some(joined(self.kernel.take(), &range)),
            "Crash kernel" => self.crash = Some(range),
            "reserved" => self.reserved.push(range),
            _ => {}
        }
        Ok(())
    }
}

fn joined(known: Option<Range<Pa>>, range: &Range<Pa>) -> Range<Pa> {
    known.map_or(range.clone(), |known| known.start.min(range.start)..known.end.max(range.end))
}

fn resource(line: usize, text: &str) -> Result<Resource<'_>, IomemError> {
    let malformed = || IomemError::Malformed { line, text: excerpt(text, 60) };
    let (range, name) = text.split_once(" : ").ok_or_else(malformed)?;
    let depth = range.len() - range.trim_start_matches(' ').len();
    let (start, last) = range.trim().split_once('-').ok_or_else(malformed)?;
    let number = |digits: &str| match digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
        true => u64::from_str_radix(digits, 16).map_err(|_| malformed()),
        false => Err(malformed()),
    };
    let (start, last) = (number(start)?, number(last)?);
    if last < start {
        return Err(IomemError::Reversed { line });
    }
    Ok(Resource { depth, range: Pa(start)..Pa(last.saturating_add(1)), name: name.trim() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    const MACHINE: &str = "\
09000000-09000fff : pl011@9000000
  09000000-09000fff : 9000000.pl011 pl011@9000000
40000000-bfffffff : System RAM
  40210000-4192ffff : Kernel code
  41930000-41f7ffff : reserved
  41f80000-4266ffff : Kernel data
  9fe00000-bfdfffff : Crash kernel
c0000000-c00fffff : reserved
100000000-33fffffff : System RAM
";

    #[test]
    fn ram_and_what_lies_in_it() {
        let iomem = read(MACHINE).expect("a machine");
        assert_eq!(iomem.ram, [Pa(0x4000_0000)..Pa(0xc000_0000), Pa(0x1_0000_0000)..Pa(0x3_4000_0000)]);
        assert_eq!(iomem.code, Some(Pa(0x4021_0000)..Pa(0x4193_0000)));
        assert_eq!(iomem.kernel, Some(Pa(0x4021_0000)..Pa(0x4267_0000)));
        assert_eq!(iomem.crash, Some(Pa(0x9fe0_0000)..Pa(0xbfe0_0000)));
        assert_eq!(iomem.reserved, [Pa(0x4193_0000)..Pa(0x41f8_0000)]);
    }

    fn said(text: &str) -> String {
        read(text).expect_err("no machine").to_string()
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let zeros = "00000000-00000000 : System RAM\n  00000000-00000000 : Kernel code\n";
        assert!(
            said(zeros).starts_with("all 2 addresses are zero: Linux shows them to root"),
            "{}",
            said(zeros)
        );
        let x86 = "00001000-0009ffff : System RAM\nfec00000-fec003ff : IOAPIC 0\n";
        assert!(said(x86).starts_with("line 2: only x86 machines have `IOAPIC`"), "{}", said(x86));
        assert!(said("\n40000000 : System RAM").starts_with("line 2: `40000000 : System RAM` is no line"));
        assert!(said("2-1 : System RAM").starts_with("line 1: the range ends before it starts"));
        assert!(said("0-fff : nothing").starts_with("no line of it is `System RAM`"));
        assert!(said(" \n").starts_with("it is empty"));
        let twice = "0-ffff : System RAM\n8000-1ffff : System RAM\n";
        assert!(said(twice).starts_with("line 2: `System RAM` at 0x8000 overlaps"), "{}", said(twice));
    }

    /// Returns the line that an error names.
    fn place(text: &str) -> Option<usize> {
        read(text).err()?.to_string().strip_prefix("line ")?.split(':').next()?.parse().ok()
    }

    proptest! {
        /// Text at random is no line.
        #[test]
        fn any_text_is_refused(text: String) {
            let error = read(&text).expect_err("no machine").to_string();
            let expected = if text.trim().is_empty() { "it is empty" } else { "line 1: `" };
            prop_assert!(error.starts_with(expected) && !error.contains(char::is_control), "{}", error);
        }

        #[test]
        fn ram_reads_back(pieces in prop::collection::vec((1..1u64 << 40, 1..1u64 << 40, 0..9u64), 1..6)) {
            let (mut end, mut text, mut ram, mut reserved) = (0, String::new(), Vec::new(), Vec::new());
            for (gap, bytes, within) in pieces {
                let start = end + gap;
                end = start + bytes;
                text += &format!("{start:08x}-{:08x} : System RAM\n", end - 1);
                ram.push(Pa(start)..Pa(end));
                if within < bytes {
                    text += &format!("  {start:08x}-{:08x} : reserved\n", start + within);
                    reserved.push(Pa(start)..Pa(start + within + 1));
                }
            }
            prop_assert_eq!(read(&text), Ok(Iomem { ram, reserved, ..Iomem::default() }));
        }

        /// An error names the first line that cannot stay.
        #[test]
        fn lines_are_in_order_or_the_first_wrong_one_is_named(
            text in "( {0,2}([0-9a-f]{1,3}-[0-9a-f]{2,4}|[0-9a-fx-]{0,20}) : (System RAM|System RAM|Kernel code|Kernel data|reserved|IOAPIC)\n){0,6}",
        ) {
            if let Ok(iomem) = read(&text) {
                prop_assert!(iomem.ram.iter().chain(&iomem.reserved).all(|range| range.start < range.end));
                prop_assert!(iomem.ram.windows(2).all(|pair| pair[0].end <= pair[1].start));
                let kernel = iomem.kernel.unwrap_or(Pa(0)..Pa(0));
                let code = iomem.code.unwrap_or(kernel.clone());
                prop_assert!(kernel.start <= code.start && code.end <= kernel.end);
            }
            if let Some(line) = place(&text) {
                let lines: Vec<&str> = text.split_inclusive('\n').collect();
                prop_assert!((1..=lines.len()).contains(&line));
                prop_assert_eq!((place(&lines[..line - 1].concat()), place(&lines[..line].concat())), (None, Some(line)));
            }
        }
    }
}
