//! Workloads of a kernel.

use crate::{document, printed, refused};

/// Few accesses in little memory, so that tests are short.
const SMALL: [&str; 6] = ["--accesses", "50k", "--footprint", "256M", "--ram", "4G"];

#[test]
fn every_workload_at_every_page_size_and_placement() {
    for page_size in ["4k", "16k", "64k"] {
        for placement in ["fresh", "aged", "random"] {
            let more = ["--page-size", page_size, "--placement", placement, "--seeds", "2"];
            let document = document(&[&SMALL[..], &more].concat());
            assert_eq!((&document["schema"], &document["ok"]), (&"linmap.tlb/1".into(), &true.into()));
            let workloads = document["workloads"].as_array().expect("workloads");
            assert_eq!(workloads.len(), 6);
            for workload in workloads {
                for seed in workload["by_seed"].as_array().expect("seeds") {
                    let of = |map: &str, key: &str| seed[map][key].as_u64().expect("a count");
                    assert_eq!(of("pages", "accesses"), of("large", "accesses"));
                    assert!(of("pages", "accesses") >= 50_000);
                    for map in ["pages", "large"] {
                        assert!(of(map, "l1_misses") <= of(map, "accesses"), "{workload:#}");
                        assert!(of(map, "walks") <= of(map, "l1_misses"), "{workload:#}");
                        assert!(of(map, "walk_reads") >= of(map, "walks"), "{workload:#}");
                    }
                    assert!(
                        of("large", "walks") <= of("pages", "walks"),
                        "{page_size} {placement}: {workload:#}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_document() {
    let options = [&SMALL[..], &["--workload", "hash-service,ramdisk-random", "--seeds", "2"]].concat();
    assert_eq!(
        printed(&[&options[..], &["--json"]].concat()),
        printed(&[&options[..], &["--json"]].concat())
    );
    let other = [&options[..], &["--seed", "9"]].concat();
    assert_ne!(document(&options)["workloads"], document(&other)["workloads"]);
}

/// Random accesses to far more memory than a TLB reaches nearly always miss; to far less, never.
#[test]
fn reach_is_what_counts() {
    let misses = |footprint: &str, changes: &[&str]| {
        let fixed = ["--workload", "uniform", "--accesses", "100k", "--ram", "8G", "--footprint", footprint];
        let placed = ["--placement", "random", "--seeds", "1"];
        let document = document(&[&fixed[..], &placed, changes].concat());
        let seed = &document["workloads"][0]["by_seed"][0];
        ["pages", "large"].map(|map| seed[map]["walk_ratio"].as_f64().expect("a ratio"))
    };
    // 1,280 entries of 4K, or of 16K where four coalesce in memory that is in order.
    let [pages, large] = misses("4G", &["--set", "coalesce=1"]);
    assert!(pages > 0.95 && large < 0.001, "{pages} {large}");
    let [pages, _] = misses("16M", &["--set", "coalesce=1", "--placement", "fresh"]);
    assert!((0.6..0.8).contains(&pages), "16M are 4,096 pages: {pages}");
    let [pages, _] = misses("16M", &["--placement", "fresh"]);
    assert!(pages < 0.05, "16M are 1,024 groups of pages: {pages}");
}

#[test]
fn what_was_published_stands_beside() {
    let options = [&SMALL[..], &["--workload", "ramdisk-sequential,hash-service", "--seeds", "1"]].concat();
    let text = printed(&options);
    assert!(text.contains("published -75.9% dTLB load misses of fio"), "{text}");
    assert!(text.contains("published -28.5% TLB misses of the kernel"), "{text}");
    assert_eq!(document(&options)["workloads"][1]["published"]["percent"].as_f64(), Some(-28.5));
}

#[test]
fn plots() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("tlb.svg");
    let path = path.to_str().expect("a plain path");
    for workloads in ["fork", "fork,encrypt"] {
        printed(&[&SMALL[..], &["--workload", workloads, "--seeds", "2", "--svg", path]].concat());
        let svg = std::fs::read_to_string(path).expect("a plot");
        assert!(svg.starts_with("<svg ") && svg.contains("<rect x="), "{svg}");
    }
    let said =
        refused(&[&SMALL[..], &["--workload", "fork", "--seeds", "1", "--svg", "/no/such/place"]].concat());
    assert!(said.contains("cannot write the plot to `/no/such/place`"), "{said}");
}

#[test]
fn too_much_for_the_machine() {
    let said = refused(&["--ram", "1G", "--footprint", "4G", "--workload", "fork"]);
    assert!(
        said.contains("fork takes 4G of memory, and the machine has 1022M that aged placement"),
        "{said}"
    );
    assert!(refused(&["--trace-format", "lackey"]).contains("--trace <FILE>"));
    assert!(refused(&["--footprint", "1K"]).contains("16M is the least"));
    assert!(refused(&["--accesses", "0"]).contains("such as 100M"));
    assert!(refused(&["--accesses", "1T"]).contains("such as 100M"));
}
