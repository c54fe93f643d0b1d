//! The fields of a stage 1 descriptor (Arm ARM D8.3.1, D8.3.2). Every bit is in one field.

use linmap::arch::{Descriptor, Entry, Level};
use linmap::read::Visited;
use linmap::{Attributes, Geometry, OaFormat};
use serde_json::{Value, json};

/// Some bits of a descriptor, and their meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// The highest and the lowest bit.
    pub(super) bits: (u32, u32),
    pub(super) name: &'static str,
    pub(super) value: u64,
    pub(super) meaning: String,
}

impl Field {
    /// Returns its bits: `47:12`, or `10`.
    pub(super) fn place(&self) -> String {
        let (high, low) = self.bits;
        if high == low { high.to_string() } else { format!("{high}:{low}") }
    }

    pub(super) fn document(&self) -> Value {
        let value = format!("{:#x}", self.value);
        json!({ "bits": self.place(), "name": self.name, "value": value, "meaning": self.meaning })
    }
}

/// Returns the kind of an entry, in a word.
pub(super) const fn kind(found: &Visited) -> &'static str {
    match found.entry {
        Entry::Table(_) => "table",
        Entry::Hole => "hole",
        Entry::Reserved => "reserved",
        Entry::Leaf(_) if found.level.number() == Level::PAGE.number() => "page",
        Entry::Leaf(_) => "block",
    }
}

/// Returns the fields of an entry, highest first. `mair` is the register that AttrIndx refers to, if it is known.
pub(super) fn of(found: &Visited, geometry: Geometry, mair: Option<u64>) -> Vec<Field> {
    let mut fields = Fields { descriptor: found.descriptor, list: Vec::new() };
    match found.entry {
        Entry::Table(_) => table(&mut fields, geometry),
        Entry::Leaf(_) => leaf(&mut fields, geometry, found.level, mair),
        Entry::Hole | Entry::Reserved => {
            fields.add(63, 1, "", |_| "ignored".to_owned());
            fields
                .add(0, 0, "valid", |v| if v == 0 { "no" } else { "yes, but means nothing here" }.to_owned());
        }
    }
    fields.list
}

struct Fields {
    descriptor: Descriptor,
    list: Vec<Field>,
}

impl Fields {
    fn add(&mut self, high: u32, low: u32, name: &'static str, meaning: impl FnOnce(u64) -> String) {
        let value = self.descriptor.0 >> low & (u64::MAX >> (63 - (high - low)));
        self.list.push(Field { bits: (high, low), name, value, meaning: meaning(value) });
    }

    /// Adds a field of one bit, with its meaning when clear and when set.
    fn flag(&mut self, bit: u32, name: &'static str, [clear, set]: [&str; 2]) {
        self.add(bit, bit, name, |value| if value == 0 { clear } else { set }.to_owned());
    }

    /// Adds bits that must be 0 or are ignored.
    fn rest(&mut self, high: u32, low: u32, what: &'static str) {
        if high >= low {
            self.add(high, low, "", |_| what.to_owned());
        }
    }
}

fn table(fields: &mut Fields, g: Geometry) {
    fields.flag(63, "NSTable", ["", "non-secure below (Secure state only)"]);
    fields.add(62, 61, "APTable", |value| {
        match value {
            0 => "no restriction",
            1 => "no access from EL0 below",
            2 => "read-only below",
            _ => "read-only, and no access from EL0, below",
        }
        .to_owned()
    });
    fields.flag(60, "UXNTable", ["no restriction", "EL0 executes nothing below"]);
    fields.flag(59, "PXNTable", ["no restriction", "EL1 executes nothing below"]);
    fields.rest(58, 51, "ignored");
    fields.rest(50, 50, "must be 0");
    address(fields, g, g.page_shift(), "next table");
    if g.oa_format() == OaFormat::Lpa2 {
        fields.add(9, 8, "address 51:50", |_| String::new());
        fields.rest(7, 2, "ignored, but AF (10) and software's");
    } else {
        fields.rest(11, 2, "ignored, but AF (10) and software's");
    }
    fields.flag(1, "type", ["", "table"]);
    fields.flag(0, "valid", ["no", "yes"]);
}

