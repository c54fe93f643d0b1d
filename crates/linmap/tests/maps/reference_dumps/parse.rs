//! Reads a dump of a 4-level map back into runs: the columns of the format, field by field.

use linmap::arch::Level;
use linmap::layout::Run;
use linmap::{Attributes, Geometry, MemoryType, Pa, Va};

/// The mapped lines of a dump; RAM starts at 1 GiB.
pub(crate) fn parse(text: &str, g: Geometry) -> Vec<Run> {
    let lines = text.lines().filter(|line| !line.starts_with("---["));
    lines.filter_map(|line| parse_line(line, g)).collect()
}

fn parse_line(line: &str, g: Geometry) -> Option<Run> {
    let (start, end) = (hex(&line[..18]), hex(&line[19..37]));
    let (level, fields) = line[51..].split_at(3);
    let level = match level {
        "PGD" => Level::new(0),
        "PUD" => Level::new(1),
        "PMD" => Level::new(2),
        "PTE" => Level::new(3),
        _ => panic!("no level in {line:?}"),
    };
    if fields.is_empty() {
        return None;
    }
    let oa = Pa(start - 0xffff_0000_0000_0000 + 0x4000_0000);
    let descriptors = (end - start) >> g.level_shift(level);
    assert_eq!(field(fields, 27, "BLK"), level != Level::PAGE, "{line:?}");
    let contiguous = field(fields, 23, "CON");
    Some(Run { va: Va(start), oa, level, contiguous, descriptors, attributes: attributes(fields) })
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.strip_prefix("0x").expect("0x"), 16).expect("hexadecimal")
}

/// Returns true if the column that starts at `at` is `name` or blank.
fn field(fields: &str, at: usize, name: &str) -> bool {
    let found = &fields[at..at + name.len()];
    assert!(found == name || found.trim().is_empty(), "{found:?} where {name} belongs");
    found == name
}

fn attributes(fields: &str) -> Attributes {
    assert!(!field(fields, 1, "F") && !field(fields, 3, "USR") && !field(fields, 20, "NG"));
    assert!(!field(fields, 35, "GP"));
    let mut attributes = Attributes::empty();
    attributes.set(Attributes::READ_ONLY, &fields[7..9] == "ro");
    attributes.set(Attributes::PXN, &fields[10..12] == "NX");
    attributes.set(Attributes::INNER_SHAREABLE, field(fields, 13, "SHD"));
    attributes.set(Attributes::ACCESSED, field(fields, 17, "AF"));
    attributes.set(Attributes::UXN, field(fields, 31, "UXN"));
    let memory_type = match &fields[38..] {
        "MEM/NORMAL" => MemoryType::NORMAL,
        "MEM/NORMAL-TAGGED" => MemoryType::NORMAL_TAGGED,
        other => panic!("memory type {other:?}"),
    };
    attributes | Attributes::from_bits_retain(u64::from(memory_type.index()) << 2)
}
