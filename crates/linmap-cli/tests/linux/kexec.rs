//! The image in the place of a running Linux, by kexec: it is left at EL2, with the device tree and the arguments of Linux.

use crate::guest::{Guest, Machine, PLAIN};

#[test]
fn linux_starts_the_image() {
    let machine = Machine {
        arguments: "run=selftest,cpus",
        machine: "virt,gic-version=3,virtualization=on",
        cpu: "cortex-a72",
        ram: "2G",
        files: &["linmap.img"],
        ..PLAIN
    };
    let mut guest = Guest::boot(machine);
    let said = guest.last_words("taker kexec /bin/linmap.img");
    for wanted in [
        "boot argument 'quiet' ignored",
        "2 of 2 CPUs in use",
        "\"cpus\":{\"ok\":true",
        "\"selftest\":{\"ok\":true",
        "linmap: {\"finished\":true,\"ok\":true}",
    ] {
        assert!(said.contains(wanted), "{wanted} is not in:\n{said}");
    }
}
