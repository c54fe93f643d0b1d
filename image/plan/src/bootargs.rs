//! Boot arguments: `key=value` words. None is fatal: unknown or malformed ones are reported and ignored.

use core::fmt;

use linmap::layout::ImageAlias;
use linmap::policy::SplitFallback;
use linmap::{Granule, Rodata};

use crate::tasks::{Task, TaskInfo};

/// The CPUs that claim never to abort: the argument `bbml2=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bbml2 {
    /// Each CPU as its MIDR says.
    #[default]
    Auto,
    /// Only so many, the boot CPU first, if their MIDRs say so: none with `off`, one with `boot-cpu`.
    First(u32),
}

impl fmt::Display for Bbml2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::First(0) => f.write_str("off"),
            Self::First(1) => f.write_str("boot-cpu"),
            Self::First(first) => first.fmt(f),
        }
    }
}

/// The boot arguments; `None` is the default of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BootArgs<'a> {
    /// `pagesize=4k|16k|64k`.
    pub page_size: Option<Granule>,
    /// `va_bits=36..52`.
    pub va_bits: Option<u32>,
    /// `rodata=full|on|noalias|off`.
    pub rodata: Rodata,
    /// `data=rw|ro|hidden`: the alias of the image's data and bss in the linear map.
    pub data: ImageAlias,
    /// `text=ro|hidden`: true if the alias of the image's code and constants is hidden, not only read-only.
    pub hides_text: bool,
    /// `bbml2=auto|off|boot-cpu|N`.
    pub bbml2: Bbml2,
    /// `split=pages|park`; without it `park` if a task measures, else `pages`.
    pub split: SplitFallback,
    /// `root=stays|moves`: true if the root table of the upper half stays where it is for ever.
    pub root_stays: bool,
    /// `cpus=N`: the number of CPUs that run, the boot CPU included.
    pub cpus: Option<u32>,
    /// `crashkernel=SIZE[@OFFSET]`.
    pub crashkernel: Option<Reservation>,
    /// `end=off|reset`: true if the machine is reset at the end, and not turned off.
    pub resets: bool,
    /// `run=NAME,NAME`: the tasks once the map is up.
    pub run: &'a str,
}

/// A size in bytes, and an address if one is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// Bytes.
    pub size: u64,
    /// The physical address of the first byte.
    pub at: Option<u64>,
}

/// A word of the boot arguments that is ignored, and what would be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ignored<'a> {
    /// The word as it stands there.
    pub word: &'a str,
    /// The right form.
    pub remedy: &'static str,
}

impl fmt::Display for Ignored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot argument '{}' ignored: {}", self.word.escape_debug(), self.remedy)
    }
}

const KNOWN: &str =
    "known are pagesize, va_bits, rodata, data, text, bbml2, split, root, cpus, crashkernel, end and run";
const KEYS: [&str; 12] = [
    "pagesize",
    "va_bits",
    "rodata",
    "data",
    "text",
    "bbml2",
    "root",
    "cpus",
    "crashkernel",
    "end",
    "run",
    SPLIT,
];
const SPLIT: &str = "split";

