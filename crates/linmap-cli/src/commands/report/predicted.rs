//! The model of TLBs on the accesses that the image made: the same addresses in the same order.

use kernel_plan::measure::{self, Cycle, LINE, Work};
use linmap::layout::linear_range;
use linmap::{Geometry, Granule, Layout, Leaves, OaFormat, Pa};
use linmap_tlb::{Core, Tlb, Translation};

use super::failure::Failure;
use super::measurement::{Cell, Measurement};
use crate::commands::tlb;

/// The modelled cells of one measurement.
pub(crate) enum Predicted {
    /// Nothing is modelled, for this reason.
    Nothing(String),
    /// The core, and the cells.
    Cells(String, Vec<Modelled>),
}

/// The misses of one cell in the model, for each 1,000 steps, in pages and in large leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Modelled {
    pub(crate) work: Work,
    pub(crate) bytes: u64,
    /// Misses of the first level.
    pub(crate) l1_misses: [f64; 2],
    /// Misses of the second level, each a walk.
    pub(crate) walks: [f64; 2],
}

/// Models the dependent loads of one CPU, on the core that the options name or that the measured CPU is.
pub(crate) fn of(measurement: &Measurement, core: Option<&str>) -> Result<Predicted, Failure> {
    let name = core.map_or_else(|| measurement.cpu.to_lowercase().replace(' ', "-"), str::to_owned);
    let known = linmap_tlb::Parameters::built_in_names().contains(&&*name);
    if core.is_none() && !known {
        let why = format!("there is no core file for {}; --core gives one", measurement.cpu);
        return Ok(Predicted::Nothing(why));
    }
    let core = match tlb::core(&name, &[]) {
        Err(failure) if core.is_none() => return Ok(Predicted::Nothing(failure.to_string())),
        core => core?,
    };
    let mut ram: Vec<_> = measurement.ram.iter().map(|(start, end)| Pa(*start)..Pa(*end)).collect();
    match modelled(&core, measurement, &mut ram) {
        Ok(cells) => Ok(Predicted::Cells(core.name.clone(), cells)),
        Err(why) => Ok(Predicted::Nothing(why)),
    }
}

fn modelled(
    core: &Core,
    measurement: &Measurement,
    ram: &mut [std::ops::Range<Pa>],
) -> Result<Vec<Modelled>, String> {
    let geometry = geometry(measurement).ok_or("no geometry has these pages and VA bits")?;
    let layout = Layout::of_ram(geometry, ram).map_err(|error| error.to_string())?;
    let start = layout.va(Pa(measurement.start)).ok_or("the memory is not in the RAM of the document")?;
    let start = start.0.wrapping_sub(linear_range(geometry).0.0);
    let cells = measurement.cells.iter().filter(|cell| cell.cpus == 1 && cell.work == Work::Loads.name());
    cells.map(|cell| model(core, &layout, cell, start)).collect()
}

fn geometry(measurement: &Measurement) -> Option<Geometry> {
    let granule =
        Granule::ALL.into_iter().find(|granule| 1 << granule.page_shift() == measurement.page_size)?;
    let format =
        if measurement.va_bits > 48 && granule != Granule::K64 { OaFormat::Lpa2 } else { OaFormat::Bits48 };
    Geometry::new(granule, measurement.va_bits, format).ok()
}

/// The most steps that are modelled of a cell.
const MOST: u64 = 4 << 20;

/// Makes the loads of the first turn: a warm-up, and what is counted.
fn model(core: &Core, layout: &Layout<'_>, cell: &Cell, start: u64) -> Result<Modelled, String> {
    let steps = cell.own_steps().min(MOST);
    let (cycle, planned) = (
        Cycle::of(cell.bytes / LINE),
        measure::Cell { work: Work::Loads, share: cell.bytes, cpus: 1, steps, turns: 1 },
    );
    let run = |leaves| {
        let mut tlb = Tlb::new(core, Translation::new(core, layout, leaves), 0);
        for (first, steps) in [planned.warm_up(0), (planned.first_step(0), steps)] {
            // Of both, only what the last one does is left.
            tlb.restart();
            let mut at = cycle.after(first);
            for _ in 0..steps {
                tlb.access(start.wrapping_add(at * LINE), 1);
                at = cycle.next(at);
            }
        }
        match tlb.unmapped() {
            None => Ok(*tlb.counts()),
            Some(address) => Err(format!("{address:#x} of the linear map is not RAM")),
        }
    };
    let counts = [run(Leaves::Pages)?, run(Leaves::Largest)?];
    let of_1000 = |count: u64| count as f64 * 1000.0f64 / steps as f64;
    Ok(Modelled {
        work: Work::Loads,
        bytes: cell.bytes,
        l1_misses: counts.map(|counts| of_1000(counts.l1_misses)),
        walks: counts.map(|counts| of_1000(counts.walks)),
    })
}
