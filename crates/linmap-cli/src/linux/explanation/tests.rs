use super::*;
use crate::linux::certainty::Certainty;
use crate::linux::evidence::Seen;
use crate::linux::invalid::{Invalid, Purpose};
use crate::linux::release::Release;

const GIB: u64 = 1 << 30;
const DEBIAN_12: &str = "6.1.0-40-arm64";
const DEBIAN_13: &str = "6.12.48+deb13-arm64";
const DEBIAN_14: &str = "7.2.1+deb14-arm64";
const AMPERE_ONE: u64 = 0xc00f_ac30;
const N1: u64 = 0x413f_d0c1;
const FULL: Seen = Seen { read_only: 65536, writable: 0 };
const NOT_FULL: Seen = Seen { read_only: 0, writable: 65536 };

/// 4 GiB in pages.
fn pages(release: &str, midr: Option<u64>, other_aliases: Seen) -> Evidence {
    Evidence {
        release: Release::parse(release),
        midrs: midr.into_iter().collect(),
        mmfr2: Some(0),
        bytes: 4 * GIB,
        other_aliases,
        ..Evidence::default()
    }
}

const fn invalid(what: Purpose, pages: u64, places: u64) -> Invalid {
    Invalid { what, bytes: pages << 12, places, va: 0xffff_0000_0000_0000 }
}

fn with_line(e: &Evidence, line: &str) -> Evidence {
    Evidence { command_line: Some(line.to_owned()), ..e.clone() }
}

fn remedies_of(e: &Evidence) -> Vec<String> {
    explain(e).remedies.iter().map(Remedy::to_string).collect()
}

fn causes(e: &Evidence) -> Vec<(Cause, Certainty)> {
    explain(e).causes.iter().map(|(cause, why)| (*cause, why.certainty)).collect()
}

#[test]
fn rodata_full_is_the_cause_before_live_splits() {
    use Certainty::{Inferred, Known};
    assert_eq!(causes(&pages(DEBIAN_12, None, FULL)), [(Cause::RodataFull, Known)]);
    // A CPU that never aborts does not help this kernel.
    let e = pages(DEBIAN_12, Some(AMPERE_ONE), FULL);
    assert_eq!(causes(&e), [(Cause::RodataFull, Known)]);
    assert!(explain(&e).causes[0].1.text.contains("Linux 6.1 cannot split live leaves"));
    let remedies = remedies_of(&with_line(&e, "quiet"));
    assert!(remedies[0].starts_with("boot with `rodata=on`: "), "{remedies:?}");
    let unseen = "boot with `rodata=on` and without `crashkernel=` if it is given: ";
    assert!(remedies_of(&e)[0].starts_with(unseen), "{remedies:?}");
    assert_eq!(remedies[1], "Linux 6.18 or newer, which has large leaves on these CPUs");
    // No read-only alias was seen: the default is the likely reason.
    assert_eq!(causes(&pages(DEBIAN_12, None, Seen::default())), [(Cause::RodataFull, Inferred)]);
}

#[test]
fn debian_13_and_14_have_two_causes() {
    use Certainty::{Inferred, Known};
    let e = pages(DEBIAN_13, None, FULL);
    assert_eq!(causes(&e), [(Cause::RodataFull, Known), (Cause::Kfence, Inferred)]);
    let remedies = remedies_of(&e);
    assert!(remedies[0].starts_with("boot with `rodata=on kfence.sample_interval=100`: "), "{remedies:?}");
    let e = pages(DEBIAN_14, Some(N1), FULL);
    assert_eq!(causes(&e), [(Cause::RodataFull, Known), (Cause::Kfence, Inferred)]);
    let explanation = explain(&e);
    assert!(explanation.causes[0].1.text.contains("Neoverse-N1 has BBM level 0"), "{explanation:?}");
    assert!(remedies_of(&e)[0].contains("`rodata=noalias kfence.sample_interval=100`"), "{explanation:?}");
}

#[test]
fn without_full_kfence_remains() {
    use Certainty::{Inferred, Known};
    let e = pages(DEBIAN_13, None, NOT_FULL);
    assert_eq!(causes(&e), [(Cause::Kfence, Inferred)]);
    let remedies = remedies_of(&e);
    assert!(remedies[0].starts_with("boot with `kfence.sample_interval=100`: "), "{remedies:?}");
    let old = pages("5.15.0", None, NOT_FULL);
    assert_eq!(causes(&old), [(Cause::Kfence, Inferred)]);
    let pool = vec![invalid(Purpose::Kfence, 300, 250)];
    assert_eq!(causes(&Evidence { invalid: pool, ..old.clone() }), [(Cause::Kfence, Inferred)]);
    // No boot argument helps there.
    let newer = "Linux 6.18 or newer, booted with `rodata=noalias kfence.sample_interval=100`";
    assert!(remedies_of(&old)[0].starts_with(newer), "{:?}", remedies_of(&old));
    let told = with_line(&e, "rodata=on kfence.sample_interval=0");
    assert_eq!(causes(&told), [(Cause::Kfence, Known)]);
}