impl<'a> BootArgs<'a> {
    /// Iterates over the names of tasks in `run=`.
    pub fn tasks(&self) -> impl Iterator<Item = &'a str> {
        self.run.split(',').filter(|task| !task.is_empty())
    }

    /// Returns true if one of the tasks changes the linear map, for which RAM must be set aside.
    pub fn has_changing_task(&self) -> bool {
        self.tasks().any(|task| TaskInfo::parse(task).is_ok_and(|(info, _)| info.changes_the_map))
    }

    /// Returns true if one of the tasks measures.
    pub fn measures(&self) -> bool {
        self.tasks().any(|task| matches!(Task::parse(task), Ok(Task::Measure(_))))
    }

    /// Reads a command line. Of words that contradict each other the last wins. Calls `ignored` for each word that is
    /// not used.
    pub fn parse(line: &'a str, mut ignored: impl FnMut(Ignored<'a>)) -> Self {
        let mut args = Self { run: "dump", ..Self::default() };
        // The word in force, by key.
        let mut words = [None; KEYS.len()];
        for word in line.split_ascii_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if let Err(remedy) = args.set(key, value) {
                ignored(Ignored { word, remedy });
                continue;
            }
            let Some(in_force) = KEYS.iter().position(|k| *k == key).map(|i| &mut words[i]) else { continue };
            if let Some(word) = in_force.replace(word).filter(|earlier| *earlier != word) {
                ignored(Ignored { word, remedy: "another one follows, and the last wins" });
            }
        }
        let [.., split] = words;
        match split {
            Some(word) if args.rodata != Rodata::Full => {
                ignored(Ignored { word, remedy: "nothing is split unless rodata is full" });
            }
            // A measurement compares pages with large leaves, whether CPUs may abort or not.
            None if args.measures() => args.split = SplitFallback::Park,
            _ => {}
        }
        args
    }

    fn set(&mut self, key: &str, value: &'a str) -> Result<(), &'static str> {
        match key {
            "pagesize" => {
                self.page_size = Some(match value {
                    "4k" | "4K" => Granule::K4,
                    "16k" | "16K" => Granule::K16,
                    "64k" | "64K" => Granule::K64,
                    _ => return Err("page sizes are 4k, 16k and 64k"),
                });
            }
            "va_bits" => match value.parse() {
                Ok(bits @ 36..=52) => self.va_bits = Some(bits),
                _ => return Err("VA sizes are 36 to 52 bits"),
            },
            "rodata" => {
                self.rodata = match value {
                    "full" => Rodata::Full,
                    "on" | "noalias" => Rodata::On,
                    "off" => Rodata::Off,
                    _ => return Err("rodata is full, on (noalias) or off"),
                }
            }
            "data" => {
                let aliases = [ImageAlias::Writable, ImageAlias::ReadOnly, ImageAlias::Hidden];
                let named = ["rw", "ro", "hidden"].iter().position(|name| *name == value);
                self.data = aliases[named.ok_or("data is rw, ro or hidden")?];
            }
            "text" => {
                self.hides_text = match value {
                    "hidden" => true,
                    "ro" => false,
                    _ => return Err("text is ro or hidden"),
                }
            }
            "bbml2" => {
                self.bbml2 = match value {
                    "auto" => Bbml2::Auto,
                    "off" => Bbml2::First(0),
                    "boot-cpu" => Bbml2::First(1),
                    first => Bbml2::First(
                        first.parse().map_err(|_| "bbml2 is auto, off, boot-cpu or a number of CPUs")?,
                    ),
                }
            }
            SPLIT => {
                self.split = match value {
                    "pages" => SplitFallback::Pages,
                    "park" => SplitFallback::Park,
                    _ => return Err("split is pages or park"),
                }
            }
            "root" => {
                self.root_stays = match value {
                    "stays" => true,
                    "moves" => false,
                    _ => return Err("root is stays or moves"),
                }
            }
            "cpus" => match value.parse() {
                Ok(cpus @ 1..) => self.cpus = Some(cpus),
                _ => return Err("cpus is a number, 1 or more"),
            },
            "crashkernel" => {
                self.crashkernel =
                    Some(reservation(value).ok_or("crashkernel is SIZE[@OFFSET], as in 256M")?);
            }
            "end" => {
                self.resets = match value {
                    "reset" => true,
                    "off" => false,
                    _ => return Err("end is off or reset"),
                }
            }
            "run" => self.run = value,
            _ => return Err(KNOWN),
        }
        Ok(())
    }
}

/// Reads `SIZE[@OFFSET]`, each a number that K, M, G or T may follow.
fn reservation(text: &str) -> Option<Reservation> {
    let (size, at) = match text.split_once('@') {
        Some((size, at)) => (bytes(size)?, Some(bytes(at)?)),
        None => (bytes(text)?, None),
    };
    (size != 0).then_some(Reservation { size, at })
}

