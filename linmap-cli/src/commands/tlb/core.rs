//! A core's TLBs: what is known of them, each number with where it is from. The format is in docs/tlb.md; the
//! named cores are files of it.

use std::fmt;
use std::path::Path;

use crate::printable::excerpt;
use crate::size::{Size, human};

/// The cores that come with the command, by the name on the command line.
const NAMED: [(&str, &str); 5] = [
    ("neoverse-n1", include_str!("cores/neoverse-n1.core")),
    ("neoverse-n2", include_str!("cores/neoverse-n2.core")),
    ("neoverse-v2", include_str!("cores/neoverse-v2.core")),
    ("cortex-a76", include_str!("cores/cortex-a76.core")),
    ("ampereone", include_str!("cores/ampereone.core")),
];

/// What a core file says, in this order.
const KEYS: [&str; 11] = [
    "name",
    "l1.entries",
    "l1.ways",
    "l1.sizes",
    "l2.entries",
    "l2.ways",
    "l2.sizes",
    "coalesce",
    "contiguous",
    "walk.cache",
    "replacement",
];

/// More than any TLB has.
const MOST_ENTRIES: u64 = 1 << 20;

/// A core, ready to be modelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Core {
    pub(crate) name: String,
    pub(crate) l1: Level,
    pub(crate) l2: Level,
    /// So many aligned pages may share an entry; 1 if none may.
    pub(crate) coalesce: u64,
    /// Whether a contiguous run may have one entry.
    pub(crate) contiguous: bool,
    pub(crate) walk: WalkCache,
    pub(crate) replacement: Replacement,
    /// Each parameter: its value and where it is from.
    pub(crate) said: Vec<Said>,
}

/// One TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) entries: usize,
    pub(crate) ways: usize,
    /// log2 of the sizes that an entry can have, smallest first.
    pub(crate) shifts: Vec<u32>,
}

/// Where table entries that walks came across are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkCache {
    None,
    /// Among the translations of the second level.
    InL2,
    Own {
        entries: usize,
        ways: usize,
    },
}

/// Which entry goes when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    LeastRecentlyUsed,
    Random,
}

/// One line of a core file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) source: String,
    /// Where it stands, for errors.
    place: Place,
}

/// Where something was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Line(String, usize),
    Option(String),
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(out, "{file}:{line}"),
            Self::Option(text) => write!(out, "--set {text}"),
        }
    }
}

/// Why there is no core.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CoreError {
    #[error("`{0}` is neither a file nor a core that is known: {known}", known = names())]
    Unknown(String),

    #[error("cannot read `{0}`: {1}")]
    Unreadable(String, String),

    #[error("{place}: `{text}` is not KEY = VALUE, such as l1.entries = 48")]
    Malformed { place: Place, text: String },

    #[error("{place}: no key `{key}`; there are {}", KEYS.join(", "))]
    Key { place: Place, key: String },

    #[error("{place}: `{key}` has been given before")]
    Twice { place: Place, key: &'static str },

    #[error("{file}: `{key}` is missing; docs/tlb.md says what it is")]
    Missing { file: String, key: &'static str },

    #[error("{place}: {key} = {value}: {right}")]
    Value { place: Place, key: &'static str, value: String, right: &'static str },

    #[error(
        "{name}: {keys} not published; give what you know, with a core file (--core FILE) or one by one (--set \
         {first}=...)"
    )]
    NotPublished { name: String, keys: String, first: &'static str },
}

fn names() -> String {
    NAMED.map(|(name, _)| name).join(", ")
}

/// The core with this name, or in this file, changed by `KEY=VALUE`s.
pub(crate) fn read(name: &str, changes: &[String]) -> Result<Core, CoreError> {
    let lower = name.to_lowercase();
    let text = match NAMED.iter().find(|(known, _)| *known == lower) {
        Some((_, text)) => (*text).to_owned(),
        None if Path::new(name).exists() => std::fs::read(name)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|error| CoreError::Unreadable(name.to_owned(), error.to_string()))?,
        None => return Err(CoreError::Unknown(excerpt(name, 60))),
    };
    parse(name, &text, changes)
}