#[test]
fn with_live_splits_the_cpu_decides() {
    let full = |midr| pages("6.18.0-custom", midr, FULL);
    let text = |e: &Evidence| explain(e).causes[0].1.clone();
    assert_eq!(text(&full(Some(N1))).certainty, Certainty::Known);
    assert_eq!(text(&full(None)).certainty, Certainty::Inferred);
    assert!(text(&full(Some(AMPERE_ONE))).text.contains("some CPU that was not seen"));
    // KFENCE is not one of the reasons there.
    let debian = pages(DEBIAN_14, Some(AMPERE_ONE), FULL);
    assert_eq!(causes(&debian), [(Cause::RodataFull, Certainty::Inferred)]);
}

#[test]
fn pages_that_come_and_go_are_debug_pagealloc() {
    let free = vec![invalid(Purpose::DebugPagealloc, 500_000, 20_000)];
    let e = Evidence { invalid: free, ..pages("6.12.0", None, NOT_FULL) };
    assert_eq!(causes(&e), [(Cause::DebugPagealloc, Certainty::Inferred)]);
    assert_eq!(remedies_of(&e), ["boot without `debug_pagealloc=` if it is given"]);
    let asked = Evidence { command_line: Some("debug_pagealloc=on".to_owned()), ..e };
    assert_eq!(causes(&asked), [(Cause::DebugPagealloc, Certainty::Known)]);
    // All causes have to be removed at once.
    let free = vec![invalid(Purpose::DebugPagealloc, 500_000, 20_000)];
    let e = Evidence { invalid: free, ..with_line(&pages(DEBIAN_13, None, FULL), "debug_pagealloc=on") };
    let remedies = remedies_of(&e);
    let all = "boot with `rodata=on kfence.sample_interval=100` and without `debug_pagealloc=`: ";
    assert!(remedies[0].starts_with(all), "{remedies:?}");
    assert!(remedies[1].ends_with(", without `debug_pagealloc=`"), "{remedies:?}");
}

/// An argument is a request: without a page that is taken away it was not granted.
#[test]
fn debug_pagealloc_that_is_only_asked_for_is_no_cause() {
    let asked = with_line(&pages(DEBIAN_12, None, FULL), "quiet debug_pagealloc=on");
    assert_eq!(causes(&asked), causes(&pages(DEBIAN_12, None, FULL)));
    let facts = explain(&asked).facts;
    let fact = facts.iter().find(|fact| fact.text.contains("debug_pagealloc is on the command line"));
    let is_said =
        |fact: &Statement| fact.certainty == Certainty::Inferred && fact.text.contains("without it");
    assert!(fact.is_some_and(is_said), "{facts:?}");
    for (value, is_asked) in
        [("1", true), ("y", true), ("ON", true), ("off", false), ("0", false), ("", false)]
    {
        let line = format!("quiet debug_pagealloc={value}");
        let facts = explain(&with_line(&pages(DEBIAN_12, None, FULL), &line)).facts;
        assert_eq!(facts.iter().any(|fact| fact.text.contains("debug_pagealloc")), is_asked, "{value}");
    }
    assert!(!remedies_of(&asked).iter().any(|remedy| remedy.contains("debug_pagealloc")));
}

#[test]
fn tlbis_that_are_repeated_are_said() {
    const CORTEX_A55_R1P0: u64 = 0x411f_d050;
    const CORTEX_A72: u64 = 0x410f_d083;
    let facts = |midrs: &[u64]| {
        let facts = explain(&Evidence { midrs: midrs.to_vec(), ..pages(DEBIAN_12, None, FULL) }).facts;
        facts.into_iter().map(|fact| fact.text).collect::<Vec<_>>().join("\n")
    };
    let said = "Cortex-A55 needs each batch of TLB invalidations repeated (erratum 2441007)";
    assert!(facts(&[CORTEX_A72, CORTEX_A55_R1P0]).contains(said));
    assert!(!facts(&[CORTEX_A72]).contains("repeated"));
}

