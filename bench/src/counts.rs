//! Exact counts of the image under QEMU: instructions, TLBIs, barriers and table pages, beside what is stored and
//! beside Linux.
//!
//! Some are stored in the repository and measured again by CI, which fails when one grows (`compare.rs`). All are
//! reported as a page with plots (`page.rs`).

mod boots;
mod choosing;
mod compare;
mod counted;
pub(crate) mod linux;
mod machine;
mod page;
mod results;
mod stored;

use std::collections::BTreeMap;
use std::path::Path;

use crate::figures;
use boots::Boot;
pub(crate) use boots::{Map, PageSize};
use choosing::Image;
use counted::Figures;
use machine::Machine;
use results::Results;
pub(crate) use stored::Stored;

/// Where the stored figures are.
pub(crate) const STORED: &str = "docs/benchmarks/counts.json";
/// Where the page and its plots go.
const PAGES: &str = "docs/benchmarks";

/// Measures what is stored and compares, and with it the figures in documents; `--update` stores both, `--sizes` prints what choosing the page size at boot
/// takes, `--report` measures all and writes the page.
///
/// # Errors
///
/// A boot fails, a figure has grown by more than 2%, or the files can not be read or written.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let machine = Machine::new()?;
    match args.as_slice() {
        [] => check(&machine).and_then(|()| figures::check()),
        ["--update"] => update(&machine).and_then(|()| figures::update()),
        ["--sizes"] => sizes(&machine),
        ["--report"] => report(&machine),
        _ => Err(format!(
            "there are --update, --sizes and --report, one at a time, and not \"{}\"",
            args.join(" ")
        )),
    }
}

/// The figures that are to be stored, as they are now.
fn measure(machine: &Machine) -> Result<Stored, String> {
    let mut figures = Figures::new();
    for boot in boots::stored() {
        figures.extend(machine.boot(&boot)?.figures(&boot.to_string()));
    }
    Ok(Stored { versions: machine.versions()?, figures })
}

fn check(machine: &Machine) -> Result<(), String> {
    let text = machine.read(Path::new(STORED)).map_err(|e| format!("{e}\n{}", advice()))?;
    let stored = Stored::read(&text).map_err(|e| format!("{STORED}: {e}"))?;
    let now = measure(machine)?;
    let same_compiler = stored.versions.rustc == now.versions.rustc;
    if stored.versions != now.versions {
        println!("stored with {}\nnow with    {}\n", stored.versions, now.versions);
    }
    if !same_compiler {
        println!("Instructions are those of another compiler's code: they are shown, and not judged.\n");
    }
    let differences = compare::differences(&stored.figures, &now.figures, same_compiler);
    if differences.is_empty() {
        println!("{} figures, all as stored in {STORED}", now.figures.len());
        return Ok(());
    }
    println!("{}", compare::text(&differences));
    let failed = differences.iter().filter(|difference| difference.verdict.fails()).count();
    match failed {
        0 => println!("None has grown by more than 2%. {}", advice()),
        _ => {
            return Err(format!(
                "{failed} of {} figures have grown by more than 2% or are gone.\n\
                 If that is what the change is worth: {}",
                stored.figures.len(),
                advice()
            ));
        }
    }
    Ok(())
}

fn advice() -> String {
    format!("`make counts ARGS=--update` stores them; commit {STORED} with the change.")
}

fn update(machine: &Machine) -> Result<(), String> {
    let now = measure(machine)?;
    machine.write(Path::new(STORED), &now.text())?;
    println!("{} figures stored in {STORED}", now.figures.len());
    Ok(())
}

/// Boots all of these.
fn boot_all(machine: &Machine, boots: &[Boot]) -> Result<Results, String> {
    let counted = boots.iter().map(|boot| Ok((*boot, machine.boot(boot)?)));
    Ok(Results(counted.collect::<Result<_, String>>()?))
}

/// The image for all page sizes, and those for one.
fn images(machine: &Machine) -> Result<BTreeMap<Option<PageSize>, Image>, String> {
    let only = PageSize::ALL.into_iter().map(Some);
    only.chain([None]).map(|only| Ok((only, machine.image(only)?))).collect()
}

fn sizes(machine: &Machine) -> Result<(), String> {
    let results = boot_all(machine, &boots::choosing())?;
    print!("{}", choosing::section(&results, &images(machine)?));
    Ok(())
}

fn report(machine: &Machine) -> Result<(), String> {
    let results = boot_all(machine, &boots::reported())?;
    let images = images(machine)?;
    for (name, text) in page::files(&results, &images, &machine.versions()?) {
        let path = Path::new(PAGES).join(name);
        machine.write(&path, &text)?;
        println!("{}", path.display());
    }
    Ok(())
}
