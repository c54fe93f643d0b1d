//! Text inside a JSON string.

use core::fmt::{self, Write};

/// Displays something as the inside of a JSON string: quotes, backslashes and control characters escaped.
pub(crate) struct Text<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '"' | '\\' => write!(self.0, "\\{c}")?,
                '\0'..='\x1f' => write!(self.0, "\\u{:04x}", c as u32)?,
                _ => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}
