//! Where a panic of the library goes: to the kernel, as text.

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use crate::callbacks;

/// The beginning of a text.
struct Text {
    bytes: [u8; 160],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for (to, from) in self.bytes[self.length..].iter_mut().zip(more.bytes()) {
            *to = from;
            self.length += 1;
        }
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let mut text = Text { bytes: [0; 160], length: 0 };
    _ = write!(text, "{info}");
    // SAFETY: so many bytes are there, and the function does not return.
    unsafe { callbacks::linmap_panic(text.bytes.as_ptr().cast(), text.length) }
}
