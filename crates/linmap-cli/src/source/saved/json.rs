//! Reads and writes the document of `linmap dump --json`. Its rows are [`SavedRun`]s; with them it has every fact
//! that the commands ask of a source, so that a saved dump gives the same answers as its source.
//!
//! `form` has its keys. Facts that an older version lacks are listed ([`Saved::missing`]).

use linmap::arch::{Level, TableLimits};
use linmap::error::GeometryError;
use linmap::{Attributes, Geometry, Granule, OaFormat, Pa, Va};
use serde_json::Value;

use super::super::vmcoreinfo::LIMIT;
use super::super::{
    Cpu, EntryKind, Kernel, Restriction, Saved, SavedPart, SavedRegions, SavedRun, VmcoreInfo,
};
use super::form::{
    CpuForm, Document, Format, Hex, KernelForm, Kind, LimitsForm, Pages, PartForm, Row, Shape,
};

/// The name of the document's schema.
pub(crate) const SCHEMA: &str = "linmap.dump/2";
/// Its name when it had rows and regions alone.
const FIRST_SCHEMA: &str = "linmap.dump/1";

/// The facts that those documents lack.
const FIRST_LACKS: [&str; 2] = [
    "the command line, the CPUs, VMCOREINFO but for its release: this dump was saved in an older form, \
     linmap.dump/1, which has none of these",
    "what tables restrict, and descriptors as they are: they are not in linmap.dump/1 either",
];

