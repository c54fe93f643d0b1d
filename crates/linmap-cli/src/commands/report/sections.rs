//! The report as sections of tables and sentences: one machine in detail, or the changes of several side by side.

use std::collections::BTreeSet;

use kernel_plan::measure::Work;

use super::measurement::{Cell, Measurement, Turns};
use super::predicted::{Modelled, Predicted};
use super::published::PUBLISHED;
use super::reported::Reported;
use super::verdict;
use crate::size::{grouped, human};

/// A part of the report. No text has a style, and text of files is one line.
pub(crate) struct Section {
    pub(crate) title: String,
    /// The sentences behind the title.
    pub(crate) says: Vec<String>,
    /// The table; without rows there is none.
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// The sentences below the table.
    pub(crate) notes: Vec<String>,
}

impl Section {
    fn new(title: impl Into<String>, says: impl Into<String>) -> Self {
        let (header, rows, notes) = (vec![], vec![], vec![]);
        Self { title: title.into(), says: vec![says.into()], header, rows, notes }
    }

    fn table(self, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let header = header.iter().map(|name| (*name).to_owned()).collect();
        Self { header, rows: rows.into_iter().collect(), ..self }
    }

    fn noted(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// Returns all sections.
pub(crate) fn of(reported: &[Reported]) -> Vec<Section> {
    let mut sections: Vec<Section> = reported.iter().map(|one| heading(&one.measurement)).collect();
    match reported {
        [one] => {
            sections.push(works(&one.measurement));
            sections.extend(counts(&one.measurement));
            sections.extend(changes(&one.measurement));
            sections.push(model(&one.measurement, &one.predicted));
        }
        several => sections.push(side_by_side(several)),
    }
    sections.push(published(reported));
    sections
}

fn heading(measurement: &Measurement) -> Section {
    let Measurement { name, machine, cpu, page_size, policy, setting, .. } = measurement;
    let leaf =
        |map: &str| setting.leaf_bytes.get(map).map_or_else(|| "none".to_owned(), |bytes| human(*bytes));
    let mut section = Section::new(
        name,
        format!(
            "{machine}, {cpu}, {} pages, policy {policy}; {} of RAM in pages of {} and in leaves of {}; {} run",
            human(*page_size),
            human(setting.bytes),
            leaf("pages"),
            leaf("large"),
            setting.effort,
        ),
    );
    if setting.emulated {
        let says =
            "This CPU was emulated: the times mean nothing, only that all works ran and what they counted.";
        section.says.push(says.to_owned());
    }
    match measurement.wrong() {
        0 => {}
        wrong => section.says.push(format!("{} results were WRONG: the times are void.", grouped(wrong))),
    }
    section.says.extend(missing(measurement));
    section
}

/// Says which parts of a whole measurement are not there.
fn missing(measurement: &Measurement) -> Vec<String> {
    let Measurement { cut_off, earlier, cells, policy, .. } = measurement;
    let mut says = Vec::new();
    says.extend(cut_off.as_ref().map(|why| format!("The run did not finish, so parts are missing: {why}.")));
    if *earlier != 0 {
        says.push(format!("Other measurements before this one in the log: {}.", grouped(*earlier as u64)));
    }
    if cells.is_empty() {
        says.push("No work was measured.".to_owned());
    } else if cells.iter().all(|cell| cell.large.is_none()) {
        says.push(format!(
            "Large leaves were not measured: policy {policy} has none; split=park has, on any CPU."
        ));
    } else if cells.iter().all(|cell| cell.pages.is_none()) {
        says.push(format!("Pages were not measured: policy {policy} splits no leaves; rodata=full does."));
    }
    says
}

/// All cells of one machine.
fn works(measurement: &Measurement) -> Section {
    let walks = measurement.cells.iter().any(|cell| count_of_1000(cell, "dtlb_walk").is_some());
    let emulated = measurement.setting.emulated;
    let mut header = vec!["work", "set", "CPUs", "pages, ns", "large, ns"];
    header.extend((!emulated).then_some("large does"));
    header.extend(walks.then_some(["walks, pages", "walks, large"]).into_iter().flatten());
    let rows = measurement.cells.iter().map(|cell| {
        let ns = |turns: &Option<Turns>| {
            turns.as_ref().map(|turns| number(cell.ns_of_step(turns))).unwrap_or_default()
        };
        let mut row = vec![
            crate::printable::excerpt(&cell.work, 40),
            human(cell.bytes),
            cell.cpus.to_string(),
            ns(&cell.pages),
            ns(&cell.large),
        ];
        row.extend((!emulated).then(|| shown(measurement, cell)));
        if walks {
            let [pages, large] = count_of_1000(cell, "dtlb_walk").unwrap_or_default();
            row.extend([pages, large].map(|count| count.map(number).unwrap_or_default()));
        }
        row
    });
    let change = if emulated { "." } else { "; the change is of work done in the same time." };
    let per_step = if walks { " Walks are for each 1,000 steps." } else { "" };
    Section::new("Works", "RAM in pages and in large leaves, in turns")
        .table(&header, rows)
        .noted(format!("Times are of one step on one CPU, the median of the turns{change}{per_step}"))
}

/// Returns the additional work that large leaves do, if both maps were measured.
fn shown(measurement: &Measurement, cell: &Cell) -> String {
    match verdict::of(&measurement.setting, cell) {
        Some(verdict) => verdict.to_string(),
        None if measurement.setting.emulated => "emulated".to_owned(),
        None => String::new(),
    }
}

/// Returns the same, and the change of TLB misses if they were counted: some of the published figures are of these.
fn beside_published(measurement: &Measurement, cell: &Cell) -> String {
    let work = shown(measurement, cell);
    match tlb_misses(cell).filter(|_| !measurement.setting.emulated) {
        Some(misses) => format!("{work}, {misses}"),
        None => work,
    }
}

/// Returns the change of TLB misses in large leaves: of refills of the first level, else of walks, as both maps counted them.
fn tlb_misses(cell: &Cell) -> Option<String> {
    [("l1d_tlb_refill", "L1 TLB refills"), ("dtlb_walk", "walks")].into_iter().find_map(|(event, name)| {
        let percent = change(count_of_1000(cell, event)?)?;
        Some(format!("{percent:+.1}% {name}"))
    })
}

/// Returns an event for each 1,000 steps over both maps, if one of them counted it.
fn count_of_1000(cell: &Cell, event: &str) -> Option<[Option<f64>; 2]> {
    let of = |turns: &Option<Turns>| turns.as_ref().and_then(|turns| cell.of_1000_steps(turns, event));
    let both = [of(&cell.pages), of(&cell.large)];
    both.iter().any(Option::is_some).then_some(both)
}

/// The events that the PMU counted over the largest set of each work.
fn counts(measurement: &Measurement) -> Option<Section> {
    let works = Work::ALL.iter().filter_map(|work| largest(measurement, work.name()));
    let rows = works.flat_map(|cell| {
        let both = [&cell.pages, &cell.large].into_iter().flatten();
        let events: BTreeSet<&String> = both.flat_map(|turns| turns.counts.keys()).collect();
        events.into_iter().filter_map(|event| counted(cell, event))
    });
    let header = ["work", "set", "CPUs", "event", "pages", "large", "change"];
    let section = Section::new("Counts", "events over the largest set of each work, for each 1,000 steps");
    let section = section.table(&header, rows);
    (!section.rows.is_empty() && !measurement.setting.emulated).then_some(section)
}

/// One event of a cell.
fn counted(cell: &Cell, event: &str) -> Option<Vec<String>> {
    let counts = count_of_1000(cell, event)?;
    let [pages, large] = counts.map(|count| count.map(number).unwrap_or_default());
    let change = change(counts).map(|percent| format!("{percent:+.1}%")).unwrap_or_default();
    let event = crate::printable::excerpt(event, 40);
    Some(vec![cell.work.clone(), human(cell.bytes), cell.cpus.to_string(), event, pages, large, change])
}

/// Returns the change of a count from pages to large leaves in percent, if both have it.
fn change([pages, large]: [Option<f64>; 2]) -> Option<f64> {
    Some((large? / pages.filter(|pages| *pages > 0.0f64)? - 1.0) * 100.0)
}

/// The times of changes of the map.
fn changes(measurement: &Measurement) -> Option<Section> {
    let rows = measurement.changes.iter().map(|(name, change)| {
        let [least, _, median, _, most] = change.ns.map(grouped);
        vec![crate::printable::excerpt(name, 40), change.times.to_string(), least, median, most]
    });
    let header = ["change of the map", "times", "least, ns", "median, ns", "most, ns"];
    let section = Section::new("Changes", "creation, splits, a parking and a repaint").table(&header, rows);
    (!section.rows.is_empty()).then_some(section)
}

/// The model beside the measurement.
fn model(measurement: &Measurement, predicted: &Predicted) -> Section {
    let (core, cells) = match predicted {
        Predicted::Nothing(why) => return Section::new("Model", format!("nothing is modelled: {why}")),
        Predicted::Cells(core, cells) => (core, cells),
    };
    let rows = cells.iter().map(|modelled| {
        let measured = measured_walks(measurement, modelled);
        let [pages, large] = modelled.walks.map(number);
        let shown = |walks: Option<f64>| walks.map_or_else(|| "not counted".to_owned(), number);
        let [own_pages, own_large] = measured.map(shown);
        vec![human(modelled.bytes), pages, own_pages, large, own_large]
    });
    let header = ["set", "pages: modelled", "measured", "large: modelled", "measured"];
    let says = format!("walks of {core}, for each 1,000 dependent loads of one CPU");
    let section = Section::new("Model", says).table(&header, rows);
    cells.iter().filter_map(|modelled| difference(measurement, modelled)).fold(section, Section::noted)
}

fn measured_walks(measurement: &Measurement, modelled: &Modelled) -> [Option<f64>; 2] {
    let cell = measurement.cell((modelled.work.name(), modelled.bytes, 1));
    cell.and_then(|cell| count_of_1000(cell, "dtlb_walk")).unwrap_or_default()
}

/// Says where model and measurement differ: by more than a tenth of the accesses.
fn difference(measurement: &Measurement, modelled: &Modelled) -> Option<String> {
    let apart: Vec<_> = ["pages", "large leaves"]
        .into_iter()
        .zip(modelled.walks.into_iter().zip(measured_walks(measurement, modelled)))
        .filter_map(|(map, (modelled, measured))| {
            let measured = measured.filter(|measured| (measured - modelled).abs() > 100.0f64)?;
            Some(format!("{} walks in {map} where the model has {}", number(measured), number(modelled)))
        })
        .collect();
    (!apart.is_empty()).then(|| {
        format!("Model and measurement differ over {}: {}.", human(modelled.bytes), apart.join(", and "))
    })
}

/// The changes of several machines, in the order of the first one's cells.
fn side_by_side(reported: &[Reported]) -> Section {
    let mut keys: Vec<_> = Vec::new();
    for cell in reported.iter().flat_map(|one| &one.measurement.cells) {
        let key = (&*cell.work, cell.bytes, cell.cpus);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let names = reported.iter().map(|one| &*one.measurement.name);
    let header: Vec<_> = ["work", "set", "CPUs"].into_iter().chain(names).collect();
    let rows = keys.into_iter().map(|key| {
        let changes = reported.iter().map(|one| {
            one.measurement.cell(key).map(|cell| shown(&one.measurement, cell)).unwrap_or_default()
        });
        [crate::printable::excerpt(key.0, 40), human(key.1), key.2.to_string()]
            .into_iter()
            .chain(changes)
            .collect()
    });
    Section::new("Side by side", "the additional work that large leaves do in the same time")
        .table(&header, rows)
}

/// The published figures beside the largest set of each machine.
fn published(reported: &[Reported]) -> Section {
    let names = reported.iter().map(|one| &*one.measurement.name);
    let header: Vec<_> = ["work", "published, of Linux"].into_iter().chain(names).collect();
    let rows = PUBLISHED.iter().map(|published| {
        let measured = reported.iter().map(|one| {
            let largest = largest(&one.measurement, published.work);
            largest.map(|cell| beside_published(&one.measurement, cell)).unwrap_or_default()
        });
        [published.work.to_owned(), published.what.to_owned()].into_iter().chain(measured).collect()
    });
    Section::new("Published by others", "beside the largest set on all CPUs here")
        .table(&header, rows)
        .noted("Theirs are of whole programs on other machines; these are of the same kind, not the same.")
}

/// Returns the cell of a work over the largest set, of these that on the most CPUs.
fn largest<'m>(measurement: &'m Measurement, work: &str) -> Option<&'m Cell> {
    measurement.cells.iter().filter(|cell| cell.work == work).max_by_key(|cell| (cell.cpus, cell.bytes))
}

/// Writes a number with three digits or more.
fn number(value: f64) -> String {
    match value {
        v if v >= 1000.0 => grouped(v.round() as u64),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v > 0.0 => format!("{v:.2}"),
        _ => "0".to_owned(),
    }
}