/// Reads a number of bytes, decimal or with 0x, and perhaps a unit.
fn bytes(text: &str) -> Option<u64> {
    let units = [(['k', 'K'], 10i32), (['m', 'M'], 20i32), (['g', 'G'], 30i32), (['t', 'T'], 40i32)];
    let with_unit = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = with_unit.unwrap_or((text, 0i32));
    let number = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    number.ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;
    use test_support::prelude::*;

    fn parse(line: &str) -> (BootArgs<'_>, Vec<String>) {
        let mut ignored = Vec::new();
        let args = BootArgs::parse(line, |i| ignored.push(i.to_string()));
        (args, ignored)
    }

    #[test]
    fn every_argument_is_understood() {
        let line = "pagesize=16k va_bits=47 rodata=noalias data=hidden text=hidden bbml2=off root=stays cpus=3 crashkernel=256M@0x50000000 end=reset run=dump,fault";
        let (args, ignored) = parse(line);
        assert_eq!(ignored, Vec::<String>::new());
        let crashkernel = Some(Reservation { size: 256 << 20, at: Some(0x5000_0000) });
        let expected = BootArgs {
            page_size: Some(Granule::K16),
            va_bits: Some(47),
            rodata: Rodata::On,
            data: ImageAlias::Hidden,
            hides_text: true,
            bbml2: Bbml2::First(0),
            split: SplitFallback::Pages,
            root_stays: true,
            cpus: Some(3),
            crashkernel,
            resets: true,
            run: "dump,fault",
        };
        assert_eq!(args, expected);
        assert_eq!(parse("").0, BootArgs { run: "dump", ..BootArgs::default() });
    }

    #[test]
    fn what_is_wrong_is_named_and_the_rest_holds() {
        let (args, ignored) = parse(
            "pagesize=8k va_bits=99 frobnicate pagesize=64k crashkernel=0 split=live cpus=0 bbml2=some root=here data=off text=rw end=now",
        );
        assert_eq!(args.page_size, Some(Granule::K64));
        assert_eq!(
            ignored,
            [
                "boot argument 'pagesize=8k' ignored: page sizes are 4k, 16k and 64k",
                "boot argument 'va_bits=99' ignored: VA sizes are 36 to 52 bits",
                "boot argument 'frobnicate' ignored: known are pagesize, va_bits, rodata, data, text, bbml2, split, root, cpus, crashkernel, end and run",
                "boot argument 'crashkernel=0' ignored: crashkernel is SIZE[@OFFSET], as in 256M",
                "boot argument 'split=live' ignored: split is pages or park",
                "boot argument 'cpus=0' ignored: cpus is a number, 1 or more",
                "boot argument 'bbml2=some' ignored: bbml2 is auto, off, boot-cpu or a number of CPUs",
                "boot argument 'root=here' ignored: root is stays or moves",
                "boot argument 'data=off' ignored: data is rw, ro or hidden",
                "boot argument 'text=rw' ignored: text is ro or hidden",
                "boot argument 'end=now' ignored: end is off or reset",
            ]
        );
    }

    #[test]
    fn of_contradictions_the_last_wins_and_the_others_are_named() {
        let line =
            "pagesize=4k pagesize=64k pagesize=4K pagesize=3k crashkernel=1M crashkernel=1M run=a run=b";
        let (args, ignored) = parse(line);
        assert_eq!((args.page_size, args.run), (Some(Granule::K4), "b"));
        assert_eq!(args.crashkernel, Some(Reservation { size: 1 << 20, at: None }));
        assert_eq!(
            ignored,
            [
                "boot argument 'pagesize=4k' ignored: another one follows, and the last wins",
                "boot argument 'pagesize=64k' ignored: another one follows, and the last wins",
                "boot argument 'pagesize=3k' ignored: page sizes are 4k, 16k and 64k",
                "boot argument 'run=a' ignored: another one follows, and the last wins",
            ]
        );
    }

    #[test]
    fn who_claims_and_how_to_split() {
        for (word, bbml2) in [("auto", Bbml2::Auto), ("off", Bbml2::First(0)), ("boot-cpu", Bbml2::First(1))]
        {
            assert_eq!(parse(&std::format!("bbml2={word}")).0.bbml2, bbml2);
            assert_eq!(bbml2.to_string(), word);
        }
        assert_eq!(parse("bbml2=3").0.bbml2, Bbml2::First(3));
        assert_eq!(Bbml2::First(3).to_string(), "3");
        assert_eq!(parse("split=park").0.split, SplitFallback::Park);
    }

    #[test]
    fn a_measurement_splits_by_parking_unless_told_otherwise() {
        for (line, split) in [
            ("run=measure", SplitFallback::Park),
            ("run=dump,measure:full end=reset", SplitFallback::Park),
            ("run=measure split=pages", SplitFallback::Pages),
            ("run=measure run=selftest", SplitFallback::Pages),
            ("run=measured", SplitFallback::Pages),
        ] {
            assert_eq!(parse(line).0.split, split, "{line}");
        }
        assert_eq!(parse("run=measure rodata=on").1, Vec::<String>::new());
    }

    #[test]
    fn how_to_split_means_nothing_where_nothing_is_split() {
        assert_eq!(parse("split=pages").1, Vec::<String>::new());
        for rodata in ["off", "on"] {
            let line = std::format!("split=pages rodata={rodata}");
            assert_eq!(
                parse(&line).1,
                ["boot argument 'split=pages' ignored: nothing is split unless rodata is full"]
            );
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("1k"), Some(1 << 10));
        assert_eq!(bytes("3G"), Some(3 << 30));
        assert_eq!(bytes("0x10M"), Some(16 << 20));
        for bad in ["", "K", "-1", "1Q", "0x", "99999999999T", "1 k"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    /// A word: noise, or an argument with a value that is right, wrong or noise.
    fn word() -> impl Strategy<Value = String> {
        let values = [
            "4k", "64k", "40", "full", "off", "park", "pages", "stays", "1", "256M@1G", "a,b", "measure", "",
        ];
        let value = prop_oneof![prop::sample::select(values.to_vec()).prop_map(String::from), ".{0,5}"];
        let argument = (prop::sample::select(KEYS.to_vec()), value);
        prop_oneof![".{0,20}", argument.prop_map(|(key, value)| std::format!("{key}={value}"))]
    }

    proptest! {
        /// Noise never panics, and each word is either used or reported once: the words that are not reported are
        /// arguments, and mean the same without the others.
        #[test]
        fn noise_is_named(words in prop::collection::vec(word(), 0..12)) {
            let line = words.join(" ");
            let mut used: Vec<_> = line.split_ascii_whitespace().collect();
            let mut reported = Vec::new();
            let args = BootArgs::parse(&line, |i| reported.push(i.word));
            for word in reported {
                let at = used.iter().position(|w| *w == word);
                prop_assert!(at.is_some(), "'{}' is reported and not there, or too often: {:?}", word, line);
                at.map(|at| used.remove(at));
            }
            let is_argument = |w: &&str| KEYS.contains(&w.split('=').next().unwrap_or_default());
            prop_assert!(used.iter().all(is_argument), "{:?} of {:?}", used, line);
            let used = used.join(" ");
            let (again, ignored) = parse(&used);
            // A word that stood there twice before another one was reported once.
            let (_, before) = parse(&line);
            prop_assert!(ignored.iter().all(|word| before.contains(word)), "{:?} of {:?}", used, line);
            // Without rodata=full the word is reported, and says nothing.
            let split = if args.rodata == Rodata::Full { again.split } else { args.split };
            prop_assert_eq!(BootArgs { split, ..again }, args, "{:?} of {:?}", used, line);
        }
    }
}