/// Why a JSON document is not a dump.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("it is no JSON document of a dump: {0}")]
    Syntax(#[from] serde_json::Error),
    #[error("its schema is `{0}`, and a dump's is `{SCHEMA}`: save what `linmap dump --json` writes")]
    Schema(String),
    #[error(
        "its schema is `{0}`, which a newer linmap wrote; this one reads linmap.dump/1 and linmap.dump/2"
    )]
    Newer(String),
    #[error("it is the document of a run that failed; there is no dump in it")]
    Failed,
    #[error("it has no `geometry`, and every {SCHEMA} has one")]
    NoGeometry,
    #[error("its geometry is none: {0}")]
    Geometry(#[from] GeometryError),
    #[error("row {row}: {what}")]
    Row { row: usize, what: &'static str },
    #[error("{list} {index}: {what}")]
    Item { list: &'static str, index: usize, what: &'static str },
    #[error("it has {0} rows, more than the map of any machine")]
    TooMany(usize),
}

/// Writes a row.
pub(crate) fn row(stretch: &SavedRun) -> Value {
    let (kind, leaf) = match stretch.what {
        EntryKind::Hole => (Kind::Hole, None),
        EntryKind::Reserved => (Kind::Reserved, None),
        EntryKind::Leaf { oa, attributes, contiguous, valid } => {
            (Kind::Leaf, Some((oa, attributes, contiguous, valid)))
        }
    };
    let row = Row {
        va: Hex(stretch.va.0),
        bytes: stretch.bytes,
        level: stretch.level.number(),
        kind,
        pa: leaf.and_then(|(oa, ..)| oa).map(|oa| Hex(oa.0)),
        attributes: leaf.map(|(_, attributes, ..)| Hex(attributes.bits())),
        contiguous: leaf.map(|(_, _, contiguous, _)| contiguous),
        valid: leaf.map(|(_, _, _, valid)| valid),
        // An empty hole has nothing else in it.
        descriptor: stretch.descriptor.filter(|bits| *bits != 0).map(Hex),
    };
    value(&row)
}

/// Writes the facts about the kernel.
pub(crate) fn kernel_document(kernel: &Kernel) -> Value {
    let lines = |info: &VmcoreInfo| info.lines().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    value(&KernelForm {
        command_line: kernel.command_line.clone(),
        vmcoreinfo: kernel.info.as_ref().map(lines),
    })
}

/// Writes the facts about the CPUs.
pub(crate) fn cpu_document(cpu: &Cpu) -> Value {
    value(&CpuForm {
        midrs: cpu.midrs.iter().copied().map(Hex).collect(),
        tcr: cpu.tcr.map(Hex),
        mmfr0: cpu.mmfr0.map(Hex),
        mmfr2: cpu.mmfr2.map(Hex),
        mair: cpu.mair.map(Hex),
    })
}

/// Writes the tables that restrict what lies below them.
pub(crate) fn limits_document(limits: &[Restriction]) -> Value {
    let form = |r: &Restriction| LimitsForm {
        va: Hex(r.va.0),
        bytes: r.bytes,
        level: r.level.number(),
        limits: Hex(r.limits.bits()),
    };
    value(&limits.iter().map(form).collect::<Vec<_>>())
}

/// Converts a form that can always be written.
fn value(form: &impl serde::Serialize) -> Value {
    serde_json::to_value(form).unwrap_or(Value::Null)
}

fn geometry(shape: &Shape) -> Result<Geometry, GeometryError> {
    let granule = match shape.granule {
        Pages::K4 => Granule::K4,
        Pages::K16 => Granule::K16,
        Pages::K64 => Granule::K64,
    };
    let format = match shape.format {
        Format::Bits48 => OaFormat::Bits48,
        Format::Lpa => OaFormat::Lpa,
        Format::Lpa2 => OaFormat::Lpa2,
    };
    Geometry::new(granule, shape.va_bits, format)
}

/// Reads a document. The caller names it.
pub(super) fn read(text: &[u8]) -> Result<Saved, JsonError> {
    let document: Document = serde_json::from_slice(text)?;
    let is_first = document.schema == FIRST_SCHEMA;
    if !is_first && document.schema != SCHEMA {
        let schema = crate::printable::excerpt(&document.schema, 40);
        let is_newer =
            schema.strip_prefix("linmap.dump/").is_some_and(|version| version.parse::<u32>().is_ok());
        return Err(if is_newer { JsonError::Newer(schema) } else { JsonError::Schema(schema) });
    }
    let Some(rows) = &document.rows.as_ref().filter(|_| document.ok != Some(false)) else {
        return Err(JsonError::Failed);
    };
    if rows.len() > Saved::MAX_ROWS {
        return Err(JsonError::TooMany(rows.len()));
    }
    let geometry = document.geometry.as_ref().map(geometry).transpose()?;
    if geometry.is_none() && !is_first {
        return Err(JsonError::NoGeometry);
    }
    let mut stretches = stretches(rows)?;
    if is_first {
        stretches.iter_mut().for_each(mark_invalid);
    }
    let missing = if is_first { FIRST_LACKS.map(str::to_owned).to_vec() } else { document.missing.clone() };
    Ok(Saved {
        name: String::new(),
        geometry,
        stretches,
        markers: Vec::new(),
        parts: parts(&document.parts)?,
        regions: regions(&document),
        limits: limits(&document.table_limits)?,
        kernel: kernel(&document),
        cpu: document.cpu.as_ref().map(cpu).unwrap_or_default(),
        origin: document.source,
        missing,
    })
}

/// Reads the rows, each above the one before it.
fn stretches(rows: &[Row]) -> Result<Vec<SavedRun>, JsonError> {
    let mut stretches: Vec<SavedRun> = Vec::with_capacity(rows.len());
    for (number, row) in rows.iter().enumerate() {
        let wrong = |what| JsonError::Row { row: number, what };
        let next = stretch(row).map_err(wrong)?;
        let last = stretches.last().map(|last| last.va.0.checked_add(last.bytes));
        match last {
            Some(None) => return Err(wrong("there is no address left for it after the row before")),
            Some(Some(end)) if next.va.0 < end => {
                return Err(wrong("it begins before the row before it ends"));
            }
            _ => stretches.push(next),
        }
    }
    Ok(stretches)
}

fn stretch(row: &Row) -> Result<SavedRun, &'static str> {
    let what = match (&row.kind, row.attributes) {
        (Kind::Hole, _) => EntryKind::Hole,
        (Kind::Reserved, _) => EntryKind::Reserved,
        (Kind::Leaf, Some(attributes)) => EntryKind::Leaf {
            oa: row.pa.map(|pa| Pa(pa.0)),
            attributes: Attributes::from_bits_truncate(attributes.0),
            contiguous: row.contiguous.unwrap_or(false),
            valid: row.valid.unwrap_or(true),
        },
        (Kind::Leaf, None) => return Err("a leaf has `attributes`"),
    };
    let (va, bytes, level) = span(row.va, row.bytes, row.level)?;
    Ok(SavedRun { va, bytes, level, what, descriptor: row.descriptor.map(|descriptor| descriptor.0) })
}

/// Sets the software-present bit of an invalid leaf: the first version does not have it, and most leaves do.
fn mark_invalid(stretch: &mut SavedRun) {
    if let EntryKind::Leaf { attributes, valid: false, .. } = &mut stretch.what {
        *attributes |= Attributes::NOT_GLOBAL;
    }
}

/// Checks a range of addresses at a level.
fn span(va: Hex, bytes: u64, level: i8) -> Result<(Va, u64, Level), &'static str> {
    if !(-1..=3).contains(&level) {
        return Err("levels are -1 to 3");
    }
    if bytes == 0 || va.0.checked_add(bytes - 1).is_none() {
        return Err("it has no bytes, or more than there are addresses");
    }
    Ok((Va(va.0), bytes, Level::new(level)))
}

