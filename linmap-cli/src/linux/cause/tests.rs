use super::*;
use crate::linux::evidence::{Pool, Seen};
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

fn causes(e: &Evidence) -> Vec<(Cause, Certainty)> {
    explain(e).causes.iter().map(|(cause, why)| (*cause, why.certainty)).collect()
}

#[test]
fn rodata_full_is_the_cause_before_live_splits() {
    use Certainty::{Inferred, Known};
    assert_eq!(causes(&pages(DEBIAN_12, None, FULL)), [(Cause::RodataFull, Known)]);
    // A CPU with the promise does not help this kernel.
    let e = pages(DEBIAN_12, Some(AMPERE_ONE), FULL);
    assert_eq!(causes(&e), [(Cause::RodataFull, Known)]);
    assert!(explain(&e).causes[0].1.text.contains("Linux 6.1 can not split live leaves"));
    let remedies = explain(&e).remedies;
    assert!(remedies[0].starts_with("boot with `rodata=on`: "), "{remedies:?}");
    assert_eq!(remedies[1], "Linux 6.18 or newer, which has large leaves on these CPUs");
    // Nothing read-only to be seen: the default is the likely one.
    assert_eq!(causes(&pages(DEBIAN_12, None, Seen::default())), [(Cause::RodataFull, Inferred)]);
}

#[test]
fn debian_13_and_14_have_two_causes() {
    use Certainty::{Inferred, Known};
    let e = pages(DEBIAN_13, None, FULL);
    assert_eq!(causes(&e), [(Cause::RodataFull, Known), (Cause::Kfence, Inferred)]);
    let remedies = explain(&e).remedies;
    assert!(remedies[0].starts_with("boot with `rodata=on kfence.sample_interval=100`: "), "{remedies:?}");
    let e = pages(DEBIAN_14, Some(N1), FULL);
    assert_eq!(causes(&e), [(Cause::RodataFull, Known), (Cause::Kfence, Inferred)]);
    let explanation = explain(&e);
    assert!(explanation.causes[0].1.text.contains("Neoverse-N1 has BBM level 0"), "{explanation:?}");
    assert!(
        explanation.remedies[0].contains("`rodata=noalias kfence.sample_interval=100`"),
        "{explanation:?}"
    );
}

#[test]
fn without_full_kfence_remains() {
    use Certainty::{Inferred, Known};
    let e = pages(DEBIAN_13, None, NOT_FULL);
    assert_eq!(causes(&e), [(Cause::Kfence, Inferred)]);
    let remedies = explain(&e).remedies;
    assert!(remedies[0].starts_with("boot with `kfence.sample_interval=100`: "), "{remedies:?}");
    let old = pages("5.15.0", None, NOT_FULL);
    assert_eq!(causes(&old), [(Cause::Kfence, Inferred)]);
    let pool = Some(Pool { va: 0, pa: 0, bytes: 2 << 20 });
    assert_eq!(causes(&Evidence { kfence: pool, ..old.clone() }), [(Cause::Kfence, Known)]);
    assert!(explain(&old).remedies[0].contains("Linux 6.5 or newer"));
    let told = Evidence { command_line: Some("rodata=on kfence.sample_interval=0".to_owned()), ..e };
    assert_eq!(causes(&told), [(Cause::Kfence, Known)]);
}

#[test]
fn with_live_splits_the_cpu_decides() {
    let full = |midr| pages("6.18.0-custom", midr, FULL);
    let text = |e: &Evidence| explain(e).causes[0].1.clone();
    assert_eq!(text(&full(Some(N1))).certainty, Certainty::Known);
    assert_eq!(text(&full(None)).certainty, Certainty::Inferred);
    assert!(text(&full(Some(AMPERE_ONE))).text.contains("some CPU that was not seen"));
    // There KFENCE is none of the reasons.
    let debian = pages(DEBIAN_14, Some(AMPERE_ONE), FULL);
    assert_eq!(causes(&debian), [(Cause::RodataFull, Certainty::Inferred)]);
}

#[test]
fn pages_that_come_and_go_are_debug_pagealloc() {
    let e = Evidence { invalid: (500_000, 20_000), ..pages("6.12.0", None, NOT_FULL) };
    assert_eq!(causes(&e), [(Cause::DebugPagealloc, Certainty::Inferred)]);
    assert_eq!(explain(&e).remedies, ["boot without debug_pagealloc"]);
    let asked = Evidence { command_line: Some("debug_pagealloc=on".to_owned()), ..e };
    assert_eq!(causes(&asked), [(Cause::DebugPagealloc, Certainty::Known)]);
}

/// An argument is a request: without a page that is taken away it was not granted.
#[test]
fn debug_pagealloc_that_is_only_asked_for_is_no_cause() {
    let line = Some("quiet debug_pagealloc=on".to_owned());
    let asked = Evidence { command_line: line, ..pages(DEBIAN_12, None, FULL) };
    assert_eq!(causes(&asked), causes(&pages(DEBIAN_12, None, FULL)));
    let explanation = explain(&asked);
    let fact = explanation.facts.iter().find(|fact| fact.text.contains("debug_pagealloc=on was asked for"));
    assert!(fact.is_some_and(|fact| fact.text.contains("built without it")), "{:?}", explanation.facts);
    assert!(!explanation.remedies.iter().any(|remedy| remedy.contains("debug_pagealloc")));
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

/// Each text says what it is, and no combination is without one.
#[test]
fn every_combination_has_words() {
    let pool = Pool { va: 0xffff_0000_0000_0000, pa: 0, bytes: 2 << 20 };
    for release in ["", "4.19", "5.15", "6.1", DEBIAN_13, "6.18", DEBIAN_14] {
        for midrs in [vec![], vec![N1], vec![AMPERE_ONE]] {
            for aliases in [Seen::default(), FULL, NOT_FULL] {
                for kfence in [None, Some(pool)] {
                    for invalid in [(0, 0), (9999, 9999)] {
                        let midrs = midrs.clone();
                        let e = Evidence { midrs, kfence, invalid, ..pages(release, None, aliases) };
                        let explanation = explain(&e);
                        assert!(!explanation.causes.is_empty(), "{e:?}");
                        let texts = explanation.causes.iter().map(|c| &c.1).chain(&explanation.facts);
                        assert!(
                            texts.clone().all(|s| !s.text.is_empty() && !s.text.contains("  ")),
                            "{explanation:?}"
                        );
                    }
                }
            }
        }
    }
}
