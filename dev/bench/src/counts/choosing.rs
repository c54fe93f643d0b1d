//! The cost of choosing the page size at boot: one image for all page sizes compared with an image for each.

use std::collections::BTreeMap;

use super::boots::{Map, PageSize};
use super::budgets::{Budget, percent as percent_of};
use super::compare::percent;
use super::counted::Counted;
use super::linux;
use super::results::Results;
use crate::report::{table, thousands};

/// RAM of the boots that are compared, in GiB.
const GIB: u64 = 64;

/// The sizes of an image.
pub(crate) struct Image {
    pub(crate) segments: Segments,
    /// Bytes of the bootable file.
    pub(crate) file: u64,
    /// Bytes of RAM in use after a boot, for each page size of the image.
    pub(crate) held: BTreeMap<PageSize, u64>,
}

/// The bytes of an image's segments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segments {
    text: u64,
    rodata: u64,
    data: u64,
    bss: u64,
}

impl Segments {
    /// Reads the output of `flatten --sizes`: for each segment its bytes in the file and those in memory alone.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        match numbers.as_deref() {
            Ok(&[text, _, rodata, _, data, bss]) => Ok(Self { text, rodata, data, bss }),
            _ => Err(format!("expected three segments, not: {text}")),
        }
    }
}

/// The verdict on a figure that is above its budget.
const NOT_MET: &str = "**no**";

/// Returns the number of figures in the section that are above their budgets.
pub(crate) fn missed(section: &str) -> usize {
    section.matches(NOT_MET).count()
}

/// The most that a figure may exceed that of the image for one page size.
#[derive(Clone, Copy)]
struct Target {
    what: &'static str,
    percent: f64,
}

/// All of them, as `budgets.txt` has them.
#[derive(Clone, Copy)]
pub(crate) struct Targets {
    create: Target,
    change: Target,
    text: Target,
    held: Target,
}

impl Targets {
    /// Takes them from the budgets.
    ///
    /// # Errors
    ///
    /// One is missing.
    pub(crate) fn of(budgets: &[Budget]) -> Result<Self, String> {
        let target = |what, figure| Ok::<_, String>(Target { what, percent: percent_of(budgets, figure)? });
        Ok(Self {
            create: target("create", "sizes/create")?,
            change: target("protect and split", "sizes/change")?,
            text: target("text", "sizes/text")?,
            held: target("RAM held", "sizes/held")?,
        })
    }

    fn of_window(&self, name: &str) -> Option<Target> {
        match name {
            "create" => Some(self.create),
            _ if name.starts_with("protect") || name.starts_with("split") => Some(self.change),
            _ => None,
        }
    }
}

impl Target {
    /// Returns the budget, and "yes" if `all` is within it.
    fn verdict(&self, one: u64, all: u64) -> [String; 2] {
        let met = all as f64 <= one as f64 * (1.0f64 + self.percent / 100.0f64);
        [format!("+{}%", self.percent), if met { "yes" } else { NOT_MET }.to_owned()]
    }
}

/// Returns the section as Markdown.
pub(crate) fn section(
    results: &Results,
    images: &BTreeMap<Option<PageSize>, Image>,
    targets: &Targets,
) -> String {
    let Targets { create, change, text, held: held_target } = targets;
    let [judged, others] = windows(results, targets);
    format!(
        "Instructions of the same operations in the image for all page sizes and in the image for one (`make fixed`), \
         with {GIB} GB. Budgets: {} +{}%, {} +{}%. The best figures known are those of the series that lets Linux \
         choose its page size at boot: {}.\n\n{judged}\n\
         Operations without a budget, in large leaves:\n\n{others}\n\
         Bytes of the images. Budgets: text +{}%, RAM held after a boot with 1 GB +{}%.\n\n{}\n\
         The image for all page sizes has code for each of them and chooses between them. An image for one has neither \
         the choice nor the code of the others. Both have the same tests and workloads, which are much of the text; \
         only the library differs, so the bytes say more than the percentage. Three images instead of one have {} \
         bytes of text instead of {}.\n\n{}",
        create.what,
        create.percent,
        change.what,
        change.percent,
        linux::CHOOSING,
        text.percent,
        held_target.percent,
        segments(images, *text),
        thousands(
            images.iter().filter(|(only, _)| only.is_some()).map(|(_, image)| image.segments.text).sum()
        ),
        images.get(&None).map_or_else(String::new, |image| thousands(image.segments.text)),
        held(images, *held_target)
    )
}

