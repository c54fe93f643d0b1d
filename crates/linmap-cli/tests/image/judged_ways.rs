//! `linmap judge` is told of each store, by whatever instruction: the kernel `dev/guests/tables` stores to its tables in all ways, and each
//! mistake of each way is found. A word of QEMU's loader asks for the mistakes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::judge::{command, document, qemu, target};

/// The ways that store anything; those that only clear a page, and those that only set bits.
const ANY: &[&str] = &[
    "by_str",
    "by_halves",
    "by_stp",
    "by_stp_q",
    "by_st1",
    "by_stlr",
    "by_stxr",
    "by_stxp",
    "by_cas",
    "by_casp",
    "by_swp",
    "by_ldeor",
    "by_ldclr",
    "by_set",
    "by_setg",
    "by_cpyf",
    "by_cpy",
    "by_sve_st1d",
    "by_sve_scatter",
    "by_sve_str",
    "by_sme_st1d",
    "by_sme_str",
];
const ZEROS_ALONE: &[&str] = &["by_dc_zva", "by_dc_gzva", "by_stzgm", "by_stzg"];
const BITS_ALONE: &[&str] = &["by_ldset"];

/// Judges the kernel on a machine with that number of CPUs. It uses one of them.
fn judge(qemu: &Path, cpus: &str, more: &[&str]) -> Output {
    let mut command = command(qemu);
    command.args([
        "--json",
        "--strict",
        "--",
        "-M",
        "virt,mte=on",
        "-cpu",
        "max",
        "-smp",
        cpus,
        "-m",
        "128M",
        "-nic",
        "none",
    ]);
    command.arg("-nographic").args(more).arg("-kernel").arg(target().join("tables.elf"));
    let output = command.output().expect("the command runs");
    let console = String::from_utf8_lossy(&output.stderr);
    assert!(console.contains("all ways were taken"), "{console}");
    output
}

/// The ways with a finding of a grade and a rule that so many stores have at least.
fn ways<'a>(findings: &'a [Value], (grade, rule, stores): (&str, &str, u64)) -> BTreeSet<&'a str> {
    let found =
        findings.iter().filter(|found| (&found["grade"], &found["rule"]) == (&grade.into(), &rule.into()));
    let often = found.filter(|found| found["count"].as_u64().is_some_and(|count| count >= stores));
    often.filter_map(|found| found["step"]["function"].as_str()?.split('+').next()).collect()
}

/// Where there are several CPUs, QEMU translates atomics otherwise.
#[test]
fn each_way_to_store_is_seen() {
    let Some(qemu) = qemu() else { return };
    let [clearing, filling, all] =
        [&[ANY, ZEROS_ALONE][..], &[ANY, BITS_ALONE], &[ANY, ZEROS_ALONE, BITS_ALONE]]
            .map(|lists| lists.concat().into_iter().collect::<BTreeSet<_>>());
    for cpus in ["1", "2"] {
        let right = document(&judge(&qemu, cpus, &[]), 0);
        assert_eq!((&right["breaches"], &right["suspects"]), (&0.into(), &0.into()), "{right:#}");
        let loader = "loader,addr=0x47000000,data=1,data-len=8";
        let wrong = document(&judge(&qemu, cpus, &["-device", loader]), 1);
        let findings = wrong["findings"].as_array().expect("findings");
        // A table has 512 words.
        for (what, expected) in [
            (("suspect", "Stale", 512), &clearing),
            (("breach", "Freed", 512), &filling),
            (("breach", "Unfilled", 1), &all),
            (("breach", "NotVisible", 1), &all),
        ] {
            assert_eq!(&ways(findings, what), expected, "{cpus} CPUs: {what:?}");
        }
        assert_eq!(findings.len(), clearing.len() + filling.len() + 2 * all.len(), "{wrong:#}");
    }
}
