//! Lists of CPUs in a source tree of Linux: tables of `MIDR_...` macros over the numbers of `cputype.h`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use linmap::cpu::Midr;

/// A source tree, with its numbers.
pub(super) struct Source {
    directory: PathBuf,
    release: (u16, u16),
    /// Implementers and part numbers.
    numbers: HashMap<String, u64>,
    /// Implementer and part of each `MIDR_...`.
    models: HashMap<String, (u64, u64)>,
}

/// CPUs of some parts, from a variant and revision to another.
#[derive(Default)]
pub(super) struct Cpus(Vec<Range>);

struct Range {
    model: (u64, u64),
    /// The bits of the part number that count.
    part_mask: u64,
    revisions: [(u8, u8); 2],
}

impl Cpus {
    pub(super) fn contains(&self, midr: Midr) -> bool {
        let model = |range: &Range| (midr.implementer().into(), u64::from(midr.part()) & range.part_mask);
        let has =
            |r: &Range| r.model == model(r) && (r.revisions[0]..=r.revisions[1]).contains(&midr.revision());
        self.0.iter().any(has)
    }
}

impl Source {
    pub(super) fn read(directory: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(directory.join(path)).expect("a file of Linux");
        let makefile = text("Makefile");
        let number = |name: &str| {
            let line = makefile.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            line.and_then(|number| number.trim().parse().ok()).expect("a release")
        };
        let (mut numbers, mut models) = (HashMap::new(), HashMap::new());
        for line in text("arch/arm64/include/asm/cputype.h").lines() {
            let Some((name, value)) = line.strip_prefix("#define ").and_then(|d| d.split_once([' ', '\t']))
            else {
                continue;
            };
            let value = value.split("/*").next().unwrap_or_default().trim();
            if let Some(arguments) = value.strip_prefix("MIDR_CPU_MODEL(").and_then(|v| v.strip_suffix(')')) {
                let (implementer, part) = arguments.split_once(',').expect("two numbers");
                let of = |name: &str| *numbers.get(name.trim()).expect("a number above");
                models.insert(name.to_owned(), (of(implementer), of(part)));
            } else if let Some(hex) = value.strip_prefix("0x") {
                numbers.extend(u64::from_str_radix(hex, 16).map(|value| (name.to_owned(), value)));
            }
        }
        Self {
            directory: directory.into(),
            release: (number("VERSION"), number("PATCHLEVEL")),
            numbers,
            models,
        }
    }

    pub(super) fn release(&self) -> (u16, u16) {
        self.release
    }

    pub(super) fn implementers(&self) -> impl Iterator<Item = u64> {
        let mut all =
            self.numbers.iter().filter(|(name, _)| name.starts_with("ARM_CPU_IMP_")).collect::<Vec<_>>();
        all.sort_by_key(|(_, number)| **number);
        all.into_iter().map(|(_, number)| *number)
    }

    /// Reads a list: the definition of the first array whose name begins so, or `None` if there is none.
    pub(super) fn list(&self, path: &str, name: &str) -> Option<Cpus> {
        let text = fs::read_to_string(self.directory.join(path)).expect("a file of Linux");
        let (_, from) = text.split_once(&format!(" {name}"))?;
        let (_, from) = from.split_once("[] = {").expect("an array");
        // Comments have words in parentheses, and the list ends with the first `};` as far to the left as its beginning.
        let end = from.find("\n};").into_iter().chain(from.find("\n\t};")).min().expect("an end");
        let uncommented =
            from[..end].split("/*").map(|part| part.split_once("*/").map_or(part, |(_, rest)| rest));
        let list = uncommented.collect::<String>();
        let mut cpus = self.ranges(&list);
        if list.contains("is_kryo_midr") {
            // The part's upper four bits count.
            let kryo = list.split_once(".midr_range.model = ").and_then(|(_, model)| model.split_once(','));
            let model = self.models[kryo.expect("a model").0.trim()];
            cpus.push(Range { model, part_mask: 0xf00, revisions: [(0, 0), (0xf, 0xf)] });
        }
        Some(Cpus(cpus))
    }

    /// Reads all `MIDR_...(model, numbers)`.
    fn ranges(&self, list: &str) -> Vec<Range> {
        let mut ranges = Vec::new();
        for (before, arguments) in list.match_indices('(').map(|(at, _)| list.split_at(at)) {
            let kind =
                before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
            let arguments = arguments[1..].split(')').next().unwrap_or_default();
            let mut arguments = arguments.split(',').map(str::trim);
            let Some(model) = arguments.next().and_then(|model| self.models.get(model)) else { continue };
            let n = arguments.map(number).collect::<Vec<_>>();
            let revisions = match (kind.trim_start_matches("ERRATA_"), &n[..]) {
                ("MIDR_ALL_VERSIONS", []) => [(0, 0), (0xf, 0xf)],
                ("MIDR_REV", [v, r]) => [(*v, *r); 2],
                ("MIDR_REV_RANGE", [v, first, last]) => [(*v, *first), (*v, *last)],
                ("MIDR_RANGE", [v, r, last_v, last_r]) => [(*v, *r), (*last_v, *last_r)],
                _ => panic!("nobody knows what {kind} means"),
            };
            ranges.push(Range { model: *model, part_mask: 0xfff, revisions });
        }
        ranges
    }
}

fn number(text: &str) -> u8 {
    let number = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u8::from_str_radix(hex, 16));
    number.expect("a number")
}
