//! Core files: a core's parameters as text, each with its source. The built-in cores are such files.

use crate::cpu_core::{Core, Parameter, Replacement, TlbLevel, WalkCache};
use crate::quoted::quoted;

/// The built-in cores: name and text.
const BUILT_IN: [(&str, &str); 5] = [
    ("neoverse-n1", include_str!("cores/neoverse-n1.core")),
    ("neoverse-n2", include_str!("cores/neoverse-n2.core")),
    ("neoverse-v2", include_str!("cores/neoverse-v2.core")),
    ("cortex-a76", include_str!("cores/cortex-a76.core")),
    ("ampereone", include_str!("cores/ampereone.core")),
];

/// All keys, in the order in which parameters are listed.
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

/// More entries than any TLB has.
const MAX_ENTRIES: u64 = 1 << 20;
/// The value of a parameter that the core's maker does not publish.
const NOT_PUBLISHED: &str = "not published";

/// Why text does not describe a core. Places are `FILE:LINE`, or as [`Parameters::set`] was told.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum CoreError {
    /// No built-in core has this name.
    #[error("no core is named `{0}`; known: {known}", known = Parameters::built_in_names().join(", "))]
    Unknown(String),

    /// A line is not a key and a value.
    #[error("{place}: `{text}` is not KEY = VALUE, such as l1.entries = 48")]
    Malformed { place: String, text: String },

    /// A key that no core has.
    #[error("{place}: no key `{key}`; there are {}", KEYS.join(", "))]
    Key { place: String, key: String },

    /// A key that an earlier line has.
    #[error("{place}: `{key}` has been given before")]
    Twice { place: String, key: &'static str },

    /// A key that no line has.
    #[error("{file}: `{key}` is missing")]
    Missing { file: String, key: &'static str },

    /// A value that its key cannot have.
    #[error("{place}: {key} = {value}: {expected}")]
    Value { place: String, key: &'static str, value: String, expected: &'static str },

    /// Values that are `not published`.
    #[error("{name}: {} {} not published", keys.join(", "), if keys.len() == 1 { "is" } else { "are" })]
    NotPublished { name: String, keys: Vec<&'static str> },
}

/// The parameters of a core while they are collected: a built-in core or a core file, then single changes.
///
/// A core file has `KEY = VALUE` on each line, each key once; text after `#` is the value's source.
///
/// | key | value |
/// |---|---|
/// | `name` | the core |
/// | `l1.entries`, `l2.entries` | a number |
/// | `l1.ways`, `l2.ways` | a number that divides the entries, or `full` |
/// | `l1.sizes`, `l2.sizes` | the sizes that an entry can cover: powers of two from 4K on, 4K among them |
/// | `coalesce` | how many aligned pages can share an entry: 1, 2, 4, 8 or 16 |
/// | `contiguous` | `yes` if a contiguous run takes one entry, or `no` |
/// | `walk.cache` | where tables are cached: `l2` (among its entries), `ENTRIES/WAYS` (their own), `none` |
/// | `replacement` | `lru` or `random` |
///
/// A value can be `not published`; [`Parameters::core`] then fails and names the key.
#[derive(Clone, Debug)]
pub struct Parameters {
    file: String,
    given: Vec<Parameter>,
}

impl Parameters {
    /// Returns the names of the built-in cores.
    pub fn built_in_names() -> [&'static str; BUILT_IN.len()] {
        BUILT_IN.map(|(name, _)| name)
    }

    /// Returns the parameters of a built-in core; upper and lower case are the same.
    ///
    /// # Errors
    ///
    /// No core has this name.
    pub fn built_in(name: &str) -> Result<Self, CoreError> {
        let lower = name.to_lowercase();
        match BUILT_IN.iter().find(|(known, _)| *known == lower) {
            Some((_, text)) => Self::parse(name, text),
            None => Err(CoreError::Unknown(quoted(name, 60))),
        }
    }

    /// Reads the text of a core file. Errors call it `file`.
    ///
    /// # Errors
    ///
    /// A line is not `KEY = VALUE`, or its key is unknown or has been given before.
    pub fn parse(file: &str, text: &str) -> Result<Self, CoreError> {
        let mut given: Vec<Parameter> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let (words, source) = line.split_once('#').unwrap_or((line, ""));
            if words.trim().is_empty() {
                continue;
            }
            let parameter = parameter(words, source, format!("{file}:{}", index + 1))?;
            if given.iter().any(|other| other.key == parameter.key) {
                return Err(CoreError::Twice { place: parameter.place, key: parameter.key });
            }
            given.push(parameter);
        }
        Ok(Self { file: file.to_owned(), given })
    }

    /// Replaces one parameter by `change`, a `KEY=VALUE`. Errors call it `place`, and `source` becomes its source.
    ///
    /// # Errors
    ///
    /// `change` is not `KEY=VALUE` or has an unknown key.
    pub fn set(&mut self, change: &str, source: &str, place: &str) -> Result<(), CoreError> {
        let parameter = parameter(change, source, place.to_owned())?;
        self.given.retain(|other| other.key != parameter.key);
        self.given.push(parameter);
        Ok(())
    }

    /// Returns the core that these parameters describe.
    ///
    /// # Errors
    ///
    /// A parameter is missing, not published, or has a value that its key cannot have.
    pub fn core(mut self) -> Result<Core, CoreError> {
        for key in KEYS {
            self.get(key)?;
        }
        let name = self.get("name")?.value.clone();
        let unknown = self.given.iter().filter(|parameter| parameter.value == NOT_PUBLISHED);
        let keys: Vec<&str> = unknown.map(|parameter| parameter.key).collect();
        if !keys.is_empty() {
            return Err(CoreError::NotPublished { name, keys });
        }
        let core = Core {
            name,
            l1: self.level(["l1.entries", "l1.ways", "l1.sizes"])?,
            l2: self.level(["l2.entries", "l2.ways", "l2.sizes"])?,
            coalesce: self.number("coalesce", "1, or a power of two up to 16, is right", |n| {
                n.is_power_of_two() && n <= 16
            })?,
            contiguous: self.word("contiguous", "yes or no is right", &[("yes", true), ("no", false)])?,
            walk_cache: self.walk_cache()?,
            replacement: self.word(
                "replacement",
                "lru or random is right",
                &[("lru", Replacement::LeastRecentlyUsed), ("random", Replacement::Random)],
            )?,
            parameters: Vec::new(),
        };
        self.given.sort_by_key(|parameter| KEYS.iter().position(|key| *key == parameter.key));
        Ok(Core { parameters: self.given, ..core })
    }

    fn get(&self, key: &'static str) -> Result<&Parameter, CoreError> {
        let missing = || CoreError::Missing { file: self.file.clone(), key };
        self.given.iter().find(|parameter| parameter.key == key).ok_or_else(missing)
    }

    fn wrong(&self, key: &'static str, expected: &'static str) -> CoreError {
        match self.get(key) {
            Ok(Parameter { place, value, .. }) => {
                CoreError::Value { place: place.clone(), key, value: value.clone(), expected }
            }
            Err(missing) => missing,
        }
    }

    fn number(
        &self,
        key: &'static str,
        expected: &'static str,
        fits: impl Fn(u64) -> bool,
    ) -> Result<u64, CoreError> {
        let number = self.get(key)?.value.parse().ok().filter(|n| *n > 0 && *n <= MAX_ENTRIES && fits(*n));
        number.ok_or_else(|| self.wrong(key, expected))
    }

    fn word<T: Copy>(
        &self,
        key: &'static str,
        expected: &'static str,
        words: &[(&str, T)],
    ) -> Result<T, CoreError> {
        let value = &self.get(key)?.value;
        let found = words.iter().find(|(word, _)| word == value).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| self.wrong(key, expected))
    }

    fn level(&self, [entries, ways, sizes]: [&'static str; 3]) -> Result<TlbLevel, CoreError> {
        let count = self.number(entries, "a number of entries is right, 1 or more", |_| true)?;
        const WAYS: &str = "full, or a number that divides the entries, is right";
        let ways = match self.get(ways)?.value.as_str() {
            "full" => count,
            _ => self.number(ways, WAYS, |ways| count % ways == 0)?,
        };
        const SIZES: &str = "sizes that are powers of two are right, 4K among them, such as 4K 64K 2M";
        let shifts: Option<Vec<u32>> = self.get(sizes)?.value.split_whitespace().map(size_shift).collect();
        let mut shifts = shifts.unwrap_or_default();
        shifts.sort_unstable();
        if shifts.first() != Some(&12) {
            return Err(self.wrong(sizes, SIZES));
        }
        Ok(TlbLevel { entries: count as usize, ways: ways as usize, shifts })
    }

    fn walk_cache(&self) -> Result<WalkCache, CoreError> {
        const EXPECTED: &str = "l2, none, or ENTRIES/WAYS, such as 64/4 or 16/full, is right";
        let text = self.get("walk.cache")?.value.as_str();
        let own = || {
            let (entries, ways) = text.split_once('/')?;
            let entries = entries.parse::<usize>().ok().filter(|n| (1..=MAX_ENTRIES as usize).contains(n))?;
            let ways = if ways == "full" { entries } else { ways.parse().ok()? };
            (ways > 0 && entries % ways == 0).then_some(WalkCache::Own { entries, ways })
        };
        match text {
            "l2" => Ok(WalkCache::InL2),
            "none" => Ok(WalkCache::None),
            _ => own().ok_or_else(|| self.wrong("walk.cache", EXPECTED)),
        }
    }
}

impl Core {
    /// Returns the built-in core of this name, such as `neoverse-n1`; upper and lower case are the same.
    ///
    /// # Errors
    ///
    /// No core has this name ([`Parameters::built_in_names`] lists them), or some of its parameters are not published.
    pub fn named(name: &str) -> Result<Self, CoreError> {
        Parameters::built_in(name)?.core()
    }
}

/// Reads `KEY=VALUE`.
fn parameter(words: &str, source: &str, place: String) -> Result<Parameter, CoreError> {
    let Some((key, value)) = words.split_once('=') else {
        return Err(CoreError::Malformed { place, text: quoted(words, 60) });
    };
    let Some(key) = KEYS.into_iter().find(|known| *known == key.trim()) else {
        return Err(CoreError::Key { place, key: quoted(key, 60) });
    };
    Ok(Parameter { key, value: quoted(value, 200), source: quoted(source, 400), place })
}

/// Returns log2 of a size such as `64K` or `2MiB`, if it is a power of two from 4K to 4T.
fn size_shift(text: &str) -> Option<u32> {
    let units = text.trim_start_matches(|character: char| character.is_ascii_digit());
    let digits = &text[..text.len() - units.len()];
    let scale = match units.strip_suffix("iB").filter(|unit| !unit.is_empty()).unwrap_or(units) {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    let number: u64 = digits.parse().ok().filter(|number: &u64| number.is_power_of_two())?;
    Some(number.ilog2() + scale).filter(|shift| (12..=42).contains(shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn built_in_cores_are_as_their_manuals_say() {
        let n1 = Core::named("neoverse-n1").expect("a core");
        assert_eq!((n1.l1.entries, n1.l1.ways, n1.l2.entries, n1.l2.ways), (48, 48, 1280, 5));
        assert_eq!((n1.coalesce, n1.contiguous, n1.walk_cache), (4, true, WalkCache::InL2));
        assert_eq!(n1.l1.to_string(), "48 entries, fully associative (4K 16K 64K 2M 512M)");
        assert_eq!(n1.parameters[1].to_string(), "l1.entries = 48");
        for name in ["Neoverse-N2", "neoverse-v2", "cortex-a76"] {
            let core = Core::named(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut sources = core.parameters.iter().skip(1).map(|parameter| &parameter.source);
            assert!(sources.all(|source| !source.is_empty()), "{name}: each has its source");
        }
    }

    #[test]
    fn unpublished_parameters_are_named() {
        let error = Core::named("ampereone").expect_err("no numbers").to_string();
        assert!(error.starts_with("AmpereOne: l1.entries, l1.ways, "), "{error}");
        assert!(error.ends_with("walk.cache are not published"), "{error}");
    }

    fn wrong(change: &str) -> String {
        let mut parameters = Parameters::built_in("neoverse-n1").expect("a core");
        let core = parameters.set(change, "a test", "here").and_then(|()| parameters.core());
        core.expect_err(change).to_string()
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        assert_eq!(wrong("l1.entries=0"), "here: l1.entries = 0: a number of entries is right, 1 or more");
        assert!(wrong("l2.ways=7").contains("a number that divides the entries"), "{}", wrong("l2.ways=7"));
        for sizes in ["2M", "4K 8B", "4K KiB", "4K 99999999999999999999K", "4K 8T"] {
            assert!(wrong(&format!("l2.sizes={sizes}")).contains("4K among them"), "{sizes}");
        }
        assert!(wrong("l2.sizes=4K 3K").contains("powers of two"));
        assert!(wrong("walk.cache=64/5").contains("such as 64/4"));
        assert!(wrong("coalesce=3").contains("a power of two up to 16"));
        assert!(wrong("contiguous=maybe").contains("yes or no"));
        assert!(wrong("colour=red").starts_with("here: no key `colour`; there are name, l1.entries"));
        assert!(wrong("l1.entries").contains("is not KEY = VALUE"));
        let unknown = Core::named("no/such").expect_err("none").to_string();
        assert!(unknown.contains("known: neoverse-n1, neoverse-n2"), "{unknown}");
        let twice = Parameters::parse("f", "name = a\nname = b").expect_err("twice").to_string();
        assert_eq!(twice, "f:2: `name` has been given before");
        let missing = Parameters::parse("f", "name = a # me").and_then(Parameters::core);
        assert_eq!(missing.expect_err("missing").to_string(), "f: `l1.entries` is missing");
    }

    #[test]
    fn sizes_have_at_most_one_unit() {
        let shifts = ["4096", "4k", "64K", "2MiB", "1G", "4T"].map(size_shift);
        assert_eq!(shifts, [12, 12, 16, 21, 30, 42].map(Some));
    }

    /// Changes one value of a core.
    fn changed(key: &str, value: &str) -> Result<Core, CoreError> {
        let mut parameters = Parameters::built_in("neoverse-n1")?;
        parameters.set(&format!("{key}={value}"), "a test", "here")?;
        parameters.core()
    }

    /// Returns log2 of a size by its value, if it is one of those that a TLB has.
    fn by_value(text: &str) -> Option<u32> {
        let units =
            [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("K", 10), ("M", 20), ("G", 30), ("T", 40)];
        let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
        let (digits, scale) =
            unit.map_or((text, 0), |(unit, scale)| (&text[..text.len() - unit.len()], *scale));
        let digits = Some(digits).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
        let bytes = digits?.parse::<u128>().ok()? << scale;
        (12..=42).find(|shift| 1 << shift == bytes)
    }

    proptest! {
        #[test]
        fn a_changed_core_is_whole_or_its_value_is_named(
            key in prop::sample::select(&KEYS[..]),
            value in "[0-9]{1,2}|[0-9]{3,9}|full|4K( (16|32|64|48)K| 2M){0,2}|[0-9]{1,2}/([1-8]|full)|yes|random|l2",
        ) {
            let core = match changed(key, &value) {
                Ok(core) => core,
                Err(error) => {
                    let of_ways = key == "l2.entries" && error.to_string().contains(": l2.ways = 5: full, or a number");
                    let place = format!("here: {key} = {value}: ");
                    prop_assert!(of_ways || error.to_string().starts_with(&place), "{}", error);
                    return Ok(());
                }
            };
            for level in [&core.l1, &core.l2] {
                prop_assert!((1..=1 << 20).contains(&level.entries) && level.entries % level.ways == 0);
                prop_assert!(level.shifts[0] == 12 && level.shifts.is_sorted());
            }
            prop_assert!([1, 2, 4, 8, 16].contains(&core.coalesce));
            if let WalkCache::Own { entries, ways } = core.walk_cache {
                prop_assert!(entries > 0 && entries % ways == 0);
            }
            // Its parameters are the text of a core file.
            let text: String = core.parameters.iter().map(|parameter| format!("{parameter}\n")).collect();
            let again = Parameters::parse("f", &text).and_then(Parameters::core);
            let bare = |core: Core| Core { parameters: Vec::new(), ..core };
            prop_assert!(core.parameters.iter().any(|parameter| parameter.key == key && parameter.value == value));
            prop_assert_eq!(again.map(bare), Ok(bare(core)));
        }

        /// Text at random has no parameter.
        #[test]
        fn any_text_is_a_comment_or_refused_with_its_place(text: String, change: String) {
            let is_comment = text.split('#').next().is_none_or(|words| words.trim().is_empty());
            match Parameters::parse("f", &text) {
                Ok(parameters) => prop_assert!(is_comment && parameters.given.is_empty()),
                Err(error) => prop_assert!(!is_comment && error.to_string().starts_with("f:1: "), "{}", error),
            }
            let mut parameters = Parameters::built_in("neoverse-n1").expect("a core");
            let error = parameters.set(&change, "a test", "here").expect_err("no parameter").to_string();
            prop_assert!(error.starts_with("here: "), "{}", error);
        }

        #[test]
        fn sizes_are_powers_of_two_that_a_tlb_has(
            text in "[+0]?(1|2|4|8|16|64|256|512|4096|65536|3|[0-9]{0,20})([KMGT]?|[KMGT]iB|iB|B|KK)", other: String,
        ) {
            prop_assert_eq!(size_shift(&text), by_value(&text));
            prop_assert_eq!(size_shift(&other), by_value(&other));
        }
    }
}