fn parts(parts: &[PartForm]) -> Result<Vec<SavedPart>, JsonError> {
    let mut end = 0;
    let part = |(index, part): (usize, &PartForm)| {
        let wrong = |what| JsonError::Item { list: "part", index, what };
        if part.last.0 < part.first.0 || (index > 0 && part.first.0 <= end) {
            return Err(wrong("it ends before it begins, or begins before the one before it ends"));
        }
        end = part.last.0;
        let range = (Va(part.first.0), Va(part.last.0));
        Ok(SavedPart { range, start: part.start.clone(), end: part.end.clone() })
    };
    parts.iter().enumerate().map(part).collect()
}

fn limits(limits: &[LimitsForm]) -> Result<Vec<Restriction>, JsonError> {
    let restriction = |(index, form): (usize, &LimitsForm)| {
        let wrong = |what| JsonError::Item { list: "table_limits", index, what };
        let (va, bytes, level) = span(form.va, form.bytes, form.level).map_err(wrong)?;
        Ok(Restriction { va, bytes, level, limits: TableLimits::from_bits_truncate(form.limits.0) })
    };
    limits.iter().enumerate().map(restriction).collect()
}

fn regions(document: &Document) -> Option<SavedRegions> {
    let from = document.regions_from.clone()?;
    let list = document.regions.iter().filter(|region| region.first.0 <= region.last.0);
    Some(SavedRegions { from, list: list.map(|r| (r.name.clone(), Va(r.first.0), Va(r.last.0))).collect() })
}

fn kernel(document: &Document) -> Kernel {
    let form = document.kernel.as_ref();
    let lines = match form.and_then(|form| form.vmcoreinfo.as_ref()) {
        Some(lines) => Some(lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect::<String>()),
        // The first version has the release alone.
        None if form.is_none() => document.release.as_ref().map(|release| format!("OSRELEASE={release}\n")),
        None => None,
    };
    Kernel {
        // As when it was read from memory: it ends at the first byte that is not text.
        info: lines.map(|lines| VmcoreInfo::parse(&lines.as_bytes()[..lines.len().min(LIMIT)])),
        command_line: form.and_then(|form| form.command_line.clone()),
    }
}

