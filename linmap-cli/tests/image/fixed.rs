//! The images for one page size: the same source, the same map.

use std::path::PathBuf;

use linmap::Granule;

use crate::guest::{AMPERE_ONE, MAX, boot};
use crate::matrix::{boot_and_compare, page_size};

/// Returns the image for this page size that `make fixed` leaves beside the command's own directory.
pub(crate) fn image(granule: Granule) -> String {
    let command = PathBuf::from(env!("CARGO_BIN_EXE_linmap"));
    let target = command.ancestors().nth(2).expect("a target directory");
    let image = target.join(format!("fixed/fixed-{}.img", page_size(granule)));
    image.into_os_string().into_string().expect("a plain path")
}

#[test]
fn they_make_the_same_map() {
    for granule in Granule::ALL {
        let image = image(granule);
        for (cpu, va_bits) in [(AMPERE_ONE, 48), (MAX, 48), (AMPERE_ONE, 52), (MAX, 39)] {
            let options = ["--image", &image, "--run", "dump,protection"];
            let booted = boot_and_compare(granule, va_bits, cpu, 4, &options);
            assert_eq!(booted.number("/tests/protection/tried"), 9);
        }
    }
}

#[test]
fn another_page_size_is_named() {
    let booted = boot(&["--image", &image(Granule::K4), "--page-size", "64k", "--ram", "1G"]);
    let booted = booted.expect_well("4K will do");
    assert!(booted.says("warning: this build has no 64K pages; using 4K"), "{}", booted.console);
    assert_eq!(booted.number("/page_size"), 4096);
}

#[test]
fn a_cpu_without_the_page_size_is_named() {
    let booted = boot(&["--image", &image(Granule::K16), "--cpu", "cortex-a57", "--ram", "1G"]);
    assert_eq!(booted.status, Some(2));
    assert!(
        booted.text("/fault").starts_with("the CPU has no page size of this build, [K16]"),
        "{}",
        booted.console
    );
}