/// Returns two tables: the windows with a budget, and those without one in large leaves.
fn windows(results: &Results, targets: &Targets) -> [String; 2] {
    let (mut judged, mut others) = (vec![], vec![]);
    for page_size in PageSize::ALL {
        for map in [Map::Large, Map::Pages] {
            let both = (results.fixed(page_size, map, GIB), results.of(page_size, map, GIB));
            let (Some(one), Some(all)) = both else { continue };
            for name in all.windows.keys() {
                let [one, all] = [one, all].map(|counted: &Counted| counted.count(name, "instructions"));
                let (Some(one), Some(all)) = (one, all) else { continue };
                let what = [page_size.label(), map.name(), name].map(str::to_owned);
                let row = [what.as_slice(), &compared(one, all)].concat();
                match targets.of_window(name) {
                    Some(target) => judged.push([row.as_slice(), &target.verdict(one, all)].concat()),
                    None if map == Map::Large => others.push(row),
                    None => {}
                }
            }
        }
    }
    let header = ["pages", "map", "window", "image for one", "for all", "change", "at most", "met"];
    [table(&header, &judged), table(&header[..6], &others)]
}

fn compared(one: u64, all: u64) -> [String; 3] {
    [thousands(one), thousands(all), percent(Some(one), Some(all))]
}

fn segments(images: &BTreeMap<Option<PageSize>, Image>, target: Target) -> String {
    let all = images.get(&None).map(|image| image.segments.text);
    let row = |(only, image): (&Option<PageSize>, &Image)| {
        let Segments { text, rodata, data, bss } = image.segments;
        let name = only.map_or("for all".to_owned(), |size| format!("{} only", size.label()));
        let numbers = [text, rodata, data, bss, image.file].map(thousands);
        let [change, most, met] = match (only, all) {
            (Some(_), Some(all)) => {
                let [most, met] = target.verdict(text, all);
                [percent(Some(text), Some(all)), most, met]
            }
            _ => [const { String::new() }; 3],
        };
        [vec![name], numbers.to_vec(), vec![change, most, met]].concat()
    };
    let header =
        ["image", "text", "rodata", "data", "bss", "file", "text of the one for all", "at most", "met"];
    table(&header, &images.iter().map(row).collect::<Vec<_>>())
}

fn held(images: &BTreeMap<Option<PageSize>, Image>, target: Target) -> String {
    let row = |page_size: PageSize| {
        let of = |only| images.get(&only)?.held.get(&page_size).copied();
        let (one, all) = (of(Some(page_size))?, of(None)?);
        let verdict = target.verdict(one, all);
        Some([[page_size.label().to_owned()].as_slice(), &compared(one, all), &verdict].concat())
    };
    let header = ["RAM held at", "image for one", "for all", "change", "at most", "met"];
    table(&header, &PageSize::ALL.into_iter().filter_map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::budgets;
    use super::*;

    fn targets() -> Targets {
        let text = "sizes/create 1% a\nsizes/change 10% b\nsizes/text 1.5% c\nsizes/held 0.5% d\n";
        Targets::of(&budgets::read(text).unwrap()).unwrap()
    }

    #[test]
    fn segments_are_read() {
        let segments = Segments::read("224 0\n38 0\n1 9\n").unwrap();
        assert_eq!(segments, Segments { text: 224, rodata: 38, data: 1, bss: 9 });
        assert!(Segments::read("224 0\n38 0").is_err());
        assert!(Segments::read("a 0 b 0 c 0").is_err());
    }

    #[test]
    fn a_target_is_met_up_to_its_percentage() {
        let Targets { create, held, .. } = targets();
        assert_eq!(create.verdict(1000, 1010), ["+1%", "yes"]);
        assert_eq!(create.verdict(1000, 1011), ["+1%", "**no**"]);
        assert_eq!(held.verdict(1000, 900), ["+0.5%", "yes"]);
    }

    #[test]
    fn what_is_above_a_budget_is_counted() {
        let image = |text| Image {
            segments: Segments { text, rodata: 0, data: 0, bss: 0 },
            file: 0,
            held: BTreeMap::new(),
        };
        let count = |all| {
            let images = [(None, image(all)), (Some(PageSize::K4), image(1000))];
            missed(&section(&Results(BTreeMap::new()), &images.into(), &targets()))
        };
        assert_eq!([1014, 1016].map(count), [0, 1]);
    }

    #[test]
    fn a_missing_target_is_an_error() {
        let some = budgets::read("sizes/create 1% a\n").unwrap();
        assert!(Targets::of(&some).is_err_and(|e| e.contains("sizes/change")));
    }

    #[test]
    fn changes_have_targets_and_walks_have_none() {
        let percent = |name| targets().of_window(name).map(|target| target.percent);
        let targets = ["create", "protect_l2", "split_to_pages", "walk"].map(percent);
        assert_eq!(targets, [Some(1.0), Some(10.0), Some(10.0), None]);
    }
}
