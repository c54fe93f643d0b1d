//! The image for one page size: the same source, the same map. `make sizes` builds the others, and compares all with the image for
//! all page sizes.

use std::path::PathBuf;

use linmap::Granule;

use crate::guest::{AMPERE_ONE, MAX, boot};
use crate::matrix::{boot_and_compare, page_size};

/// The page size of the image that `make test` builds: the one that the fewest CPUs have.
pub(crate) const FIXED: Granule = Granule::K16;

/// Returns this image, beside the command's own directory.
pub(crate) fn image() -> String {
    let command = PathBuf::from(env!("CARGO_BIN_EXE_linmap"));
    let target = command.ancestors().nth(2).expect("a target directory");
    let image = target.join(format!("fixed/fixed-{}.img", page_size(FIXED)));
    image.into_os_string().into_string().expect("a plain path")
}

#[test]
fn it_makes_the_same_map() {
    for (cpu, va_bits) in [(AMPERE_ONE, 48), (MAX, 47), (AMPERE_ONE, 52), (MAX, 36)] {
        let options = ["--image", &image(), "--run", "dump,protection"];
        let booted = boot_and_compare(FIXED, va_bits, cpu, 4, &options);
        assert_eq!(booted.number("/tests/protection/tried"), 9);
    }
}

#[test]
fn another_page_size_is_named() {
    let booted = boot(&["--image", &image(), "--page-size", "64k", "--ram", "1G"]);
    let booted = booted.expect_well("16K will do");
    assert!(booted.says("warning: this build has no 64K pages; using 16K"), "{}", booted.console);
    assert_eq!(booted.number("/page_size"), 16384);
}

#[test]
fn a_cpu_without_the_page_size_is_named() {
    let booted = boot(&["--image", &image(), "--cpu", "cortex-a57", "--ram", "1G"]);
    assert_eq!(booted.status, Some(2));
    assert!(
        booted.text("/fault").starts_with("the CPU has no page size of this build, [K16]"),
        "{}",
        booted.console
    );
}
