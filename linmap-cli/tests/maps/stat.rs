//! `linmap stat`: what a map is made of, and why.

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
Mapped with pages, because rodata=full changes single pages, and Linux 6.1 can not split live leaves

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
  boot with `rodata=on`: what modules and BPF make read-only stays writable in the linear map
  Linux 6.18 or newer on CPUs that never abort when a live leaf changes size, such as AmpereOne

"#]]
    );
}

#[test]
fn debian_13_has_kfence_as_well() {
    let kernel = Kernel { release: "6.12.48+deb13-arm64", ..debian() };
    let document = kernel.core(|_| {}).run("stat", &["--json"]).exits(0).document();
    assert_eq!(document["schema"], "linmap.stat/1");
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

/// KFENCE's pool is in pages whatever else is not: in the plan for large leaves, too.
#[test]
fn the_pool_of_kfence_is_seen() {
    let kernel = Kernel { release: "6.8.0", level: 2, rodata_full: false, ..debian() };
    let pool = kernel.linear(RAM + (32 << 20));
    // As Linux does it since 6.18, and before.
    for present in [1 << 11, 0] {
        let core = kernel.core(|tables| {
            for page in (0..512).filter(|page| *page == 0 || page % 2 == 1) {
                tables.change(pool + page * 4096, |leaf| leaf & !1 | present);
            }
        });
        let shown = core.run("stat", &[]).exits(0).stdout();
        assert!(shown.contains("inferred  2M at 0xffff000002000000 look like KFENCE's pool"), "{shown}");
        assert!(shown.starts_with("Linear map: 256M, "), "{shown}");
        let rows = core.run("dump", &["--region", "linear", "--csv"]).exits(0).stdout();
        assert_eq!(rows.lines().filter(|row| row.contains(",false,false,F RW NX")).count(), 256, "{rows}");
    }
}

/// Every kind of table is counted as the library plans it.
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
