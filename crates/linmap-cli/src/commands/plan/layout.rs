//! Lays the linear map out by the image's own code: its choice of geometry, its plan of memory, its decision.

use std::ops::Range;

use kernel_plan::bootargs::{BootArgs, Reservation};
use kernel_plan::note::Subject;
use kernel_plan::plan::{Given as PlanInput, Plan, Room};
use kernel_plan::{admit, choice};
use linmap::cpu::Features;
use linmap::policy::Decision;
use linmap::{Geometry, Granule, Layout, Pa};

use super::failure::Failure;
use super::given::Given;

/// The CPU of a plan: the default of `linmap boot`, an AmpereOne with every translation feature of the architecture and
/// 52-bit addresses.
const CPU: u64 = 0xc00f_ac30;

fn features() -> Features {
    // TGran4 and TGran16 with LPA2, TGran64, 52 bits of physical address; VARange 52 bits.
    Features { midr: CPU, mmfr0: 0x1020_1126, mmfr2: 1 << 16, ..Features::default() }
}

/// A layout, and the decisions that led to it.
pub(crate) struct Laid<'l> {
    pub(crate) layout: &'l Layout<'l>,
    pub(crate) geometry: Geometry,
    pub(crate) decision: Decision,
    /// The kernel's code and constants in the linear map; may be empty.
    pub(crate) alias: Range<Pa>,
    pub(crate) crash: Option<Range<Pa>>,
    /// Bytes of RAM beyond all physical addresses.
    pub(crate) beyond_bytes: u64,
    /// Notes on memory that is left out or moved.
    pub(crate) notes: Vec<String>,
}

/// Lays out the linear map for one page size, and hands it to `use_it`.
pub(crate) fn lay_out<R>(
    given: &Given<'_>,
    granule: Granule,
    use_it: impl FnOnce(Laid<'_>) -> R,
) -> Result<R, Failure> {
    let failed = |reason: String| Failure::Layout { granule: granule.to_string(), reason };
    let args = boot_arguments(given, granule);
    let features = features();
    let mut notes = Vec::new();
    let geometry = choice::geometry(&args, &features, |fallback| notes.push(fallback.to_string()))
        .map_err(|_| failed("this build has no such pages".to_owned()))?;
    let input = plan_input(given, &args, &features, geometry);
    let mut room = Room::default();
    let plan = Plan::new(&input, &mut room, &mut |note| {
        // A plan without a kernel misses none.
        if note.subject() != Subject::Image || !given.read_only.is_empty() {
            notes.push(note.to_string());
        }
    })
    .map_err(|error| failed(error.to_string()))?;
    let claims = |cpu| admit::claims(args.bbml2, cpu, features.bbm_promise());
    // The map is made before other CPUs have reported.
    let first = Decision::on_boot_cpu(claims(0), args.rodata, args.split);
    plan.first_frames(first.leaves()).map_err(|error| failed(error.to_string()))?;
    let others = (1..usize::from(given.options.cpus)).all(claims);
    let decision = Decision::when_all_reported(claims(0), others, args.rodata, args.split);
    let Plan { layout, alias, crash, beyond_bytes, .. } = plan;
    Ok(use_it(Laid { layout: &layout, geometry, decision, alias, crash, beyond_bytes, notes }))
}

/// Returns the boot arguments of the options, for a kernel without tasks. The crash kernel of /proc/iomem counts
/// unless an option names another.
fn boot_arguments(given: &Given<'_>, granule: Granule) -> BootArgs<'static> {
    let args = given.options.kernel_options.boot_arguments(granule, "");
    let there = given.crash.as_ref().map(|r| Reservation { size: r.end.0 - r.start.0, at: Some(r.start.0) });
    BootArgs { crashkernel: args.crashkernel.or(there), ..args }
}

/// Returns the input of the kernel's plan of memory.
fn plan_input<'g>(
    given: &'g Given<'_>,
    args: &'g BootArgs<'g>,
    features: &Features,
    geometry: Geometry,
) -> PlanInput<'g> {
    PlanInput {
        ram: &given.memory.ram,
        reserved: &given.memory.reserved,
        no_map: &given.memory.no_map,
        args,
        geometry,
        pa_bits: choice::pa_bits(features, geometry),
        image: given.image.clone(),
        read_only: given.mapped_read_only(geometry.page_size()),
        data: Pa(0)..Pa(0),
        tree: given.tree.clone(),
    }
}
