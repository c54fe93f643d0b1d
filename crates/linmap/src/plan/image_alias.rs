//! The choice of what the linear map says of a part of the kernel's image.

use core::fmt;

/// The linear map's alias of a part of the kernel's image. The image has addresses of its own; an attacker who
/// knows a physical address could write to it by the alias.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ImageAlias {
    /// It may be read and written.
    #[default]
    Writable,
    /// It may be read.
    ReadOnly,
    /// It is to be made invalid ([`set_valid`](crate::Live::set_valid)), and is mapped for writing until then.
    Hidden,
}

/// The words of the image's boot arguments.
impl fmt::Display for ImageAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Writable => "rw",
            Self::ReadOnly => "ro",
            Self::Hidden => "hidden",
        })
    }
}
