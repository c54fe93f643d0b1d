//! Selects addresses: a region by its name, or a range. What a command does with them is the same in all commands: it is about
//! these addresses and no others.

use clap::{Args, ValueEnum};
use linmap::read::MarkedRange;
use linmap::{Geometry, Half, Va};

use crate::commands::reading::Failure;
use crate::linux::regions::{Name, Regions, linear};
use crate::map::view::View;
use crate::source::SavedPart;

#[derive(Args)]
pub(crate) struct Selection {
    /// Part of the kernel's addresses; can be given several times [default: all that the command is about]
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',', conflicts_with = "range")]
    region: Vec<Choice>,

    /// Only entries that translate addresses from A up to, but not including, B: both in hex, as a dump has them
    #[arg(long, value_name = "A-B", value_parser = parse_range)]
    range: Option<(Va, Va)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    All,
    One(Name),
}

impl Choice {
    const fn text(self) -> &'static str {
        match self {
            Self::One(name) => name.text(),
            Self::All => "all",
        }
    }
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        const VARIANTS: [Choice; 7] = [
            Choice::One(Name::Linear),
            Choice::One(Name::Kernel),
            Choice::One(Name::Modules),
            Choice::One(Name::Vmalloc),
            Choice::One(Name::Vmemmap),
            Choice::One(Name::Fixmap),
            Choice::All,
        ];
        &VARIANTS
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::One(name) => name.to_possible_value(),
            Self::All => Some(clap::builder::PossibleValue::new("all").help("All of them, in address order")),
        }
    }
}

/// A range with its marker lines.
pub(crate) type Part = MarkedRange;

impl Selection {
    /// Returns true if the options select nothing.
    pub(crate) const fn is_default(&self) -> bool {
        self.region.is_empty() && self.range.is_none()
    }

    /// Returns the range, if the options name one.
    pub(crate) const fn range(&self) -> Option<(Va, Va)> {
        self.range
    }

    /// Returns the addresses for a command that is about the linear map alone: all of it, or a range in it.
    pub(crate) fn linear(&self, view: &View<'_>, command: &str) -> Result<(Va, Va), Failure> {
        let (start, end) = linear(view.geometry);
        if let Some(other) = self.region.iter().find(|choice| **choice != Choice::One(Name::Linear)) {
            let name = other.text();
            return Err(Failure::Wrong(format!(
                "--region {name} does not apply: `linmap {command}` is about the linear map; `linmap dump --region \
                 {name}` prints what you name"
            )));
        }
        let Some((first, last)) = self.range else { return Ok((start, end)) };
        if first < start || end < last {
            return Err(Failure::Wrong(format!(
                "--range does not apply: {first} to {last} is not in the linear map, from {start} to {end}, and \
                 `linmap {command}` is about it; `linmap dump --range` prints any addresses"
            )));
        }
        saved(view, vec![MarkedRange { range: (first, last), start: RANGE.0, end: RANGE.1 }])?;
        Ok((first, last))
    }

    /// Refuses any selection, for this reason.
    pub(crate) fn refuse(&self, why: &str) -> Result<(), Failure> {
        let option = match (self.region.is_empty(), self.range) {
            (true, None) => return Ok(()),
            (false, _) => "--region",
            (true, Some(_)) => "--range",
        };
        Err(Failure::Wrong(format!("{option} does not apply: {why}")))
    }

    /// Returns true if an address is among the selected ones.
    pub(crate) fn has(parts: &[Part], va: Va) -> bool {
        parts.iter().any(|part| part.range.0 <= va && va <= part.range.1)
    }

    /// Returns the selected ranges in order of address.
    pub(crate) fn parts(&self, view: &View<'_>, regions: &Regions) -> Result<Vec<Part>, Failure> {
        let g = view.geometry;
        if let Some((first, last)) = self.range {
            let base = g.base(Half::Upper);
            if first.0 < base {
                let bits = g.va_bits();
                return Err(Failure::Wrong(format!(
                    "{first} is no address of this kernel: with {bits} VA bits they start at {base:#x}"
                )));
            }
            let part = MarkedRange { range: (first, last), start: RANGE.0, end: RANGE.1 };
            return saved(view, vec![part]);
        }
        if self.region.is_empty() || self.region.contains(&Choice::All) {
            return Ok(everything(view, regions));
        }
        saved(view, self.named(view, regions)?)
    }

