//! The cost of the same RAM mapped in pages, as the library computes it.

use std::ops::Range;

use linmap::{Geometry, Granule, Layout, Leaves, OaFormat, Pa, Rodata, Stats};
use serde_json::Value;

use super::document::{self, Document};

/// The cost of a map.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Table pages, the root included.
    pub(crate) tables: u64,
    pub(crate) table_bytes: u64,
    /// TLB entries that cover the map.
    pub(crate) tlb_entries: u64,
}

/// Returns the cost in pages for the RAM, page size and addresses of the report, if it has them.
pub(crate) fn page_mapped_cost(document: &Document) -> Option<Cost> {
    let geometry = geometry(document.number("/page_size")?, document.number("/va_bits")?)?;
    let mut ram = ranges(document.list("/memory/ram"))?;
    let mut carve_outs = ranges(document.list("/memory/carve_outs"))?;
    let image = range(document.list("/memory/image")).unwrap_or_default();
    let layout = Layout::new(geometry, &mut ram, &mut carve_outs, image, Rodata::Full).ok()?;
    let pages = Stats::of_runs(geometry, layout.runs(Leaves::Pages));
    Some(Cost {
        tables: pages.tables,
        table_bytes: pages.table_bytes(geometry),
        tlb_entries: pages.tlb_entries(geometry),
    })
}

/// Returns the geometry of a page size in bytes and a VA size in bits.
pub(crate) fn geometry(page_size: u64, va_bits: u64) -> Option<Geometry> {
    let granule = Granule::ALL.into_iter().find(|g| g.page_size() == page_size)?;
    let va_bits = u32::try_from(va_bits).ok()?;
    let formats = [OaFormat::Bits48, OaFormat::Lpa2];
    formats.into_iter().find_map(|format| Geometry::new(granule, va_bits, format).ok())
}

fn ranges(list: &[Value]) -> Option<Vec<Range<Pa>>> {
    list.iter().map(|ends| range(ends.as_array()?)).collect()
}

/// Reads a range: its first address and the one after its last.
fn range(ends: &[Value]) -> Option<Range<Pa>> {
    match ends {
        [start, end] => Some(Pa(document::address(start)?)..Pa(document::address(end)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cost(page_size: u64, va_bits: u64, ram: &[[&str; 2]]) -> Option<Cost> {
        let mut document = Document::default();
        let report = json!({ "page_size": page_size, "va_bits": va_bits, "memory": { "ram": ram } });
        document.merge_line(report.to_string().as_bytes()).expect("an object");
        page_mapped_cost(&document)
    }

    #[test]
    fn twelve_gigabytes_in_pages() {
        let ram = [["0x40000000", "0x340000000"]];
        let small = cost(4096, 48, &ram).expect("a complete report");
        assert_eq!(small, Cost { tables: 1 + 1 + 12 + 6144, table_bytes: 6158 * 4096, tlb_entries: 3 << 20 });
        let medium = cost(16384, 48, &ram).expect("a complete report");
        assert_eq!(medium.tables, 1 + 1 + 1 + 384);
        let large = cost(65536, 48, &ram).expect("a complete report");
        assert_eq!(large.tables, 1 + 1 + 24);
        assert!(cost(4096, 52, &ram).is_some() && cost(65536, 52, &ram).is_some());
    }

    #[test]
    fn reports_that_make_no_sense_have_no_price() {
        assert_eq!(cost(4096, 48, &[]), None);
        assert_eq!(cost(8192, 48, &[["0x0", "0x1000"]]), None);
        assert_eq!(cost(4096, 53, &[["0x0", "0x1000"]]), None);
        assert_eq!(cost(4096, 48, &[["0x1000", "0x1000"]]), None);
        assert_eq!(cost(4096, 48, &[["0x0", "0x2000"], ["0x1000", "0x3000"]]), None);
        assert_eq!(cost(4096, 48, &[["0", "x"]]), None);
        // Absurd, but it has a result.
        assert!(cost(4096, 48, &[["0x0", "0xffffffffffffffff"]]).is_some());
    }
}