/// Reads a core file.
fn parse(file: &str, text: &str, changes: &[String]) -> Result<Core, CoreError> {
    let mut all: Vec<Said> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (words, source) = line.split_once('#').unwrap_or((line, ""));
        if words.trim().is_empty() {
            continue;
        }
        let said = said(words, source, Place::Line(file.to_owned(), index + 1))?;
        if all.iter().any(|other| other.key == said.key) {
            return Err(CoreError::Twice { place: said.place, key: said.key });
        }
        all.push(said);
    }
    for change in changes {
        let said = said(change, "the command line", Place::Option(excerpt(change, 60)))?;
        all.retain(|other| other.key != said.key);
        all.push(said);
    }
    Facts { file, all }.core()
}

fn said(words: &str, source: &str, place: Place) -> Result<Said, CoreError> {
    let Some((key, value)) = words.split_once('=') else {
        return Err(CoreError::Malformed { place, text: excerpt(words, 60) });
    };
    let Some(key) = KEYS.into_iter().find(|known| *known == key.trim()) else {
        return Err(CoreError::Key { place, key: excerpt(key, 60) });
    };
    Ok(Said { key, value: excerpt(value, 200), source: excerpt(source, 400), place })
}

/// All that was said.
struct Facts<'f> {
    file: &'f str,
    all: Vec<Said>,
}

impl Facts<'_> {
    fn core(mut self) -> Result<Core, CoreError> {
        for key in KEYS {
            self.get(key)?;
        }
        let name = self.get("name")?.value.clone();
        let unknown: Vec<_> = self.all.iter().filter(|said| said.value == "not published").collect();
        if let Some(first) = unknown.first() {
            let keys: Vec<&str> = unknown.iter().map(|said| said.key).collect();
            let are = if keys.len() == 1 { "is" } else { "are" };
            let keys = format!("{} {are}", keys.join(", "));
            return Err(CoreError::NotPublished { name, keys, first: first.key });
        }
        let core = Core {
            name,
            l1: self.level(["l1.entries", "l1.ways", "l1.sizes"])?,
            l2: self.level(["l2.entries", "l2.ways", "l2.sizes"])?,
            coalesce: self.number("coalesce", "1, or a power of two up to 16, is right", |n| {
                n.is_power_of_two() && n <= 16
            })?,
            contiguous: self.word("contiguous", "yes or no is right", &[("yes", true), ("no", false)])?,
            walk: self.walk()?,
            replacement: self.word(
                "replacement",
                "lru or random is right",
                &[("lru", Replacement::LeastRecentlyUsed), ("random", Replacement::Random)],
            )?,
            said: Vec::new(),
        };
        self.all.sort_by_key(|said| KEYS.iter().position(|key| *key == said.key));
        Ok(Core { said: self.all, ..core })
    }

    fn get(&self, key: &'static str) -> Result<&Said, CoreError> {
        let missing = || CoreError::Missing { file: self.file.to_owned(), key };
        self.all.iter().find(|said| said.key == key).ok_or_else(missing)
    }

    fn wrong(&self, key: &'static str, right: &'static str) -> CoreError {
        match self.get(key) {
            Ok(said) => CoreError::Value { place: said.place.clone(), key, value: said.value.clone(), right },
            Err(missing) => missing,
        }
    }

    fn number(
        &self,
        key: &'static str,
        right: &'static str,
        fits: impl Fn(u64) -> bool,
    ) -> Result<u64, CoreError> {
        let number = self.get(key)?.value.parse().ok().filter(|n| *n > 0 && *n <= MOST_ENTRIES && fits(*n));
        number.ok_or_else(|| self.wrong(key, right))
    }

    fn word<T: Copy>(
        &self,
        key: &'static str,
        right: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, CoreError> {
        let said = &self.get(key)?.value;
        let found = words.iter().find(|(word, _)| word == said).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| self.wrong(key, right))
    }

    fn level(&self, [entries, ways, sizes]: [&'static str; 3]) -> Result<Level, CoreError> {
        let count = self.number(entries, "a number of entries is right, 1 or more", |_| true)?;
        const WAYS: &str = "full, or a number that divides the entries, is right";
        let ways = match self.get(ways)?.value.as_str() {
            "full" => count,
            _ => self.number(ways, WAYS, |ways| count % ways == 0)?,
        };
        const SIZES: &str = "sizes that are powers of two are right, 4K among them, such as 4K 64K 2M";
        let words = self.get(sizes)?.value.split_whitespace();
        let mut shifts = Vec::new();
        for word in words {
            match word.parse() {
                Ok(Size(bytes)) if bytes.is_power_of_two() && (1 << 12..=1 << 42).contains(&bytes) => {
                    shifts.push(bytes.ilog2());
                }
                _ => return Err(self.wrong(sizes, SIZES)),
            }
        }
        shifts.sort_unstable();
        if shifts.first() != Some(&12) {
            return Err(self.wrong(sizes, SIZES));
        }
        Ok(Level { entries: count as usize, ways: ways as usize, shifts })
    }

    fn walk(&self) -> Result<WalkCache, CoreError> {
        const RIGHT: &str = "l2, none, or ENTRIES/WAYS, such as 64/4 or 16/full, is right";
        let text = self.get("walk.cache")?.value.as_str();
        let own = || {
            let (entries, ways) = text.split_once('/')?;
            let entries =
                entries.parse::<usize>().ok().filter(|n| (1..=MOST_ENTRIES as usize).contains(n))?;
            let ways = if ways == "full" { entries } else { ways.parse().ok()? };
            (ways > 0 && entries % ways == 0).then_some(WalkCache::Own { entries, ways })
        };
        match text {
            "l2" => Ok(WalkCache::InL2),
            "none" => Ok(WalkCache::None),
            _ => own().ok_or_else(|| self.wrong("walk.cache", RIGHT)),
        }
    }
}

