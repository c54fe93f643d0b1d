//! Memory becomes a layout, as on the image: its choice of geometry, its plan of memory, its decision.

use std::ops::Range;

use kernel_plan::bootargs::BootArgs;
use kernel_plan::plan::{Given as Memory, Plan, Room};
use kernel_plan::{admit, choice};
use linmap::{Decision, Features, Geometry, Granule, Layout, Pa};

use super::failure::Failure;
use super::given::Given;
use crate::commands::boot::options::name_of;

/// The CPU that a plan is made for: what `linmap boot` has by default, an AmpereOne that translates whatever
/// the architecture has, with 52-bit addresses.
const CPU: u64 = 0xc00f_ac30;

fn features() -> Features {
    // TGran4 and TGran16 with LPA2, TGran64, 52 bits of physical address; VARange 52 bits.
    Features { midr: CPU, mmfr0: 0x1020_1126, mmfr2: 1 << 16, ..Features::default() }
}

/// A layout, and what led to it.
pub(crate) struct Laid<'l> {
    pub(crate) layout: &'l Layout<'l>,
    pub(crate) geometry: Geometry,
    pub(crate) decision: Decision,
    pub(crate) alias: Range<Pa>,
    pub(crate) crash: Option<Range<Pa>>,
    /// RAM beyond all physical addresses.
    pub(crate) beyond_bytes: u64,
    /// What was left out or moved.
    pub(crate) notes: Vec<String>,
}

/// Lays out the linear map for one page size.
pub(crate) fn lay_out<R>(
    given: &Given<'_>,
    granule: Granule,
    use_it: impl FnOnce(Laid<'_>) -> R,
) -> Result<R, Failure> {
    let line = kernel_arguments(given, granule);
    let failed = |reason: String| Failure::Layout { granule: granule.to_string(), reason };
    let mut notes = Vec::new();
    let args = BootArgs::parse(&line, |ignored| notes.push(ignored.to_string()));
    let features = features();
    let geometry = choice::geometry(&args, &features, |fallback| notes.push(fallback.to_string()))
        .map_err(|_| failed("this build has no such pages".to_owned()))?;
    let Given { machine, image, read_only, tree, .. } = given;
    let (image, read_only, tree) = (image.clone(), read_only.clone(), tree.clone());
    let has_kernel = !read_only.is_empty();
    let pa_bits = choice::pa_bits(&features, geometry);
    let memory = Memory { machine, args: &args, geometry, pa_bits, image, read_only, tree };
    let mut room = Room::default();
    let plan = Plan::new(&memory, &mut room, &mut |note| notes.push(note.to_string()))
        .map_err(|error| failed(error.to_string()))?;
    // Where no kernel is known, there is none to be missed.
    notes.retain(|note| has_kernel || !note.starts_with("the kernel image"));
    let claims = |cpu| admit::claims(args.bbml2, cpu, features.bbm_promise());
    // The map is made before other CPUs have reported.
    let first = Decision::on_boot_cpu(claims(0), args.rodata, args.split);
    plan.first_frames(first.leaves()).map_err(|error| failed(error.to_string()))?;
    let others = (1..usize::from(given.options.cpus)).all(claims);
    let decision = Decision::when_all_reported(claims(0), others, args.rodata, args.split);
    let Plan { layout, alias, crash, beyond_bytes, .. } = plan;
    Ok(use_it(Laid { layout: &layout, geometry, decision, alias, crash, beyond_bytes, notes }))
}

/// The kernel's command line, as `linmap boot` has it.
fn kernel_arguments(given: &Given<'_>, granule: Granule) -> String {
    let options = given.options;
    let mut line = format!(
        "pagesize={} va_bits={} rodata={} bbml2={} run=dump",
        granule.to_string().to_lowercase(),
        options.va_bits,
        name_of(options.rodata),
        options.bbml2,
    );
    let splits = name_of(options.rodata) == "full";
    if splits {
        line.push_str(&format!(" split={}", name_of(options.split)));
    }
    match (&options.crashkernel, &given.crash) {
        (Some(area), _) => line.push_str(&format!(" crashkernel={area}")),
        (None, Some(there)) => {
            let size = there.end.0 - there.start.0;
            line.push_str(&format!(" crashkernel={size:#x}@{:#x}", there.start.0));
        }
        (None, None) => {}
    }
    line
}