fn cpu(form: &CpuForm) -> Cpu {
    let number = |hex: Option<Hex>| hex.map(|hex| hex.0);
    Cpu {
        tcr: number(form.tcr),
        midrs: form.midrs.iter().map(|midr| midr.0).collect(),
        mmfr0: number(form.mmfr0),
        mmfr2: number(form.mmfr2),
        mair: number(form.mair),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    /// Writes a document of these rows.
    fn document(geometry: Geometry, rows: &[SavedRun]) -> Value {
        let rows: Vec<Value> = rows.iter().map(row).collect();
        serde_json::json!({ "schema": SCHEMA, "ok": true, "geometry": shape(geometry), "rows": rows })
    }

    fn shape(geometry: Geometry) -> Shape {
        let granule = match geometry.granule() {
            Granule::K4 => Pages::K4,
            Granule::K16 => Pages::K16,
            Granule::K64 => Pages::K64,
        };
        let format = match geometry.oa_format() {
            OaFormat::Bits48 => Format::Bits48,
            OaFormat::Lpa => Format::Lpa,
            OaFormat::Lpa2 => Format::Lpa2,
        };
        Shape { granule, va_bits: geometry.va_bits(), format }
    }

    fn small() -> Geometry {
        Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
    }

    fn stretches() -> Vec<SavedRun> {
        let leaf = |oa| EntryKind::Leaf { oa, attributes: Attributes::RAM, contiguous: true, valid: false };
        let at = |va, what, descriptor| SavedRun {
            va: Va(va),
            bytes: 0x1000,
            level: Level::PAGE,
            what,
            descriptor,
        };
        vec![
            at(0xffff_0000_0000_0000, EntryKind::Hole, None),
            at(0xffff_0000_0000_1000, leaf(Some(Pa(0x4000_0000))), Some(0x0170_0000_4000_0f02)),
            at(0xffff_0000_0000_3000, leaf(None), None),
            at(0xffff_ffff_ffff_f000, EntryKind::Reserved, Some(1)),
        ]
    }

    #[test]
    fn a_document_reads_back_as_written() {
        let g = Geometry::new(Granule::K16, 52, OaFormat::Lpa2).expect("a geometry");
        let kernel = Kernel {
            info: Some(VmcoreInfo::parse(b"OSRELEASE=6.1\nNUMBER(a)=-2\n")),
            command_line: Some("quiet \u{1b}[31m\t\"x\"".to_owned()),
        };
        let cpu = Cpu { tcr: Some(u64::MAX), midrs: vec![1, 2], mair: Some(0xff), ..Cpu::default() };
        let limits = [Restriction {
            va: Va(0xffff << 48),
            bytes: 1 << 30,
            level: Level::new(1),
            limits: TableLimits::PXN | TableLimits::UXN,
        }];
        let mut value = document(g, &stretches());
        value["kernel"] = kernel_document(&kernel);
        value["cpu"] = cpu_document(&cpu);
        value["table_limits"] = limits_document(&limits);
        let saved = read(value.to_string().as_bytes()).expect("a dump");
        assert_eq!((saved.geometry, saved.stretches), (Some(g), stretches()));
        assert_eq!((saved.kernel, saved.cpu, saved.limits.as_slice()), (kernel, cpu, &limits[..]));
        assert_eq!(saved.missing, Vec::<String>::new());
    }

    #[test]
    fn the_first_form_is_read_and_what_it_lacks_is_said() {
        let mut value = document(small(), &stretches());
        value["schema"] = FIRST_SCHEMA.into();
        value["release"] = "6.1.0-40-arm64".into();
        let saved = read(value.to_string().as_bytes()).expect("a dump");
        assert_eq!(saved.kernel.info.as_ref().and_then(VmcoreInfo::release), Some("6.1.0-40-arm64"));
        assert!(saved.missing[0].contains("the command line"), "{:?}", saved.missing);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let changed = |from: &str, to: &str| {
            let text = document(small(), &stretches()).to_string().replace(from, to);
            read(text.as_bytes()).expect_err(to).to_string()
        };
        assert!(changed("dump/2", "stat/1").contains("its schema is `linmap.stat/1`"));
        assert!(changed("dump/2", "dump/3").contains("which a newer linmap wrote"));
        assert!(changed("\"ok\":true", "\"ok\":false").contains("a run that failed"));
        assert!(changed("\"geometry\"", "\"geo\"").contains("it has no `geometry`"));
        assert!(changed("0xffff000000001000", "0xfffe000000000000").starts_with("row 1: it begins before"));
        assert!(changed("0xffff000000001000", "ffff").contains("was expected"));
        assert!(changed("4096", "0").starts_with("row 0: it has no bytes"));
        assert!(changed("attributes", "attribute").starts_with("row 1: a leaf has"));
        assert!(changed("\"level\":3", "\"level\":4").starts_with("row 0: levels are"));
        assert!(changed("leaf", "tree").contains("unknown variant"));
        let with = |key: &str, list: Value| {
            let mut value = document(small(), &stretches());
            value[key] = list;
            read(value.to_string().as_bytes()).expect_err(key).to_string()
        };
        let part = serde_json::json!([{ "start": "a", "end": "b", "first": "0x2", "last": "0x1" }]);
        assert!(with("parts", part).starts_with("part 0: it ends before it begins"));
        let limits = serde_json::json!([{ "va": "0x0", "bytes": 0, "level": 1, "limits": "0x0" }]);
        assert!(with("table_limits", limits).starts_with("table_limits 0: it has no bytes"));
    }

    proptest! {
        #[test]
        fn a_damaged_document_is_in_order_and_reads_back(at: usize, byte: u8, end: usize, noise: Vec<u8>) {
            let mut bytes = document(small(), &stretches()).to_string().into_bytes();
            let length = bytes.len();
            // What is not whole is no JSON.
            for cut in [&bytes[..end % length], &noise] {
                prop_assert!(matches!(read(cut), Err(JsonError::Syntax(_))));
            }
            bytes[at % length] = byte;
            if let Ok(saved) = read(&bytes) {
                let g = saved.geometry.expect("each document has one");
                let rows = &saved.stretches;
                prop_assert!(rows.windows(2).all(|pair| pair[0].va.0 + pair[0].bytes <= pair[1].va.0));
                prop_assert!(rows.iter().all(|row| row.bytes > 0 && row.va.0.checked_add(row.bytes - 1).is_some()));
                let again = read(document(g, rows).to_string().as_bytes()).expect("a document");
                prop_assert_eq!((again.geometry, &again.stretches), (saved.geometry, rows));
                // One byte changes one row.
                let changed = rows.iter().zip(stretches()).filter(|(row, original)| *row != original).count();
                prop_assert!(rows.len() == stretches().len() && changed <= 1);
            }
        }
    }
}
