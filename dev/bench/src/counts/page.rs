//! The page of all counts, with its plots: `docs/benchmarks/counts.md` and its siblings.

#[cfg(test)]
mod agreement;
mod changes;
mod creation;
mod holds;
mod moving;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use super::boots::{Map, PageSize};
use super::choosing::{self, Image, Targets};
use super::machine::Versions;
use super::results::Results;

/// The command that writes the files.
pub(super) const WRITES: &str = "make bench ARGS='counts --report'";

/// Returns the name and text of each file.
pub(crate) fn files(
    results: &Results,
    images: &BTreeMap<Option<PageSize>, Image>,
    targets: &Targets,
    versions: &Versions,
) -> Vec<(String, String)> {
    let sections = [
        ("Creating the map", creation::section(results)),
        ("One page becomes read-only", changes::section(results)),
        ("A map in large leaves becomes pages", moving::repaint(results)),
        ("Splits while the other CPUs are parked", moving::park(results)),
        ("How long a lock is held", holds::section(results)),
        ("Every window", windows::section(results)),
        ("Choosing the page size at boot", choosing::section(results, images, targets)),
    ];
    let mut text = introduction(versions);
    for (title, section) in sections {
        text += &format!("\n## {title}\n\n{section}");
    }
    text += &format!("\n## The boots\n\n{}", boots(results));
    let plots = creation::plots(results).into_iter().chain([moving::plot(results)]);
    [("counts.md".to_owned(), text)].into_iter().chain(plots).collect()
}

fn introduction(Versions { qemu, rustc }: &Versions) -> String {
    format!(
        "# Exact counts under QEMU\n\n\
         Written by `{WRITES}`. Do not edit.\n\n\
         The image reads the CPU's event counter (INST_RETIRED). QEMU's `-icount` makes it exact, so the same image \
         counts the same on every machine. A *window* is the code between two readings. Barriers and TLB invalidations \
         are counted where they are issued. QEMU runs the CPUs in turns; instructions are the sum over all CPUs.\n\n\
         Counted with {qemu}; the image was built by {rustc}. Another compiler makes different \
         instructions from the same code. Another QEMU runs the same instructions as long as its device tree and its \
         `-cpu max` lead to the same choices at boot; no other version was tried.\n\n\
         Linux is Debian's 7.2, counted by a plugin of QEMU 7.2 (`-M virt,gic-version=3 -cpu max,pauth-impdef=on \
         -smp 1`, one bank of RAM at 0x40000000). An empty cell was not counted.\n"
    )
}

/// Returns the commands behind the counts: one line for those that differ only in page size and RAM.
fn boots(results: &Results) -> String {
    let mut kinds = BTreeMap::<(Map, bool), BTreeSet<u64>>::new();
    for boot in results.0.keys() {
        kinds.entry((boot.map, boot.fixed)).or_default().insert(boot.gib);
    }
    let line = |((map, fixed), sizes): (&(Map, bool), &BTreeSet<u64>)| {
        let ram: Vec<String> = sizes.iter().map(|gib| format!("{gib}G")).collect();
        let image = if *fixed { "--image target/fixed/fixed-SIZE.img " } else { "" };
        let options = map.options();
        format!("linmap boot --count --json {image}--page-size SIZE --ram {} {options}\n", ram.join("|"))
    };
    let lines: String = kinds.iter().map(line).collect();
    format!("SIZE is 4k, 16k or 64k.\n\n```sh\n{lines}```\n")
}
