//! Pure: a target description, the XML in which a stub lists its registers and their numbers.
//!
//! Only tags and attributes are parsed; stubs write no other XML.

use std::collections::HashMap;

/// The most registers that a description can have.
const MAX_REGISTERS: usize = 1 << 14;

/// A register of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Register {
    /// Its number in `p` packets.
    pub(super) number: u32,
    /// Its size in bytes.
    pub(super) bytes: usize,
}

/// A description, as far as it was read.
#[derive(Default, Debug)]
pub(in crate::source) struct Description {
    /// The target's architecture, by gdb's name.
    pub(super) architecture: Option<String>,
    registers: HashMap<String, Register>,
    next: u32,
}

/// One element of a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// `<architecture>`.
    Architecture(String),
    /// `<xi:include>`: another document replaces it.
    Include(String),
    /// `<reg>`: name, number if it is not the next one, bits.
    Register(String, Option<u32>, usize),
}

impl Description {
    /// Adds an element. The caller reads the documents that are included.
    pub(super) fn add(&mut self, part: Part) {
        match part {
            Part::Architecture(name) => self.architecture = Some(name),
            Part::Include(_) => {}
            Part::Register(name, number, bits) if self.registers.len() < MAX_REGISTERS => {
                let number = number.unwrap_or(self.next);
                self.next = number.wrapping_add(1);
                self.registers.insert(name.to_ascii_uppercase(), Register { number, bytes: bits / 8 });
            }
            Part::Register(..) => {}
        }
    }

    /// Returns the register that has one of these names, which are in capitals.
    pub(super) fn register(&self, names: &[&str]) -> Option<Register> {
        names.iter().find_map(|name| self.registers.get(*name)).copied()
    }
}

/// Returns the elements of a document, in order.
pub(super) fn parts(document: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for piece in document.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        let attribute = |name| attribute(attributes, name);
        match name.trim_end_matches('/') {
            "architecture" => parts.push(Part::Architecture(text.trim().to_owned())),
            "xi:include" => parts.extend(attribute("href").map(Part::Include)),
            "reg" => {
                let number = attribute("regnum").and_then(|number| number.parse().ok());
                let bits = attribute("bitsize").and_then(|bits| bits.parse().ok()).unwrap_or(0);
                parts.extend(attribute("name").map(|name| Part::Register(name, number, bits)));
            }
            _ => {}
        }
    }
    parts
}

/// Returns the value of an attribute, in quotes of either kind.
fn attribute(mut text: &str, wanted: &str) -> Option<String> {
    loop {
        let (name, rest) = text.split_once('=')?;
        let rest = rest.trim_start();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, rest) = rest[1..].split_once(quote)?;
        if name.trim() == wanted {
            return Some(value.to_owned());
        }
        text = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn registers_are_numbered_on_from_the_one_in_front() {
        let document = r#"<?xml version="1.0"?><!DOCTYPE feature SYSTEM "gdb-target.dtd">
            <target><architecture> aarch64 </architecture><xi:include href="core.xml"/>
            <feature name="a"><reg name="x0" bitsize="64" type='int'/><reg name="cpsr" bitsize="32"/>
            <reg name='TCR_EL1' bitsize="64" regnum="174" group="cp_regs"/><reg name="next" bitsize="128"/>"#;
        let mut description = Description::default();
        let parts = parts(document);
        assert!(parts.contains(&Part::Include("core.xml".into())));
        parts.into_iter().for_each(|part| description.add(part));
        assert_eq!(description.architecture.as_deref(), Some("aarch64"));
        let register = |name| description.register(&[name]).map(|r| (r.number, r.bytes));
        assert_eq!(
            ["X0", "CPSR", "TCR_EL1", "NEXT", "TTBR1_EL1"].map(register),
            [Some((0, 8)), Some((1, 4)), Some((174, 8)), Some((175, 16)), None]
        );
    }

    proptest! {
        #[test]
        fn registers_read_back(
            all in prop::collection::vec(("[a-zA-Z0-9_]{1,9}", any::<Option<u32>>(), 0..1024usize), 0..6), single: bool,
        ) {
            let quote = if single { '\'' } else { '"' };
            let line = |(name, number, bits): &(String, Option<u32>, usize)| {
                let number = number.map(|number| format!("regnum = {quote}{number}{quote}")).unwrap_or_default();
                format!("<reg bitsize={quote}{bits}{quote} {number} name={quote}{name}{quote}/>\n")
            };
            let document: String = all.iter().map(line).collect();
            let expected: Vec<_> = all.into_iter().map(|(name, number, bits)| Part::Register(name, number, bits)).collect();
            prop_assert_eq!(parts(&document), expected);
        }

        /// Whatever a document is, an element is a tag of it, and its name is in it.
        #[test]
        fn elements_are_of_the_document(document: String, xml in "[<>=\"'a-c/ ]{0,40}", tag in "reg|xi:include|architecture") {
            for document in [document, format!("<{tag} name='{xml}"), format!("<{tag} href=\"{xml}"), format!("<{tag}>{xml}")] {
                let found = parts(&document);
                prop_assert!(found.len() <= document.matches('<').count());
                for part in found {
                    let (Part::Architecture(name) | Part::Include(name) | Part::Register(name, ..)) = part;
                    prop_assert!(document.contains(&name), "{name:?} in {document:?}");
                }
            }
        }
    }
}