    /// Returns the named regions in order of address; one that lies in another is printed with it.
    fn named(&self, view: &View<'_>, regions: &Regions) -> Result<Vec<Part>, Failure> {
        let mut parts = Vec::new();
        for choice in &self.region {
            let Choice::One(name) = *choice else { continue };
            let region = regions.get(name).ok_or_else(|| Failure::Wrong(unknown(view, regions, name)))?;
            parts.push(marked(name, (region.first, region.last)));
        }
        parts.sort_by_key(|part| (part.range.0, std::cmp::Reverse(part.range.1)));
        let mut end = None;
        parts.retain(|part| {
            let is_new = end.is_none_or(|end| part.range.1 > end);
            end = end.max(Some(part.range.1));
            is_new
        });
        Ok(parts)
    }
}

/// The marker lines of a range without a name.
const RANGE: (&str, &str) = ("Range start", "Range end");
/// The marker lines of addresses outside of all regions.
const ELSEWHERE: (&str, &str) = ("Elsewhere start", "Elsewhere end");

/// Returns all addresses; of a saved dump, those that were dumped.
fn everything(view: &View<'_>, regions: &Regions) -> Vec<Part> {
    let Some(dump) = view.saved else { return all(view.geometry, regions) };
    if dump.parts.is_empty() {
        let (first, last) = view.extent;
        let parts = all(view.geometry, regions).into_iter();
        let parts = parts.map(|part| {
            let (from, to) = part.range;
            Part { range: (from.max(first), to.min(last)), ..part }
        });
        return parts.filter(|part| part.range.0 <= part.range.1).collect();
    }
    let part = |part: &SavedPart| {
        let (start, end) = match Name::of_marker(&part.start) {
            Some(name) => name.markers(),
            None if part.start == RANGE.0 => RANGE,
            None => ELSEWHERE,
        };
        let base = Va(view.geometry.base(Half::Upper));
        let (first, last) = part.range;
        Part { range: (first.max(base), last.max(base)), start, end }
    };
    dump.parts.iter().map(part).collect()
}

/// Returns the parts, if all of them were saved.
fn saved(view: &View<'_>, parts: Vec<Part>) -> Result<Vec<Part>, Failure> {
    match parts.iter().find(|part| !view.knows(part.range)) {
        Some(part) => {
            let (first, last) = part.range;
            Err(Failure::Wrong(view.not_saved(format_args!("{first} to {last}"))))
        }
        None => Ok(parts),
    }
}

fn marked(name: Name, range: (Va, Va)) -> Part {
    let (start, end) = name.markers();
    MarkedRange { range, start, end }
}

fn unknown(view: &View<'_>, regions: &Regions, name: Name) -> String {
    let known: Vec<&str> = regions.all().iter().map(|region| region.name.text()).collect();
    format!(
        "{}: where {} is cannot be told without VMCOREINFO; known: {}; --region all has everything",
        view.name(),
        name.text(),
        known.join(", ")
    )
}

/// Returns all addresses of the upper half, by region; the kernel image is printed in the region that it lies in.
fn all(geometry: Geometry, regions: &Regions) -> Vec<Part> {
    let elsewhere =
        |first, last| MarkedRange { range: (Va(first), Va(last)), start: ELSEWHERE.0, end: ELSEWHERE.1 };
    let mut parts = Vec::new();
    let mut next = Some(geometry.base(Half::Upper));
    for region in regions.all().iter().filter(|region| region.name != Name::Kernel) {
        let Some(start) = next else { break };
        if region.last.0 < start {
            continue;
        }
        if region.first.0 > start {
            parts.push(elsewhere(start, region.first.0 - 1));
        }
        parts.push(marked(region.name, (region.first.max(Va(start)), region.last)));
        next = region.last.0.checked_add(1);
    }
    parts.extend(next.map(|start| elsewhere(start, u64::MAX)));
    parts
}

