//! VMCOREINFO: lines of `KEY=value` by which a Linux kernel tells debuggers about itself.

use std::collections::BTreeMap;

/// The first bytes of a kernel's VMCOREINFO.
pub(crate) const BEGINNING: &[u8] = b"OSRELEASE=";
/// The most bytes: Linux gives it one page, of at most 64K.
pub(crate) const LIMIT: usize = 64 << 10;

/// The lines of a kernel's VMCOREINFO. Untrusted: keys and values can be anything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct VmcoreInfo {
    lines: BTreeMap<String, String>,
}

impl VmcoreInfo {
    /// Reads the lines up to the first byte that is not text.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = &text[..text.len().min(LIMIT)];
        let end = text.iter().position(|byte| !matches!(byte, b'\n' | b' '..=b'~')).unwrap_or(text.len());
        let text = String::from_utf8_lossy(&text[..end]);
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Self { lines: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect() }
    }

    /// Returns all lines: keys and values.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the value of a whole key, such as `OSRELEASE`.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.lines.get(key).map(String::as_str)
    }

    /// Returns the value of `NUMBER(name)`: hexadecimal with a leading `0x`, otherwise decimal with an optional sign.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let text = self.get(&format!("NUMBER({name})"))?;
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned)),
        }
    }

    /// Returns the address of a symbol, from `SYMBOL(name)`.
    pub(crate) fn symbol(&self, name: &str) -> Option<u64> {
        let text = self.get(&format!("SYMBOL({name})"))?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    }

    /// Returns all symbols, by name.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = (&str, u64)> {
        let names = self.lines.keys().filter_map(|key| key.strip_prefix("SYMBOL(")?.strip_suffix(')'));
        names.filter_map(|name| Some((name, self.symbol(name)?)))
    }

    /// Returns the kernel's release, such as `6.1.0-40-arm64`.
    pub(crate) fn release(&self) -> Option<&str> {
        self.get("OSRELEASE")
    }

    /// Returns the page size in bytes.
    pub(crate) fn page_size(&self) -> Option<u64> {
        self.get("PAGESIZE")?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn lines_are_keys_and_values() {
        let text = b"OSRELEASE=6.1.0\nPAGESIZE=4096\nNUMBER(a)=0x10\nNUMBER(b)=-2\nSYMBOL(c)=ffff8000\n\
                     CRASHTIME=\nno value\nx=1\0y=2\n";
        let info = VmcoreInfo::parse(text);
        assert_eq!((info.release(), info.page_size()), (Some("6.1.0"), Some(4096)));
        assert_eq!(
            (info.number("a"), info.number("b"), info.number("c")),
            (Some(16), Some(u64::MAX - 1), None)
        );
        assert_eq!(info.symbol("c"), Some(0xffff_8000));
        assert_eq!((info.get("x"), info.get("y"), info.get("CRASHTIME")), (Some("1"), None, Some("")));
        assert_eq!(info.symbols().collect::<Vec<_>>(), [("c", 0xffff_8000)]);
    }

    proptest! {
        /// The bytes from the first one that is not text on have no part in it.
        #[test]
        fn lines_read_back(
            lines in prop::collection::btree_map("[ -<>-~]{0,9}", "[ -~]{0,9}", 0..6), noise: Vec<u8>,
        ) {
            let text: String = lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
            let info = VmcoreInfo::parse(&[text.as_bytes(), b"\0", &noise].concat());
            prop_assert_eq!(&info.lines, &lines);
            prop_assert_eq!(info.release(), lines.get("OSRELEASE").map(String::as_str));
            // Of random bytes, as much is read as of the text before the first that is none.
            let end = noise.iter().position(|byte| *byte != b'\n' && !(0x20..0x7f).contains(byte));
            let text = &noise[..end.unwrap_or(noise.len())];
            let keys = text.split(|byte| *byte == b'\n').filter(|line| line.contains(&b'='));
            let keys: std::collections::BTreeSet<_> = keys.map(|line| line.split(|byte| *byte == b'=').next()).collect();
            prop_assert_eq!(VmcoreInfo::parse(&noise).lines.len(), keys.len());
        }

        #[test]
        fn numbers_and_symbols_read_back(number: u64, name in "[a-zA-Z_][a-zA-Z_0-9]{0,12}", other: String) {
            for number_text in [format!("{number}"), format!("{number:#x}"), format!("{}", number.cast_signed())] {
                let text = format!("NUMBER({name})={number_text}\nPAGESIZE={number}\nSYMBOL({name})={number:x}\n");
                let info = VmcoreInfo::parse(text.as_bytes());
                let all = (info.number(&name), info.page_size(), info.symbol(&name));
                prop_assert_eq!(all, (Some(number), Some(number), Some(number)));
                prop_assert_eq!(info.symbols().collect::<Vec<_>>(), [(name.as_str(), number)]);
                let known = (other == name).then_some(number);
                prop_assert_eq!((info.number(&other), info.symbol(&other)), (known, known));
            }
        }
    }
}
