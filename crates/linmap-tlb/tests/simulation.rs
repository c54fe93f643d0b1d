//! Workloads and traces on small machines.

use std::io::Write;

use linmap::{Geometry, Granule, Layout, OaFormat, Pa, Rodata};
use linmap_tlb::{
    Conditions, Core, MissCounts, Parameters, Placement, Simulation, SimulationError, TraceFormat, Workload,
};

const MIB: u64 = 1 << 20;
const SMALL: Conditions =
    Conditions { footprint: 64 * MIB, placement: Placement::Aged, accesses: 20_000, seed: 1 };

/// Runs something on a core over 1 GiB of RAM from 1 GiB on, of which the first 2 MiB are reserved.
fn on<R>(core: &Core, granule: Granule, run: impl FnOnce(&Simulation<'_>) -> R) -> R {
    let geometry = Geometry::new(granule, 48, OaFormat::Bits48).expect("a geometry");
    let mut ram = [Pa(1024 * MIB)..Pa(2048 * MIB)];
    let reserved = Pa(1024 * MIB)..Pa(1026 * MIB);
    let layout = Layout::new(geometry, &mut ram, &mut [], reserved.clone(), Rodata::Full).expect("a layout");
    run(&Simulation::new(core, &layout, &[reserved]).expect("a simulation"))
}

fn n1() -> Core {
    Core::named("neoverse-n1").expect("a core")
}

#[test]
fn every_workload_counts_at_every_page_size_and_the_same_for_the_same_seed() {
    for granule in Granule::ALL {
        on(&n1(), granule, |simulation| {
            for workload in Workload::ALL {
                let counts = simulation.run(workload, &SMALL).expect("counts");
                assert_eq!(counts, simulation.run(workload, &SMALL).expect("counts"));
                let MissCounts { pages, large } = counts;
                assert_eq!(pages.accesses, large.accesses);
                assert!(pages.accesses >= SMALL.accesses && large.walks <= pages.walks, "{workload:?}");
                for map in [pages, large] {
                    let ordered = [map.walks, map.l1_misses, map.accesses];
                    assert!(ordered.is_sorted() && map.walk_reads >= map.walks, "{workload:?}: {map:?}");
                }
            }
        });
    }
}

fn replay(trace: &str, conditions: &Conditions) -> Result<MissCounts, SimulationError> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(trace.as_bytes()).expect("written");
    let mut parameters = Parameters::built_in("neoverse-n1").expect("a core");
    parameters.set("coalesce=1", "a test", "here").expect("a change");
    let core = parameters.core().expect("a core");
    on(&core, Granule::K4, |simulation| simulation.replay(file.path(), TraceFormat::Auto, conditions))
}

#[test]
fn a_trace_is_replayed_line_by_line() {
    // Two pages, then an access that crosses from the second into a third.
    let trace = "linmap-trace 1 virtual\nR 0x1000 128\nW 0x5000\nR 0x5ffc 8\n";
    let MissCounts { pages, large } = replay(trace, &SMALL).expect("counts");
    assert_eq!((pages.accesses, pages.walks), (2 + 1 + 2, 3));
    assert_eq!(large.accesses, pages.accesses);
    // In RAM, and one page is 2 MiB away from the other: two leaves of 2 MiB, in one run of 32 MiB.
    let trace = "linmap-trace 1 physical\nR 0x44000000\nR 0x44200000\n";
    let MissCounts { pages, large } = replay(trace, &SMALL).expect("counts");
    assert_eq!((pages.walks, large.walks), (2, 1));
}

#[test]
fn a_trace_that_cannot_be_replayed_is_refused_by_its_line() {
    let refused =
        |trace: &str, conditions: &Conditions| replay(trace, conditions).expect_err("refused").to_string();
    let outside = refused("linmap-trace 1 physical\nR 0x40000000\nR 0x90000000\n", &SMALL);
    assert!(outside.ends_with(":3: `R 0x90000000`: no RAM of this machine is there"), "{outside}");
    let one_page = Conditions { footprint: 4096, placement: Placement::Fresh, ..SMALL };
    let second = refused("linmap-trace 1 virtual\nR 0x1000\nR 0x2000\n", &one_page);
    assert!(second.contains(":3: ") && second.contains("more memory is touched"), "{second}");
}

#[test]
fn a_workload_that_does_not_fit_is_refused() {
    let conditions = Conditions { footprint: 2048 * MIB, ..SMALL };
    let error = on(&n1(), Granule::K4, |simulation| simulation.run(Workload::Fork, &conditions));
    match error {
        Err(SimulationError::TooLittleMemory { needed, available }) => {
            assert!(needed >= 2000 * MIB && available == 1022 * MIB, "{needed:#x} {available:#x}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn small_entries_make_both_maps_the_same() {
    let text = "name = X\nl1.entries = 4\nl1.ways = 4\nl1.sizes = 4K\nl2.entries = 8\nl2.ways = 4\nl2.sizes = 4K\n\
                coalesce = 1\ncontiguous = no\nwalk.cache = none\nreplacement = random\n";
    let core = Parameters::parse("x", text).and_then(Parameters::core).expect("a core");
    let counts =
        on(&core, Granule::K4, |simulation| simulation.run(Workload::Uniform, &SMALL)).expect("counts");
    assert!(counts.pages.walks > 19_000, "{counts:?}");
    // Without entries larger than a page both maps are the same to it, but for the depth of the walk.
    assert_eq!(counts.pages.walks, counts.large.walks);
    assert!(counts.pages.walk_reads > counts.large.walk_reads);
}
