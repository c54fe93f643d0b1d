//! Exact counts of the image under QEMU: instructions, TLBIs, barriers and table pages, compared with stored counts and
//! with Linux.
//!
//! Some are stored in the repository. CI measures them again and fails if one has grown (`compare.rs`). A page with
//! plots reports all of them (`page.rs`).

mod boots;
mod choosing;
pub(crate) mod compare;
mod counted;
pub(crate) mod linux;
mod machine;
mod page;
mod results;
pub(crate) mod stored;

use std::collections::BTreeMap;
use std::path::Path;

use boots::Boot;
pub(crate) use boots::{Map, PageSize};
use choosing::Image;
pub(crate) use counted::Figures;
use machine::Machine;
use results::Results;
pub(crate) use stored::Stored;

/// The file of stored figures.
pub(crate) const STORED: &str = "docs/benchmarks/counts.json";
/// The directory of the page and its plots.
const PAGES: &str = "docs/benchmarks";

/// Measures the stored figures again and compares. `--update` stores the new ones, `--sizes` prints the cost of
/// choosing the page size at boot, `--report` measures everything and writes the page.
///
/// # Errors
///
/// A boot fails, a figure has grown by more than 2% or is above its budget, or a file cannot be read or written.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let machine = Machine::new()?;
    match args.as_slice() {
        [] => check(&machine),
        ["--update"] => update(&machine),
        ["--sizes"] => sizes(&machine),
        ["--report"] => report(&machine),
        _ => Err(format!("expected --update, --sizes or --report, not \"{}\"", args.join(" "))),
    }
}

/// Measures all figures of the kind that is stored.
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
        println!("Another compiler built this image: instructions are shown, not judged.\n");
    }
    let differences = compare::differences(&stored.figures, &now.figures, same_compiler);
    if differences.is_empty() {
        println!("{} figures, all equal to those in {STORED}", now.figures.len());
        return Ok(());
    }
    println!("{}", compare::text(&differences));
    match compare::failed(&differences) {
        0 => println!("None has grown by more than 2%. {}", advice()),
        failed => {
            return Err(format!(
                "{failed} of {} figures have grown by more than 2% or are gone.\n\
                 If the change is worth that: {}",
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

/// Boots each of `boots` and returns what they counted.
fn boot_all(machine: &Machine, boots: &[Boot]) -> Result<Results, String> {
    let counted = boots.iter().map(|boot| Ok((*boot, machine.boot(boot)?)));
    Ok(Results(counted.collect::<Result<_, String>>()?))
}

/// The sizes of the image for all page sizes (`None`) and of those for one.
fn images(machine: &Machine) -> Result<BTreeMap<Option<PageSize>, Image>, String> {
    let only = PageSize::ALL.into_iter().map(Some);
    only.chain([None]).map(|only| Ok((only, machine.image(only)?))).collect()
}

fn sizes(machine: &Machine) -> Result<(), String> {
    let results = boot_all(machine, &boots::choosing())?;
    let section = choosing::section(&results, &images(machine)?);
    print!("{section}");
    match choosing::missed(&section) {
        0 => Ok(()),
        missed => Err(format!("{missed} figures are above their budgets, marked \"no\".")),
    }
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
