//! The data of the booted image through the linear map: by that alias they are written, read, or not reached.

use linmap::Granule;

use crate::guest::{AMPERE_ONE, boot};
use crate::matrix::{MODES, page_size};

/// Each choice, on four CPUs. With `rw` the variables are written: that is what the others prevent.
#[test]
fn data_are_reached_as_chosen() {
    for granule in Granule::ALL {
        for (data, text, written, views) in
            [("rw", "ro", 8, 0), ("ro", "hidden", 0, 0), ("hidden", "hidden", 0, 160)]
        {
            let fixed = [
                "--ram",
                "1G",
                "--cpus",
                "4",
                "--run",
                "hidden,dump",
                "--data",
                data,
                "--count",
                "--text",
                text,
            ];
            let what = format!("{granule} pages, data={data}");
            let booted =
                boot(&[&fixed[..], &["--page-size", page_size(granule)]].concat()).expect_well(&what);
            assert_eq!((booted.text("/data"), booted.text("/text")), (data, text), "{what}");
            assert_eq!(booted.number("/tests/hidden/wrong"), 0, "{what}: {}", booted.console);
            assert_eq!(booted.number("/tests/hidden/written"), written, "{what}");
            assert_eq!(booted.number("/tests/hidden/views"), views, "{what}");
            assert_eq!(booted.number("/tests/self-check/findings"), 0, "{what}");
        }
    }
}

/// Hidden data stay hidden in every mode, also where the map becomes pages, beside tasks that change it. CPUs take turns where that
/// is quicker: those that wait for probes do not, since they call what is probed all the while.
#[test]
fn data_are_hidden_in_every_mode() {
    for (granule, (options, _, policy)) in Granule::ALL.into_iter().cycle().zip(MODES) {
        for run in [&["together,hotplug,modules,hidden", "--count"][..], &["kprobes,hidden"]] {
            let fixed = ["--ram", "1G", "--cpus", "4", "--data", "hidden", "--text", "hidden"];
            let more = ["--cpu", AMPERE_ONE, "--page-size", page_size(granule), "--run"];
            let what = format!("{granule} pages, {run:?}, {options:?}");
            let booted = boot(&[&fixed[..], &more, run, options].concat()).expect_well(&what);
            assert_eq!(booted.text("/policy"), policy, "{what}");
            assert_eq!(booted.number("/tests/hidden/wrong"), 0, "{what}: {}", booted.console);
            assert_eq!(booted.number("/tests/hidden/views"), 160, "{what}");
        }
    }
}
