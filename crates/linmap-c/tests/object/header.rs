//! The functions of `linmap.h`.

use std::collections::BTreeSet;

/// The names of the header's functions for a build for arm64 without features.
pub(crate) struct Functions {
    /// The functions that the kernel provides.
    pub(crate) of_the_kernel: BTreeSet<String>,
    /// The functions that it calls.
    pub(crate) of_the_library: BTreeSet<String>,
}

/// Reads the header.
pub(crate) fn functions() -> Functions {
    let header = include_str!("../../linmap.h");
    let (mut of_the_kernel, mut of_the_library) = (BTreeSet::new(), BTreeSet::new());
    for line in header.lines().filter(|line| !line.starts_with("//") && line.contains('(')) {
        let before = line.split('(').next().unwrap_or("");
        let name = before.rsplit([' ', '*']).next().unwrap_or("");
        // `linmap_tlbi` is in other builds only.
        if !name.starts_with("linmap_") || name == "linmap_tlbi" || line.starts_with(' ') {
            continue;
        }
        let functions = if line.starts_with("extern") { &mut of_the_kernel } else { &mut of_the_library };
        functions.insert(name.to_owned());
    }
    assert!(of_the_kernel.len() > 5 && of_the_library.len() > 5, "the header has functions");
    Functions { of_the_kernel, of_the_library }
}