/// Reads a range in the form of a dump: `0xffff000000000000-0xffff000040000000`.
pub(crate) fn parse_range(text: &str) -> Result<(Va, Va), String> {
    let (from, to) = text.split_once('-').ok_or("two addresses with a - between them")?;
    let (first, end) = (parse_address(from)?, parse_address(to)?);
    // A range up to the last address ends at 0.
    let last = end.wrapping_sub(1);
    if last < first {
        return Err(format!("it ends before it starts: {end:#x} is not above {first:#x}"));
    }
    Ok((Va(first), Va(last)))
}

/// Reads an address in hex, with or without `0x`.
pub(crate) fn parse_address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("an address is hexadecimal, such as 0xffff000040000000".to_owned());
    }
    u64::from_str_radix(digits, 16).map_err(|_| "an address has at most 16 digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::regions::Hints;
    use crate::linux::release::Release;
    use linmap::{Granule, OaFormat};
    use test_support::prelude::*;

    #[test]
    fn ranges_are_what_a_dump_has() {
        let range = parse_range("0xffff000000000000-0xffff000040000000");
        assert_eq!(range, Ok((Va(0xffff_0000_0000_0000), Va(0xffff_0000_3fff_ffff))));
        assert_eq!(parse_range("fffff000-0x0"), Ok((Va(0xffff_f000), Va(u64::MAX))));
        for wrong in
            ["", "0x1", "0x1-", "-0x1", "2-1", "1-1", "0x1-0xg", "0x1-0x11111111111111111", "0x1 - 0x2"]
        {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_is_every_address_once() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        for release in [None, Release::parse("6.1"), Release::parse("6.12")] {
            let regions = Regions::of(g, &Hints { release: release.as_ref(), ..Hints::default() });
            let parts = all(g, &regions);
            assert_eq!(parts[0].range.0, Va(g.base(Half::Upper)));
            assert_eq!(parts[parts.len() - 1].range.1, Va(u64::MAX));
            assert!(parts.windows(2).all(|pair| pair[0].range.1.0 + 1 == pair[1].range.0.0));
        }
    }

    proptest! {
        #[test]
        fn a_range_is_its_first_and_last_address(
            text in "(0x|0X)?[0-9a-fA-F]{0,17}-?(0x)?[0-9a-f]{0,17}|[+]1-2|0x[0-7]{3}-[89a-f]{3}|.*",
        ) {
            let number = |text: &str| {
                let digits = text.trim_start_matches('0');
                let digits = digits.strip_prefix(['x', 'X']).filter(|_| text.len() == digits.len() + 1).unwrap_or(text);
                let value = u128::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
                u64::try_from(value).ok()
            };
            let ends = text.split_once('-').and_then(|(from, to)| Some((number(from)?, number(to)?)));
            let range = ends.map(|(first, end)| (first, end.wrapping_sub(1))).filter(|(first, last)| first <= last);
            prop_assert_eq!(parse_range(&text).ok(), range.map(|(first, last)| (Va(first), Va(last))), "{}", text);
        }

        #[test]
        fn a_range_reads_back(a: u64, b: u64) {
            let (first, last) = (a.min(b), a.max(b));
            let text = format!("{first:#x}-{:x}", last.wrapping_add(1));
            prop_assert_eq!(parse_range(&text), Ok((Va(first), Va(last))));
        }

        #[test]
        fn no_regions_panic(modules: (u64, u64), vmalloc: (u64, u64), vmemmap: (u64, u64)) {
            let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
            let upper = |(a, b): (u64, u64)| Some((a | 0xffff << 48, b | 0xffff << 48));
            let hints = Hints {
                modules: upper(modules), vmalloc: upper(vmalloc), vmemmap: upper(vmemmap), ..Hints::default()
            };
            let parts = all(g, &Regions::of(g, &hints));
            prop_assert!(parts.iter().all(|part| part.range.0 <= part.range.1));
            prop_assert!(parts.windows(2).all(|pair| pair[0].range.1.0 + 1 == pair[1].range.0.0));
        }
    }
}
