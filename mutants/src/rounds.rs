//! The tests that judge a mutant, in rounds. Most mutants fall in the first two, which take a few seconds; only those that
//! are left are built for the next one.
//!
//! Tests that take most of a round's time and judge what others of it judge as well wait for the last round.

/// Some test programs of some crates.
pub(crate) struct Round {
    /// The crates that are built.
    pub(crate) packages: &'static [&'static str],
    /// The test programs in the order in which they run; `lib` has the unit tests.
    pub(crate) programs: &'static [&'static str],
    /// Tests are skipped whose names contain one of these.
    pub(crate) skipped: &'static [&'static str],
    /// A test program may take so many seconds of CPU time, some ten times of what it needs.
    pub(crate) seconds: u32,
}

pub(crate) const ROUNDS: [Round; 4] = [
    Round { packages: &["linmap"], programs: &["lib"], skipped: &[], seconds: 30 },
    Round {
        packages: &["linmap"],
        programs: &[
            "check",
            "entry",
            "exhaustion",
            "extremes",
            "given_offset",
            "layout",
            "live_sizes",
            "memory_types",
            "offset_memory",
            "output_addresses",
            "page_size",
            "policy",
            "reference_dumps",
            "restricted",
        ],
        skipped: &[
            "any_bits_end",
            "stretches_hide",
            "maps_that_are_built",
            "writable_and_executable_is_what",
        ],
        seconds: 30,
    },
    Round {
        packages: &["linmap", "linmap-model"],
        programs: &[
            "announced",
            "memories",
            "handover",
            "library",
            "live",
            "check",
            "peers",
            "repaint",
            "fewest",
            "hostile",
            "aliases",
        ],
        skipped: &[
            "exhaustion::without_frames_nothing_changes",
            "restore::restored",
            "areas::without_frames",
            "neighbours",
            "unmap_all",
            "each_page_and_each_alias",
            "all_or_nothing",
            "aliases_stay_unless",
            "parts_change_one",
        ],
        seconds: 120,
    },
    Round {
        packages: &["linmap", "linmap-model"],
        programs: &["aliases", "live", "concurrent"],
        skipped: &["random_sequences"],
        seconds: 600,
    },
];

/// The environment of the tests: the same cases in each run, and few of them.
pub(crate) const ENVIRONMENT: [(&str, &str); 3] =
    [("LINMAP_SEED", "0x1000.."), ("LINMAP_SEQUENCES", "8000"), ("RUST_BACKTRACE", "0")];
