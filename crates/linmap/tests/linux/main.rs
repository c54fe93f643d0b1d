//! The lists of CPUs are those of Linux, and those of the book's chapter about them.
//!
//! `make test-linux-port` gives the source of a release: `LINMAP_LINUX_SOURCE=DIRECTORY cargo test -p linmap --test linux --
//! --ignored`.

mod source;

use std::path::Path;

use linmap::cpu::{BbmPromise, Midr};
use source::{Cpus, Source};

/// Returns the MIDR of each part of an implementer, in every revision.
fn all_of(implementer: u64) -> impl Iterator<Item = Midr> {
    let revisions = (0..0x10).flat_map(|variant| (0..0x10).map(move |revision| variant << 20 | revision));
    revisions
        .flat_map(move |r| (0..0x1000).map(move |part| Midr(implementer << 24 | 0xf << 16 | part << 4 | r)))
}

/// Compares a list with what the library says of all CPUs, and fails with the first that differ.
fn compare(what: &str, source: &Source, cpus: &Cpus, ours: impl Fn(Midr) -> bool) {
    let all = source.implementers().flat_map(all_of);
    let differ = all.filter(|midr| ours(*midr) != cpus.contains(*midr)).map(|midr| midr.0);
    let differ = differ.take(8).collect::<Vec<_>>();
    assert!(differ.is_empty(), "{what}: Linux {:?} and the library differ in {differ:#x?}", source.release());
}

/// A release lists the CPUs that the library says it does, and those need repeated TLBIs that it repeats them for.
#[test]
#[ignore = "needs the source of Linux: run by make test-linux-port"]
fn the_lists_are_those_of_linux() {
    let directory =
        std::env::var_os("LINMAP_LINUX_SOURCE").expect("LINMAP_LINUX_SOURCE is a source of Linux");
    let source = Source::read(Path::new(&directory));
    let listed = source.list("arch/arm64/kernel/cpufeature.c", "supports_bbml");
    let since = |midr: Midr| midr.in_linux_since().is_some_and(|since| since <= source.release());
    compare("never abort", &source, &listed.unwrap_or_default(), since);
    // An older release has not heard of all errata.
    if source.release() >= (7, 2) {
        let repeated = source.list("arch/arm64/kernel/cpu_errata.c", "arm64_repeat_tlbi_list");
        compare("repeat TLBIs", &source, &repeated.expect("a list"), Midr::needs_repeated_tlbi);
    }
}

#[test]
fn a_list_is_read_from_source() {
    let directory = std::env::temp_dir().join(format!("linmap-source-{}", std::process::id()));
    let file = |path: &str, text: &str| {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    };
    file("Makefile", "# SPDX\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 9\n");
    file(
        "arch/arm64/include/asm/cputype.h",
        "#define ARM_CPU_IMP_ONE\t\t0x41\n#define ARM_CPU_IMP_TWO\t0x51\n\
         #define ONE_CPU_PART_A\t\t0xD84\n#define ONE_CPU_PART_B 0xd85 /* of A */\n#define TWO_CPU_PART_KRYO\t0x200\n\
         #define MIDR_A MIDR_CPU_MODEL(ARM_CPU_IMP_ONE, ONE_CPU_PART_A)\n\
         #define MIDR_B\tMIDR_CPU_MODEL(ARM_CPU_IMP_ONE, ONE_CPU_PART_B)\n\
         #define MIDR_KRYO MIDR_CPU_MODEL(ARM_CPU_IMP_TWO, TWO_CPU_PART_KRYO)\n",
    );
    file(
        "list.c",
        "static const struct x before[] = {\n\tMIDR_ALL_VERSIONS(MIDR_B),\n};\n\
         static const struct midr_range the_list[] = {\n\t/* A (r0p2) */\n\tMIDR_REV_RANGE(MIDR_A, 0, 2, 0xf),\n\
         \tERRATA_MIDR_RANGE(MIDR_B, 0xc, 0xe,\n\t\t0xf, 3),\n\tERRATA_MIDR_REV(MIDR_A, 1, 4),\n\
         \t{\n\t\t.midr_range.model = MIDR_KRYO,\n\t\t.matches = is_kryo_midr,\n\t},\n\t{}\n};\n\
         static const struct x after[] = {\n\tMIDR_ALL_VERSIONS(MIDR_B),\n};\n",
    );
    let source = Source::read(&directory);
    let list = source.list("list.c", "the_list").expect("a list");
    assert!(source.list("list.c", "no_list").is_none());
    assert_eq!(source.release(), (7, 3));
    assert_eq!(source.implementers().collect::<Vec<_>>(), [0x41, 0x51]);
    std::fs::remove_dir_all(&directory).expect("a directory");
    let rows = [
        (0x410f_d841, false),
        (0x410f_d842, true),
        (0x410f_d84f, true),
        (0x411f_d843, false),
        (0x411f_d844, true),
        (0x41cf_d85d, false),
        (0x41cf_d85e, true),
        (0x41df_d850, true),
        (0x41ff_d853, true),
        (0x41ff_d854, false),
        (0x410f_d860, false),
        (0x510f_2000, true),
        (0x513f_2ff3, true),
        (0x510f_3000, false),
        (0x510f_d842, false),
    ];
    for (midr, expected) in rows {
        assert_eq!(list.contains(Midr(midr)), expected, "{midr:#x}");
    }
}

/// The chapter's table has each CPU of the list: its name, the MIDR of the first revision, and the release of Linux.
#[test]
fn the_chapter_has_the_list() {
    let chapter = include_str!("../../../../docs/cpus-that-may-abort.md");
    let rows = chapter.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split('|').map(str::trim);
        let (name, midr) = (cells.next()?, cells.next()?.strip_prefix("0x")?);
        Some((
            name,
            Midr(u64::from_str_radix(&midr.replace('_', ""), 16).ok()?),
            cells.next()?,
            cells.next()?,
        ))
    });
    let rows = rows.collect::<Vec<_>>();
    for (name, midr, revision, linux) in &rows {
        assert_eq!(midr.name(), Some(*name));
        assert_eq!(BbmPromise::of(*midr, 0), BbmPromise::Listed, "{name}");
        let (variant, r) = midr.revision();
        let first = if (variant, r) == (0, 0) { "all".into() } else { format!("from r{variant}p{r}") };
        assert_eq!(*revision, first, "{name}");
        let before = Midr(midr.0 - if r > 0 { 1 } else { 1 << 20 });
        assert!((variant, r) == (0, 0) || !BbmPromise::of(before, 0).never_aborts(), "{name}");
        let (major, minor) = midr.in_linux_since().expect("listed");
        assert_eq!(*linux, format!("{major}.{minor}"), "{name}");
    }
    // r0pf or rfpf is among the revisions of each.
    let listed = |midr: u64| BbmPromise::of(Midr(midr), 0).never_aborts();
    let parts = (0..0x100_u64)
        .flat_map(|implementer| (0..0x1000).map(move |part| implementer << 24 | part << 4 | 0xf));
    let parts = parts.filter(|midr| listed(*midr) || listed(midr | 0xf << 20)).count();
    assert_eq!(rows.len(), parts);
}