/// Adds the address bits down to `shift`, and the bits below them down to bit 12.
fn address(fields: &mut Fields, g: Geometry, shift: u32, name: &'static str) {
    let top = if g.oa_format() == OaFormat::Lpa2 { 49 } else { 47 };
    fields.rest(49, top + 1, "must be 0");
    fields.add(top, shift, name, |value| format!("{:#x}", value << shift));
    let is_lpa = g.oa_format() == OaFormat::Lpa;
    fields.rest(shift - 1, if is_lpa { 16 } else { 12 }, "must be 0");
    if is_lpa {
        fields.add(15, 12, "address 51:48", |_| String::new());
    }
    if g.oa_format() == OaFormat::Lpa2 && name == "next table" {
        fields.rest(11, 10, "ignored, but AF (10) and software's");
    }
}

fn leaf(fields: &mut Fields, g: Geometry, level: Level, mair: Option<u64>) {
    let is_page = level == Level::PAGE;
    fields.rest(63, 63, "ignored");
    fields.rest(62, 59, "PBHA, or ignored");
    fields.add(58, 55, "software", |_| "the kernel's own".to_owned());
    fields.flag(54, "UXN", ["EL0 may execute", "EL0 never executes"]);
    fields.flag(53, "PXN", ["EL1 may execute", "EL1 never executes"]);
    fields.add(52, 52, "Contiguous", |value| match value {
        0 => "not in a run".to_owned(),
        _ => format!("one of a run of {}", g.contiguous_entries(level)),
    });
    fields.flag(51, "DBM", ["AP[2] is as it is", "hardware makes it writable on the first write"]);
    fields.flag(50, "GP", ["branches land anywhere", "branches land on BTI only"]);
    output(fields, g, level, is_page);
    let is_valid = fields.descriptor.is_valid();
    if is_valid {
        fields.flag(11, "nG", ["global", "of one ASID"]);
    } else {
        fields.flag(11, "present", ["", "kept by the kernel, in the place of nG"]);
    }
    fields.flag(10, "AF", ["the first access faults", "accessed"]);
    if g.oa_format() == OaFormat::Lpa2 {
        fields.add(9, 8, "address 51:50", |_| String::new());
    } else {
        let sh = ["not shareable", "reserved", "outer shareable", "inner shareable"];
        fields.add(9, 8, "SH", |value| sh[value as usize & 3].to_owned());
    }
    fields.flag(7, "AP[2]", ["writable", "read-only"]);
    fields.flag(6, "AP[1]", ["EL1 only", "EL0, too"]);
    fields.flag(5, "NS", ["", "non-secure (Secure state only)"]);
    fields.add(4, 2, "AttrIndx", |value| memory(value, mair));
    // In an invalid leaf of linmap that is not global, the bit is inverted; Linux leaves it as it was.
    let local = "inverted: of one ASID";
    match (is_valid, is_page) {
        (true, true) => fields.flag(1, "type", ["reserved", "page"]),
        (true, false) => fields.flag(1, "type", ["block", "table"]),
        (false, true) => fields.flag(1, "type", [local, "page"]),
        (false, false) => fields.flag(1, "type", ["block", local]),
    }
    fields.flag(0, "valid", ["no: accesses fault", "yes"]);
}

/// Adds the output address, and in a block nT.
fn output(fields: &mut Fields, g: Geometry, level: Level, is_page: bool) {
    let shift = g.level_shift(level);
    if is_page {
        return address(fields, g, shift, "output address");
    }
    let top = if g.oa_format() == OaFormat::Lpa2 { 49 } else { 47 };
    fields.rest(49, top + 1, "must be 0");
    fields.add(top, shift, "output address", |value| format!("{:#x}", value << shift));
    fields.rest(shift - 1, 17, "must be 0");
    fields.flag(16, "nT", ["", "not to be cached in a TLB while its size changes"]);
    if g.oa_format() == OaFormat::Lpa {
        fields.add(15, 12, "address 51:48", |_| String::new());
    } else {
        fields.rest(15, 12, "must be 0");
    }
}

