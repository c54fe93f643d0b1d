//! Functions and lines of the guest by address.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSymbol, SymbolKind};
use serde_json::Value;

use super::failure::Failure;
use super::kernel::Own;
use super::lines::Lines;
use crate::linux::symbols::Symbols;

/// The name of the vectors of Linux, by which a kernel is found that has moved.
const VECTORS: &str = "vectors";

/// A kernel moves by a multiple of this.
const MOVES: u64 = 64 << 10;

/// The functions of a guest.
#[derive(Default)]
pub(crate) struct Names {
    symbols: Symbols,
    /// The lines, at the addresses of their file.
    lines: Option<Lines>,
    /// True if a file has them.
    of_file: bool,
    /// The way that the kernel has moved from the addresses of its file.
    moved: u64,
    /// The virtual address of the image less its physical one: code runs at both while the MMU is switched on.
    offset: u64,
}

impl Names {
    /// Reads the file of `--symbols`, or the kernel's own if it is ELF.
    pub(crate) fn read(file: Option<&Path>, kernel: Option<&Path>) -> Result<Self, Failure> {
        let own = |path: &&Path| fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
        let Some(path) = file.or_else(|| kernel.filter(own)) else { return Ok(Self::default()) };
        let failed = |error| Failure::File { path: path.into(), error };
        let bytes = fs::read(path).map_err(failed)?;
        let (symbols, lines) = if bytes.starts_with(b"\x7fELF") {
            of_elf(&bytes).map_err(|why| failed(std::io::Error::other(why)))?
        } else {
            let text = String::from_utf8_lossy(&bytes);
            (Symbols::parse(&text).map_err(|why| failed(std::io::Error::other(why)))?, None)
        };
        Ok(Self { symbols, lines, of_file: true, ..Self::default() })
    }

    /// Returns the names at the guest's addresses: kernels move, and the vectors say by how much. `own` reads what the guest has of itself:
    /// where it is in RAM, and without a file its functions.
    pub(crate) fn in_guest(self, vectors: u64, own: impl FnOnce() -> Option<Own>) -> Self {
        let own = own();
        if !self.of_file {
            return own.map_or(self, |Own { symbols, offset }| Self { symbols, offset, ..Self::default() });
        }
        let by = self.symbols.address(VECTORS).filter(|_| vectors != 0).map(|at| vectors.wrapping_sub(at));
        // Kernels move by whole pages of the largest size. Other vectors came before those of this name.
        let moved = by.filter(|by| by % MOVES == 0).unwrap_or_default();
        let offset = own.map_or(0, |own| own.offset);
        Self { symbols: self.symbols.moved(moved), moved, offset, ..self }
    }

    /// Returns the file and line of an address.
    pub(crate) fn line(&self, address: u64) -> Option<String> {
        let lines = self.lines.as_ref().filter(|_| address != 0)?;
        let at = |address: u64| lines.line(address.wrapping_sub(self.moved));
        at(address).or_else(|| at(address.wrapping_add(self.offset)))
    }

    /// Returns the function with an address.
    pub(crate) fn name(&self, address: u64) -> Option<String> {
        let at_other = || self.symbols.name(address.wrapping_add(self.offset));
        self.symbols.name(address).or_else(at_other).filter(|_| address != 0)
    }

    /// Returns the addresses of a function, as its file has them.
    pub(crate) fn function(&self, name: &str) -> Option<(u64, u64)> {
        self.symbols.range(name)
    }

    /// Adds the function and the line to each step of a document.
    pub(crate) fn named(&self, mut document: Value) -> Value {
        self.name_all(&mut document);
        document
    }

    fn name_all(&self, value: &mut Value) {
        match value {
            Value::Array(list) => list.iter_mut().for_each(|value| self.name_all(value)),
            Value::Object(fields) => {
                let pc = fields.get("pc").map(address).unwrap_or_default();
                for (key, known) in [("function", self.name(pc)), ("line", self.line(pc))] {
                    if let Some(known) = known {
                        fields.insert(key.into(), known.into());
                    }
                }
                fields.values_mut().for_each(|value| self.name_all(value));
            }
            _ => {}
        }
    }
}

/// Reads an address of a document.
pub(crate) fn address(value: &Value) -> u64 {
    hexadecimal(value.as_str().unwrap_or_default()).unwrap_or_default()
}

/// Reads a hexadecimal number, with or without its prefix.
pub(crate) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Reads the functions and lines of an ELF file.
fn of_elf(bytes: &[u8]) -> Result<(Symbols, Option<Lines>), object::Error> {
    let file = object::File::parse(bytes)?;
    let functions = file.symbols().filter(|symbol| {
        matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label)
            && symbol.section_index().is_some()
    });
    let named = functions.filter_map(|symbol| Some((symbol.address(), demangled(symbol.name().ok()?))));
    // `$x` and `$d` mark code and data; Linux has them with a prefix, too.
    let marks = |name: &str| ["$x", "$d"].iter().any(|mark| name.ends_with(mark) || name.starts_with(mark));
    let symbols = Symbols::new(named.filter(|(_, name)| !name.is_empty() && !marks(name)));
    Ok((symbols, Lines::of_elf(&file)))
}

/// Returns the name of a function as its source has it.
fn demangled(name: &str) -> String {
    // Without the hash at its end.
    format!("{:#}", rustc_demangle::demangle(name))
}
