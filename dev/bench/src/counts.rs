//! Exact counts of the image under QEMU: instructions, TLBIs, barriers, table pages and lines of memory, compared with stored
//! counts and with Linux.
//!
//! Some are stored in the repository. CI measures them again and fails if one has grown (`compare.rs`) or is above its budget
//! (`budgets.rs`). A page with plots reports all of them (`page.rs`).

mod boots;
mod budgets;
mod choosing;
pub(crate) mod compare;
mod counted;
mod lines;
pub(crate) mod linux;
mod machine;
mod page;
mod results;
pub(crate) mod stored;

use std::collections::BTreeMap;
use std::path::Path;

use boots::Boot;
pub(crate) use boots::{Map, PageSize};
use budgets::Budget;
use choosing::{Image, Targets};
pub(crate) use counted::Figures;
pub(crate) use machine::Machine;
use page::WRITES;
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
/// A boot fails, a figure has grown too much or is above its budget, or a file cannot be read or written.
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

/// Measures all figures of the kind that is stored. Where a plugin cannot count, what it would count stays as it was stored, and the
/// reason is printed.
fn measure(machine: &Machine, stored: Option<&Stored>) -> Result<Stored, String> {
    let mut figures = Figures::new();
    for boot in boots::stored() {
        figures.extend(machine.boot(&boot)?.figures(&boot.to_string()));
    }
    match machine.lines_plugin() {
        Ok(plugin) => figures.extend(machine.lines(&plugin)?),
        Err(why) => {
            println!("NOT TESTED: atomics, DMB and lines of memory, which stay as stored: {why}");
            let before = stored.into_iter().flat_map(|stored| &stored.figures);
            let kept = before.filter(|(figure, _)| lines::is_of_plugin(figure));
            figures.extend(kept.map(|(figure, count)| (figure.clone(), *count)));
        }
    }
    Ok(Stored { versions: machine.versions()?, figures })
}

fn budgets(machine: &Machine) -> Result<Vec<Budget>, String> {
    budgets::read(&machine.read(Path::new(budgets::FILE))?)
}

fn check(machine: &Machine) -> Result<(), String> {
    let text = machine.read(Path::new(STORED)).map_err(|e| format!("{e}\n{}", advice()))?;
    let stored = Stored::read(&text).map_err(|e| format!("{STORED}: {e}"))?;
    let budgets = budgets(machine)?;
    let now = measure(machine, Some(&stored))?;
    println!("{}", lines::text(&now.figures));
    let same_compiler = stored.versions.rustc == now.versions.rustc;
    if stored.versions != now.versions {
        println!("stored with {}\nnow with    {}\n", stored.versions, now.versions);
    }
    if !same_compiler {
        println!("Another compiler built this image: instructions and lines are shown, not judged.\n");
    }
    let judged = budgets::judge(&budgets, &now.figures, same_compiler);
    print!("{}", judged.text());
    let grown = grown(&stored, &now, same_compiler);
    match judged.failed() {
        0 => grown,
        failed => Err(format!(
            "{failed} figures are above their budgets in {}.{}",
            budgets::FILE,
            grown.err().map_or_else(String::new, |e| format!("\n{e}"))
        )),
    }
}

/// Prints the differences from what is stored. An error says that some are too much.
fn grown(stored: &Stored, now: &Stored, same_compiler: bool) -> Result<(), String> {
    let differences = compare::differences(&stored.figures, &now.figures, same_compiler);
    if differences.is_empty() {
        println!("{} figures, all equal to those in {STORED}", now.figures.len());
        return Ok(());
    }
    println!("{}", compare::text(&differences));
    match compare::failed(&differences) {
        0 => println!("None has grown too much. {}", advice()),
        failed => {
            return Err(format!(
                "{failed} of {} figures have grown too much or are gone.\n\
                 If the change is worth that: {}",
                stored.figures.len(),
                advice()
            ));
        }
    }
    Ok(())
}

fn advice() -> String {
    format!(
        "`make counts ARGS=--update` stores them, `{WRITES}` writes the page; commit {STORED} and the page with the change."
    )
}

fn update(machine: &Machine) -> Result<(), String> {
    let before = machine.read(Path::new(STORED)).ok().and_then(|text| Stored::read(&text).ok());
    let now = measure(machine, before.as_ref())?;
    println!("{}", lines::text(&now.figures));
    machine.write(Path::new(STORED), &now.text())?;
    println!("{} figures stored in {STORED}; `{WRITES}` writes the page", now.figures.len());
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
    let targets = Targets::of(&budgets(machine)?)?;
    let results = boot_all(machine, &boots::choosing())?;
    let section = choosing::section(&results, &images(machine)?, &targets);
    print!("{section}");
    match choosing::missed(&section) {
        0 => Ok(()),
        missed => Err(format!("{missed} figures are above their budgets, marked \"no\".")),
    }
}

fn report(machine: &Machine) -> Result<(), String> {
    let targets = Targets::of(&budgets(machine)?)?;
    let results = boot_all(machine, &boots::reported())?;
    let images = images(machine)?;
    for (name, text) in page::files(&results, &images, &targets, &machine.versions()?) {
        let path = Path::new(PAGES).join(name);
        machine.write(&path, &text)?;
        println!("{}", path.display());
    }
    Ok(())
}