/// Returns the meaning of AttrIndx: by Linux's numbering, and by MAIR if it is known.
fn memory(index: u64, mair: Option<u64>) -> String {
    let name = Attributes::from_bits_retain(index << 2).memory_type().name();
    match (name, mair) {
        (name, Some(mair)) => {
            let byte = mair >> (index * 8) & 0xff;
            format!("{}, MAIR {byte:#04x}", name.unwrap_or("no type of Linux"))
        }
        (Some(name), None) => format!("{name}, as Linux numbers them"),
        (None, None) => "no type of Linux".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::{Granule, Slot, Va};
    use test_support::geometries;
    use test_support::prelude::*;

    /// 4K pages and 48 bits.
    fn usual() -> Geometry {
        Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap()
    }

    fn found(bits: u64, g: Geometry, level: Level) -> Visited {
        let descriptor = Descriptor(bits);
        let entry = descriptor.decode(g, level);
        Visited {
            va: Va(0),
            level,
            slot: Slot::default(),
            descriptor,
            entry,
            limits: linmap::arch::TableLimits::empty(),
        }
    }

    proptest! {
        /// Every bit is in one field, and the values put together are the descriptor.
        #[test]
        fn fields_are_the_whole_descriptor(bits: u64) {
            for g in geometries() {
                for level in (g.root().number()..=3).map(Level::new) {
                    let fields = of(&found(bits, g, level), g, Some(bits));
                    let mut next = 63;
                    let mut whole = 0;
                    for field in &fields {
                        prop_assert_eq!(field.bits.0, next, "{:?}", fields);
                        whole |= field.value << field.bits.1;
                        next = field.bits.1.wrapping_sub(1);
                    }
                    prop_assert_eq!(next, u32::MAX);
                    prop_assert_eq!(whole, bits);
                }
            }
        }
    }

    /// In Linux's invalid pages, nG has no meaning, as its bit marks them; in those of linmap it has.
    #[test]
    fn an_invalid_leaf_says_whether_it_is_global_only_if_that_is_known() {
        let g = usual();
        let says = |bits, level| {
            let fields = of(&found(bits, g, level), g, None);
            let say = |name| fields.iter().find(|f| f.name == name).map(|f| f.meaning.clone());
            (say("nG"), say("present").unwrap(), say("type").unwrap())
        };
        let kept = "kept by the kernel, in the place of nG";
        let local = "inverted: of one ASID";
        for (bits, level, said) in [
            (0x0068_0000_4000_0f06, Level::PAGE, "page"),
            (0x0068_0000_4000_0f04, Level::PAGE, local),
            (0x0068_0000_4000_0f04, Level::new(2), "block"),
            (0x0068_0000_4000_0f06, Level::new(2), local),
        ] {
            assert_eq!(says(bits, level), (None, kept.to_owned(), said.to_owned()), "{bits:#x}");
        }
    }

    #[test]
    fn a_page_of_the_linear_map_field_by_field() {
        let g = usual();
        let fields = of(&found(0x0068_0000_4000_0707, g, Level::PAGE), g, Some(0x0000_0004_0044_f0ff));
        let say = |name| fields.iter().find(|field| field.name == name).map(|field| field.meaning.as_str());
        assert_eq!(say("output address"), Some("0x40000000"));
        assert_eq!(say("AttrIndx"), Some("MEM/NORMAL-TAGGED, MAIR 0xf0"));
        assert_eq!(say("SH"), Some("inner shareable"));
        assert_eq!(say("DBM"), Some("hardware makes it writable on the first write"));
        assert_eq!(say("UXN"), Some("EL0 never executes"));
        assert_eq!(fields[fields.len() - 1].place(), "0");
    }
}