#[test]
fn nothing_is_explained_away() {
    let stranger = Evidence { release: None, ..pages(DEBIAN_12, None, Seen::default()) };
    assert_eq!(causes(&stranger), [(Cause::RodataFull, Certainty::Inferred)]);
    let large = Evidence { large: 3 * GIB, ..pages(DEBIAN_12, None, NOT_FULL) };
    assert_eq!(causes(&large), []);
    assert_eq!(causes(&Evidence::default()), []);
    let told = Evidence { command_line: Some("rodata=off".to_owned()), ..stranger };
    assert_eq!(causes(&told), [(Cause::Kfence, Certainty::Inferred)]);
}

/// Each cause alone keeps the map in pages: all are named, and all have to be removed.
#[test]
fn a_crash_kernel_keeps_older_kernels_in_pages() {
    use Certainty::{Inferred, Known};
    let e = with_line(&pages(DEBIAN_12, None, FULL), "crashkernel=256M");
    assert_eq!(causes(&e), [(Cause::RodataFull, Known), (Cause::Crashkernel, Known)]);
    let remedies = remedies_of(&e);
    assert!(remedies[0].starts_with("boot with `rodata=on` and without `crashkernel=`: "), "{remedies:?}");
    assert!(remedies[0].ends_with("there is no kdump"), "{remedies:?}");
    assert!(remedies[1].starts_with("Linux 6.18 or newer, booted with `rodata=noalias"), "{remedies:?}");
    let on = with_line(&pages(DEBIAN_12, None, NOT_FULL), "crashkernel=256M rodata=on");
    assert_eq!(causes(&on), [(Cause::Crashkernel, Known)]);
    assert!(remedies_of(&on)[0].starts_with("boot without `crashkernel=`: "));
    // If the command line is not known, no other cause is left.
    let unseen = pages(DEBIAN_12, None, NOT_FULL);
    assert_eq!(causes(&unseen), [(Cause::Crashkernel, Inferred)]);
    let loaded = vec![invalid(Purpose::CrashKernel, 32768, 1)];
    let loaded = Evidence { invalid: loaded, ..pages("6.1.0-custom", None, FULL) };
    assert_eq!(causes(&loaded), [(Cause::RodataFull, Known), (Cause::Crashkernel, Inferred)]);
    // Later kernels map it like all RAM.
    let later = with_line(&pages(DEBIAN_13, None, FULL), "crashkernel=256M");
    assert_eq!(causes(&later), [(Cause::RodataFull, Known), (Cause::Kfence, Inferred)]);
}

#[test]
fn a_cpu_that_is_trusted_later_needs_a_newer_kernel() {
    let e = pages(DEBIAN_14, Some(0x410f_d8e0), FULL);
    let explanation = explain(&e);
    let why = &explanation.causes[0].1.text;
    assert!(why.ends_with("Linux 7.2 does not trust these CPUs to split live leaves; 7.3 does"), "{why}");
    let remedies = remedies_of(&e);
    assert_eq!(remedies[1], "Linux 7.3 or newer, which has large leaves on these CPUs");
}

/// Each text is its own description, and every combination has one.
#[test]
fn every_combination_has_words() {
    let kinds = [
        vec![],
        vec![invalid(Purpose::Kfence, 300, 250)],
        vec![invalid(Purpose::DebugPagealloc, 9999, 9999)],
        vec![invalid(Purpose::CrashKernel, 32768, 1), invalid(Purpose::Taken, 1, 1)],
    ];
    for release in ["", "4.19", "5.15", "6.1", DEBIAN_13, "6.18", DEBIAN_14] {
        for midrs in [vec![], vec![N1], vec![AMPERE_ONE]] {
            for aliases in [Seen::default(), FULL, NOT_FULL] {
                for invalid in &kinds {
                    for line in [None, Some("quiet crashkernel=1G rodata=on".to_owned())] {
                        let (midrs, invalid) = (midrs.clone(), invalid.clone());
                        let e =
                            Evidence { midrs, invalid, command_line: line, ..pages(release, None, aliases) };
                        let explanation = explain(&e);
                        assert!(!explanation.causes.is_empty(), "{e:?}");
                        let texts = explanation.causes.iter().map(|c| &c.1).chain(&explanation.facts);
                        assert!(
                            texts.clone().all(|s| !s.text.is_empty() && !s.text.contains("  ")),
                            "{explanation:?}"
                        );
                        let remedies = remedies_of(&e);
                        assert!(remedies.iter().all(|r| !r.is_empty() && !r.contains("  ")), "{remedies:?}");
                    }
                }
            }
        }
    }
}
