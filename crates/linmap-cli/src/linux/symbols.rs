//! Symbols of a kernel: names by address, and addresses by name.

use std::collections::HashMap;

/// The most symbols that are kept.
const MAX_SYMBOLS: usize = 1 << 22;

/// The symbols of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Symbols {
    /// In order of address; of symbols at the same address, in the order in which they were added.
    list: Vec<(u64, String)>,
    /// The index of the first symbol of each name.
    names: HashMap<String, u64>,
}

/// Why a file has no symbols.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SymbolsError {
    #[error("line {line} is no symbol: `ffff800080000000 T _stext` is one")]
    Line { line: usize },
    #[error("all addresses in it are 0: the kernel shows them to root (kernel.kptr_restrict)")]
    Hidden,
    #[error("it has no symbols")]
    Empty,
}

impl Symbols {
    /// Returns these symbols, given in any order.
    pub(crate) fn new(symbols: impl IntoIterator<Item = (u64, String)>) -> Self {
        let mut list: Vec<_> = symbols.into_iter().take(MAX_SYMBOLS).collect();
        list.sort_by_key(|symbol| symbol.0);
        let mut names = HashMap::with_capacity(list.len());
        for (address, name) in &list {
            names.entry(name.clone()).or_insert(*address);
        }
        Self { list, names }
    }

    /// Reads `System.map` or `/proc/kallsyms`: an address, a type and a name on each line. Absolute symbols are left out.
    pub(crate) fn parse(text: &str) -> Result<Self, SymbolsError> {
        let mut list = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let mut words = line.split_whitespace();
            let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            let (Some(address), Some(kind), Some(name)) = (address, words.next(), words.next()) else {
                return Err(SymbolsError::Line { line: index + 1 });
            };
            // `$x` and `$d` mark code and data, and have no names of their own.
            if !matches!(kind, "a" | "A") && !name.starts_with('$') {
                list.push((address, name.to_owned()));
            }
        }
        match list.iter().any(|symbol| symbol.0 != 0) {
            _ if list.is_empty() => Err(SymbolsError::Empty),
            false => Err(SymbolsError::Hidden),
            true => Ok(Self::new(list)),
        }
    }

    /// Returns the address of a symbol.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        self.names.get(name).copied()
    }

    /// Returns the addresses of a symbol, up to the next one.
    pub(crate) fn range(&self, name: &str) -> Option<(u64, u64)> {
        let start = self.address(name)?;
        let end = self.list.get(self.list.partition_point(|symbol| symbol.0 <= start));
        Some((start, end.map_or(u64::MAX, |symbol| symbol.0)))
    }

    /// Returns the same symbols, at other addresses: those of a kernel that was moved by so much, wrapping.
    pub(crate) fn moved(self, by: u64) -> Self {
        Self::new(self.list.into_iter().map(|(address, name)| (address.wrapping_add(by), name)))
    }

    /// Returns the symbol that an address belongs to, as `name` or `name+0x10`; none before the first and after the last.
    pub(crate) fn name(&self, address: u64) -> Option<String> {
        let after = self.list.partition_point(|symbol| symbol.0 <= address);
        let start = self.list.get(after.checked_sub(1)?)?.0;
        // The first one at that address.
        let (_, name) = self.list.get(self.list.partition_point(|symbol| symbol.0 < start))?;
        match address - start {
            0 => Some(name.clone()),
            offset if after < self.list.len() => Some(format!("{name}+{offset:#x}")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    const TEXT: &str = "0000000000000000 A _kernel_flags\nffff800080010000 T _stext\nffff800080010000 t $x\n\
                        ffff800080010800 T do_one\nffff800082000000 D jiffies\nffff80007c000000 t init\t[ext4]\n\
                        ffff800083000000 B _end\n";

    #[test]
    fn a_map_of_symbols_is_read() {
        let symbols = Symbols::parse(TEXT).expect("symbols");
        assert_eq!(symbols.address("jiffies"), Some(0xffff_8000_8200_0000));
        assert_eq!((symbols.address("$x"), symbols.address("_kernel_flags")), (None, None));
        let name = |address| symbols.name(address);
        assert_eq!(name(0xffff_8000_8001_0000).as_deref(), Some("_stext"));
        assert_eq!(name(0xffff_8000_8001_0804).as_deref(), Some("do_one+0x4"));
        assert_eq!(name(0xffff_8000_7c00_0001).as_deref(), Some("init+0x1"));
        assert_eq!(name(0xffff_8000_7bff_ffff), None);
        assert_eq!(name(0xffff_8000_8300_0000).as_deref(), Some("_end"));
        assert_eq!(name(0xffff_8000_8300_0001), None);
        let moved = symbols.clone().moved(0x10_0000);
        assert_eq!(moved.address("_stext"), Some(0xffff_8000_8011_0000));
    }

    #[test]
    fn a_file_without_symbols_is_refused() {
        assert_eq!(Symbols::parse("\n"), Err(SymbolsError::Empty));
        assert_eq!(Symbols::parse("0000000000000000 T _stext\n"), Err(SymbolsError::Hidden));
        assert_eq!(
            Symbols::parse("ffff800080010000 T _stext\n[ 0.0] Booting\n"),
            Err(SymbolsError::Line { line: 2 })
        );
    }

    proptest! {
        #[test]
        fn an_address_is_in_the_last_symbol_before_it(addresses in prop::collection::vec(0u64..500, 1..30), at in 0u64..600) {
            let symbols = Symbols::new(addresses.iter().map(|address| (*address, format!("s{address}"))));
            let start = addresses.iter().copied().filter(|address| *address <= at).max();
            let is_last = addresses.iter().all(|address| *address <= at);
            let expected = start.filter(|start| *start == at || !is_last).map(|start| match at - start {
                0 => format!("s{start}"),
                offset => format!("s{start}+{offset:#x}"),
            });
            prop_assert_eq!(symbols.name(at), expected);
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = Symbols::parse(&text);
        }
    }
}
