//! The areas of each CPU (`mm/percpu.c`): its copy of the image's per-CPU variables by symbols, and the chunks of the
//! allocator by its lists.
//!
//! All chunks are laid out alike: the unit of a CPU is as far from the start of a chunk as its copy of the variables is from
//! `pcpu_base_addr`, the start of the first one.

use std::ops::Range;

use super::Structures;

/// More CPUs than Linux has on arm64, and more bytes of variables than a kernel has.
const MAX_CPUS: u64 = 1 << 13;
const MAX_VARIABLES: u64 = 64 << 20;
/// More slots than the allocator has, and more pages than a unit.
const MAX_SLOTS: u64 = 64;
const MAX_PAGES: u64 = 1 << 14;
/// More areas than a machine has.
const MAX_AREAS: usize = 1 << 16;

/// The areas of all CPUs, by their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerCpu {
    /// The variables of each CPU, by symbols.
    pub(crate) variables: Vec<Range<u64>>,
    /// The units of chunks, by the lists of the allocator.
    pub(crate) chunks: Vec<Range<u64>>,
}

impl PerCpu {
    /// Finds the areas, in pages of this size; those that are not known are left out.
    pub(crate) fn of(kernel: &Structures<'_>, page: u64) -> Self {
        let Some((image, offsets)) = variables(kernel) else { return Self::default() };
        let moved = |offset: &u64| image.start.wrapping_add(*offset)..image.end.wrapping_add(*offset);
        let variables: Vec<_> = offsets.iter().map(moved).filter(|area| area.start < area.end).collect();
        let chunks = chunks(kernel, &variables, page).unwrap_or_default();
        Self { variables, chunks }
    }
}

/// Returns where the image has the variables, and how far each CPU's copy is from there.
fn variables(kernel: &Structures<'_>) -> Option<(Range<u64>, Vec<u64>)> {
    let image = kernel.symbol("__per_cpu_start")?..kernel.symbol("__per_cpu_end")?;
    let bytes = image.end.checked_sub(image.start)?;
    let cpus = u64::from(kernel.half(kernel.symbol("nr_cpu_ids")?)?);
    if bytes > MAX_VARIABLES || cpus > MAX_CPUS {
        return None;
    }
    let at = kernel.symbol("__per_cpu_offset")?;
    let offsets = (0..cpus).filter_map(|cpu| kernel.word(at.wrapping_add(cpu * 8)));
    // A CPU that is not possible has none.
    Some((image, offsets.filter(|offset| *offset != 0).collect()))
}

/// Returns the units of all chunks.
fn chunks(kernel: &Structures<'_>, variables: &[Range<u64>], page: u64) -> Option<Vec<Range<u64>>> {
    let of = |member| kernel.offset("pcpu_chunk", member);
    let (link, base, pages) = (of("list")?, of("base_addr")?, of("nr_pages")?);
    let first = kernel.word(kernel.symbol("pcpu_base_addr")?)?;
    let slots = kernel.word(kernel.symbol("pcpu_chunk_lists")?)?;
    let count = u64::from(kernel.half(kernel.symbol("pcpu_nr_slots")?)?).min(MAX_SLOTS);
    let listed = (0..count).flat_map(|slot| kernel.list_at(slots.wrapping_add(slot * 16), link));
    // That of modules is in no list.
    let reserved = kernel.symbol("pcpu_reserved_chunk").and_then(|at| kernel.word(at)).filter(|at| *at != 0);
    let mut areas = Vec::new();
    for chunk in reserved.into_iter().chain(listed) {
        let read = (kernel.word(chunk.wrapping_add(base)), kernel.half(chunk.wrapping_add(pages)));
        let (Some(start), Some(pages)) = read else { continue };
        let bytes = u64::from(pages).min(MAX_PAGES) * page;
        let unit = |variables: &Range<u64>| start.wrapping_add(variables.start.wrapping_sub(first));
        areas.extend(variables.iter().map(unit).map(|unit| unit..unit.saturating_add(bytes)));
        if areas.len() > MAX_AREAS {
            break;
        }
    }
    Some(areas)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{IMAGE, Machine};
    use super::*;

    const FIRST: u64 = 0xffff_0000_7000_0000;
    const LATER: u64 = 0xffff_8000_9000_0000;
    const PAGE: u64 = 4096;

    /// Two CPUs of three that are possible, with units of 64K, and a chunk in vmalloc.
    fn machine() -> Machine {
        let mut machine = Machine::new(false);
        let offset = FIRST.wrapping_sub(IMAGE);
        machine.put(0x8000, &[offset, 0, offset.wrapping_add(0x1_0000)]);
        machine.put(0x8100, &[3, FIRST, 0x9000, 2, 0xa000]);
        // Slots: the first is empty, the other has two chunks.
        machine.put(0x9000, &[0x9000, 0x9000, 0xb010, 0xc010]);
        for (chunk, next, base, pages) in
            [(0xa000, 0, FIRST + 0x2000, 2), (0xb000, 0xc010, FIRST + 0x4000, 3), (0xc000, 0x9010, LATER, 16)]
        {
            machine.put(chunk, &[0; 16]);
            machine.put(chunk + 16, &[next]);
            machine.put(chunk + 64, &[base]);
            machine.put(chunk + 96, &[pages << 32]);
        }
        machine
    }

    fn per_cpu(machine: &Machine, without: &str) -> PerCpu {
        let symbol = |name: &str| machine.symbol(name).filter(|_| name != without);
        let read = |at, into: &mut [u8]| machine.read(at, into);
        PerCpu::of(&Structures::new(&symbol, &read, None), PAGE)
    }

    #[test]
    fn each_cpu_has_its_variables_and_its_units() {
        let found = per_cpu(&machine(), "");
        let (one, other) = (FIRST, FIRST + 0x1_0000);
        assert_eq!(found.variables, [one..one + 0x2100, other..other + 0x2100]);
        let expected = [(FIRST + 0x2000, 2 * PAGE), (FIRST + 0x4000, 3 * PAGE), (LATER, 16 * PAGE)];
        let units =
            expected.iter().flat_map(|(at, bytes)| [0, 0x1_0000].map(|unit| at + unit..at + unit + bytes));
        assert_eq!(found.chunks, units.collect::<Vec<_>>());
    }

    #[test]
    fn a_kernel_that_says_less_has_less() {
        let found = per_cpu(&machine(), "pcpu_chunk_lists");
        assert_eq!((found.variables.len(), found.chunks.len()), (2, 0));
        assert_eq!(per_cpu(&machine(), "__per_cpu_offset"), PerCpu::default());
        let mut many = machine();
        many.put(0x8100, &[u64::MAX]);
        assert_eq!(per_cpu(&many, ""), PerCpu::default());
    }
}
