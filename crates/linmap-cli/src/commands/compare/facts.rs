//! Pure: what is compared, and which machines agree.

use crate::commands::stat::{Facts, Machine, share};
use crate::map::leaves;
use crate::size::{grouped, human};

/// The boot arguments that decide about the linear map.
const ARGUMENTS: [&str; 4] = ["rodata", "debug_pagealloc", "crashkernel", "kfence.sample_interval"];

/// Machines side by side.
#[derive(Debug)]
pub(super) struct Comparison {
    /// The SOURCE of each machine.
    pub(super) machines: Vec<String>,
    pub(super) facts: Vec<Fact>,
    /// The numbers of machines that have equal values, in order of their first.
    pub(super) groups: Vec<Vec<usize>>,
}

/// One fact: its name, and its value on each machine if it is known there.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) name: String,
    pub(super) values: Vec<Option<String>>,
}

impl Fact {
    /// Returns true if two machines on which it is known have different values.
    pub(super) fn differs(&self) -> bool {
        let mut known = self.values.iter().flatten();
        known.next().is_some_and(|first| known.any(|other| other != first))
    }

    /// Returns its value on one machine, for people.
    pub(super) fn shown(&self, machine: usize) -> &str {
        self.values.get(machine).and_then(Option::as_deref).unwrap_or("unknown")
    }
}

impl Comparison {
    /// Compares machines that have all been read.
    pub(super) fn of(machines: &[Machine]) -> Self {
        let facts = facts(machines);
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for machine in 0..machines.len() {
            let alike = |group: &&mut Vec<usize>| {
                facts.iter().all(|fact| fact.values[group[0]] == fact.values[machine])
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.push(machine),
                None => groups.push(vec![machine]),
            }
        }
        Self { machines: machines.iter().map(|machine| machine.source.clone()).collect(), facts, groups }
    }

    pub(super) fn differs(&self) -> bool {
        self.facts.iter().any(Fact::differs)
    }

    /// Returns the heading of a group's column.
    pub(super) fn head(&self, group: &[usize]) -> String {
        let first = group.first().and_then(|first| self.machines.get(*first)).map_or("", String::as_str);
        match group.len() {
            0 | 1 => first.to_owned(),
            more => format!("{first} and {} more", more - 1),
        }
    }
}

/// Returns all facts, in the order in which they are shown.
fn facts(machines: &[Machine]) -> Vec<Fact> {
    let facts: Vec<_> = machines.iter().map(|machine| machine.facts.as_ref().ok()).collect();
    let fact = |name: &str, of: &dyn Fn(&Facts) -> Option<String>| Fact {
        name: name.to_owned(),
        values: facts.iter().map(|facts| facts.and_then(of)).collect(),
    };
    let mut list = vec![
        fact("kernel", &|f| f.release.clone()),
        fact("CPUs", &|f| (!f.cpus.is_empty()).then(|| f.cpus.join(", "))),
        fact("boot arguments", &|f| f.command_line.as_deref().map(arguments)),
        fact("page size", &|f| Some(f.granule.clone())),
        fact("VA bits", &|f| Some(f.va_bits.to_string())),
        fact("linear map", &|f| Some(human(f.bytes))),
        fact("in pages because of", &|f| Some(if f.in_pages { f.causes.join(" ") } else { "-".to_owned() })),
    ];
    // Every size that some machine has, largest first.
    let mut sizes: Vec<_> = facts.iter().flatten().flat_map(|f| f.leaves.iter().map(|leaf| leaf.0)).collect();
    sizes.sort_by_key(|size| std::cmp::Reverse((size.shift, size.entry_shift)));
    sizes.dedup();
    for size in sizes {
        list.push(fact(&format!("in leaves of {}", leaves::name(size)), &|f| {
            let count = f.leaves.iter().find(|leaf| leaf.0 == size).map_or(0, |leaf| leaf.1);
            Some(share(count.saturating_mul(1 << size.entry_shift), f.bytes))
        }));
    }
    let mut purposes: Vec<&str> =
        facts.iter().flatten().flat_map(|f| f.invalid.iter().map(|i| i.0)).collect();
    purposes.sort_unstable();
    purposes.dedup();
    for purpose in purposes {
        list.push(fact(&format!("invalid: {purpose}"), &|f| {
            Some(f.invalid.iter().find(|kind| kind.0 == purpose).map_or("-".to_owned(), |kind| human(kind.1)))
        }));
    }
    list.extend([
        fact("table memory", &|f| Some(human(f.table_bytes))),
        fact("TLB entries to cover RAM", &|f| Some(grouped(f.tlb_entries))),
    ]);
    list
}

/// Returns the boot arguments that decide about the linear map, or `-`.
fn arguments(line: &str) -> String {
    let name = |word: &&str| {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        ARGUMENTS.contains(&name)
    };
    let found: Vec<&str> = line.split_ascii_whitespace().filter(name).collect();
    if found.is_empty() { "-".to_owned() } else { crate::printable::line(&found.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(values: [Option<&str>; 3]) -> Fact {
        Fact { name: "x".into(), values: values.map(|value| value.map(str::to_owned)).to_vec() }
    }

    #[test]
    fn what_is_not_known_does_not_differ() {
        assert!(fact([Some("a"), None, Some("b")]).differs());
        assert!(!fact([Some("a"), None, Some("a")]).differs());
        assert!(!fact([None, None, None]).differs());
        assert_eq!(fact([None, None, None]).shown(7), "unknown");
    }

    #[test]
    fn only_arguments_that_decide_are_compared() {
        assert_eq!(
            arguments("quiet rodata=full root=/dev/vda1 crashkernel=256M"),
            "rodata=full crashkernel=256M"
        );
        assert_eq!(arguments("quiet debug_pagealloc"), "debug_pagealloc");
        assert_eq!(arguments(""), "-");
    }
}