impl fmt::Display for Level {
    /// `1280 entries, 5-way`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.shifts.iter().map(|shift| human(1 << shift)).collect();
        write!(out, "{} entries, ", self.entries)?;
        match self.ways {
            ways if ways == self.entries => out.write_str("fully associative")?,
            ways => write!(out, "{ways}-way")?,
        }
        write!(out, " ({})", sizes.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn named_cores_are_as_their_manuals_say() {
        let n1 = read("neoverse-n1", &[]).expect("a core");
        assert_eq!((n1.l1.entries, n1.l1.ways, n1.l2.entries, n1.l2.ways), (48, 48, 1280, 5));
        assert_eq!((n1.coalesce, n1.contiguous, n1.walk), (4, true, WalkCache::InL2));
        assert_eq!(n1.l1.to_string(), "48 entries, fully associative (4K 16K 64K 2M 512M)");
        for name in ["Neoverse-N2", "neoverse-v2", "cortex-a76"] {
            let core = read(name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                core.said.iter().skip(1).all(|said| !said.source.is_empty()),
                "{name}: each has its source"
            );
        }
    }

    #[test]
    fn what_is_not_published_has_to_be_given() {
        let said = read("ampereone", &[]).expect_err("no numbers").to_string();
        assert!(said.starts_with("AmpereOne: l1.entries, l1.ways, "), "{said}");
        assert!(said.contains("walk.cache are not published; give what you know"), "{said}");
    }

    fn wrong(change: &str) -> String {
        read("neoverse-n1", &[change.to_owned()]).expect_err(change).to_string()
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        assert_eq!(
            wrong("l1.entries=0"),
            "--set l1.entries=0: l1.entries = 0: a number of entries is right, 1 or more"
        );
        assert!(wrong("l2.ways=7").contains("a number that divides the entries"), "{}", wrong("l2.ways=7"));
        assert!(wrong("l2.sizes=2M").contains("4K among them"));
        assert!(wrong("l2.sizes=4K 3K").contains("powers of two"));
        assert!(wrong("walk.cache=64/5").contains("such as 64/4"));
        assert!(wrong("coalesce=3").contains("a power of two up to 16"));
        assert!(wrong("contiguous=maybe").contains("yes or no"));
        assert!(
            wrong("colour=red").starts_with("--set colour=red: no key `colour`; there are name, l1.entries")
        );
        assert!(wrong("l1.entries").contains("is not KEY = VALUE"));
        assert!(
            read("no/such", &[]).expect_err("none").to_string().contains("known: neoverse-n1, neoverse-n2")
        );
        let twice = parse("f", "name = a\nname = b", &[]).expect_err("twice").to_string();
        assert_eq!(twice, "f:2: `name` has been given before");
        let missing = parse("f", "name = a # me", &[]).expect_err("missing").to_string();
        assert_eq!(missing, "f: `l1.entries` is missing; docs/tlb.md says what it is");
    }

    proptest! {
        #[test]
        fn no_file_panics(text in "((name|l1.entries|l2.ways|walk.cache|l1.sizes) = [0-9a-zK/ ]{0,12}\n){0,9}") {
            let _ = parse("f", &text, &[]);
        }

        #[test]
        fn no_text_panics(text: String, change: String) {
            let _ = parse("f", &text, &[change]);
        }
    }
}
