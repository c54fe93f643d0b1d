//! `linmap stat`: the leaves of a map, and the reasons.

use linmap::{Geometry, Granule, OaFormat};
use snapbox::{assert_data_eq, str};

use crate::core::{Kernel, RAM, debian};

#[test]
fn debian_12_as_it_comes() {
    let ran = debian().core(|_| {}).run("stat", &[]).exits(0);
    assert_eq!(ran.stderr(), "");
    assert_data_eq!(
        ran.stdout(),
        str![[r#"
Linear map: 256M, 4K granule, 48-bit addresses, Linux 6.1.0-40-arm64
Mapped with pages, because rodata=full changes single pages, and Linux 6.1 cannot split live leaves

 leaves   descriptors   covered   share
────────────────────────────────────────
 4K            65,536      256M    100%

 cost                       this map   large leaves   factor
─────────────────────────────────────────────────────────────
 table pages                     131              3      43x
 table memory                   524K            12K      43x
 TLB entries to cover RAM     65,536             23   2,849x

What is known
  seen      the kernel is Linux 6.1.0-40-arm64
  seen      what is read-only elsewhere is read-only in the linear map, too: rodata is full
  seen      the kernel's text and constants are read-only in the linear map

What would help, any of
  boot with `rodata=on` and without `crashkernel=` if it is given: what modules and BPF make read-only stays writable in the linear map, and there is no kdump
  Linux 6.18 or newer on CPUs that never abort when a live leaf changes size, such as AmpereOne

"#]]
    );
}

#[test]
fn debian_13_has_kfence_as_well() {
    let kernel = Kernel { release: "6.12.48+deb13-arm64", ..debian() };
    let document = kernel.core(|_| {}).run("stat", &["--json"]).exits(0).document();
    assert_eq!(document["schema"], "linmap.stat/2");
    assert_eq!(document["in_pages"], true);
    assert_eq!(document["causes"][0]["cause"], "rodata=full");
    assert_eq!(document["causes"][1]["cause"], "kfence");
    assert_eq!(document["causes"][1]["certainty"], "inferred");
    assert_eq!(document["linear"]["tables"], 131);
    assert_eq!(document["linear"]["leaves"][0]["descriptors"], 65536);
    assert_eq!(document["largest"]["tables"], 3);
    assert_eq!(document["linear"]["offset"], format!("{:#x}", kernel.linear(RAM).wrapping_sub(RAM)));
}

#[test]
fn a_map_in_large_leaves_needs_no_help() {
    let kernel = Kernel { level: 2, ram: 4 << 30, rodata_full: false, ..debian() };
    let ran = kernel.core(|_| {}).run("stat", &[]).exits(0);
    let shown = ran.stdout();
    assert!(
        shown.contains("\nMapped with large leaves: 98.4% of it in blocks and contiguous runs\n"),
        "{shown}"
    );
    assert!(shown.contains("rodata is on (noalias), not full"), "{shown}");
    assert!(!shown.contains("What would help"), "{shown}");
    let document = kernel.core(|_| {}).run("stat", &["--json"]).exits(0).document();
    assert_eq!(document["in_pages"], false);
    assert_eq!(document["causes"], serde_json::json!([]));
}

/// KFENCE's pool is in pages, whatever the rest. Its guards cover nothing.
#[test]
fn the_pool_of_kfence_is_seen() {
    let kernel = Kernel { release: "6.8.0", level: 2, rodata_full: false, ..debian() };
    let pool = kernel.linear(RAM + (32 << 20));
    let before = kernel.core(|_| {}).run("stat", &["--json"]).exits(0).document();
    // As Linux does it since 6.18, and before.
    for present in [1 << 11, 0] {
        let core = kernel.core(|tables| {
            for page in (0..512).filter(|page| *page == 0 || page % 2 == 1) {
                tables.change(pool + page * 4096, |leaf| leaf & !1 | present);
            }
        });
        let shown = core.run("stat", &[]).exits(0).stdout();
        let says = "Present-invalid: 257 pages, 1M, which no access reaches\n  \
                    inferred  257 in 256 places from 0xffff000002000000: KFENCE's pool: guards";
        assert!(shown.contains(says), "{shown}");
        assert!(shown.starts_with("Linear map: 255M, "), "{shown}");
        let document = core.run("stat", &["--json"]).exits(0).document();
        let number = |of: &serde_json::Value, key| of["linear"][key].as_u64().expect("a number");
        for (key, less) in [("tlb_entries", 257), ("bytes", 257 << 12), ("tables", 0)] {
            assert_eq!(number(&document, key), number(&before, key) - less, "{key}");
        }
        // The plan covers the same memory, and no more.
        assert_eq!(document["largest"]["bytes"], document["linear"]["bytes"]);
        assert_eq!(document["invalid"][0]["pages"], 257);
        let rows = core.run("dump", &["--region", "linear", "--csv"]).exits(0).stdout();
        assert_eq!(rows.lines().filter(|row| row.contains(",false,false,F RW NX")).count(), 256, "{rows}");
    }
}

/// Pages of memfd_secret, the image's data in Linux 7.3, a crash kernel in 6.1: each is named, and none of it counts
/// as coverage.
#[test]
fn what_is_not_valid_is_named_and_covers_nothing() {
    let page = |kernel: Kernel, pa: u64| kernel.linear(RAM + pa);
    let clear = |leaf: u64| leaf & !1 | 1 << 11;
    // In the made-up image data starts 6M into RAM.
    let cases = [
        ("6.12.48+deb13-arm64", (80 << 20..92 << 20).step_by(4096 * 4).collect::<Vec<_>>(), "taken", 768),
        ("7.3.4+deb13-arm64", (6 << 20..22 << 20).step_by(4096).collect(), "image_data", 1),
        ("6.1.0-40-arm64", (128 << 20..192 << 20).step_by(4096).collect(), "crash_kernel", 1),
    ];
    for (release, pages, what, places) in cases {
        let kernel = Kernel { release, ..debian() };
        let core = kernel.core(|tables| {
            for pa in &pages {
                tables.change(page(kernel, *pa), clear);
            }
        });
        let document = core.run("stat", &["--json"]).exits(0).document();
        let invalid = &document["invalid"];
        assert_eq!(invalid.as_array().map(Vec::len), Some(1), "{invalid:#}");
        assert_eq!(
            (&invalid[0]["what"], &invalid[0]["places"]),
            (&what.into(), &places.into()),
            "{invalid:#}"
        );
        assert_eq!(invalid[0]["pages"], pages.len());
        let valid = 65536 - pages.len();
        assert_eq!(document["linear"]["leaves"][0]["descriptors"], valid, "{what}");
        assert_eq!(document["linear"]["tlb_entries"], valid, "{what}");
        assert_eq!(document["linear"]["bytes"], valid << 12, "{what}");
    }
}

/// The counts of every kind of table are those of the library's plan.
#[test]
fn every_geometry_is_read() {
    use Granule::{K4, K16, K64};
    use OaFormat::{Bits48, Lpa, Lpa2};
    let geometries = [
        (K4, 39, Bits48),
        (K4, 52, Lpa2),
        (K16, 47, Bits48),
        (K16, 48, Bits48),
        (K16, 52, Lpa2),
        (K64, 42, Bits48),
        (K64, 52, Lpa),
    ];
    for (granule, bits, format) in geometries {
        let geometry = Geometry::new(granule, bits, format).expect("a geometry");
        let kernel = Kernel { geometry, ..debian() };
        let document = kernel.core(|_| {}).run("stat", &["--json"]).exits(0).document();
        let pages = kernel.ram / geometry.page_size();
        let tables = pages.div_ceil(geometry.page_size() / 8) + u64::from(geometry.levels() - 1);
        assert_eq!(document["linear"]["tables"], tables, "{geometry:?}");
        assert_eq!(document["linear"]["tlb_entries"], pages, "{geometry:?}");
        assert_eq!(document["geometry"]["va_bits"], bits);
    }
}
