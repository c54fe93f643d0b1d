// Mistakes that a platform cannot make for the library, as changes of its text. The build script includes this too.

macro_rules! patches {
    ($($(#[doc = $doc:literal])+ $name:ident: $right:literal => $wrong:literal,)*) => {
        /// A mistake in the text of the library.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Patch { $($(#[doc = $doc])+ $name,)* }

        impl Patch {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// A text that is in the library once, and what takes its place. `FAULT` in that is true while the
            /// mistake is switched on.
            pub const fn text(self) -> (&'static str, &'static str) {
                match self { $(Self::$name => ($right, $wrong),)* }
            }
        }
    };
}

patches! {
    /// The last page of the range is left out.
    LastPageLeftOut: "broken!(LastPageLeftOut)" => "FAULT",
    /// Leaves in which different bits change are taken for alike.
    TakenForAlike: "broken!(TakenForAlike)" => "FAULT",
    /// An area becomes read-only before its aliases, or writable after them.
    AliasAfterArea: "broken!(AliasAfterArea)" => "FAULT",
    /// Aliases do not follow.
    AliasForgotten: "broken!(AliasForgotten)" => "FAULT",
    /// A repaint is not told of aliases.
    AliasNotNoted: "broken!(AliasNotNoted)" => "FAULT",
    /// A repaint does not copy again what has changed meanwhile.
    ChangeForgotten: "broken!(ChangeForgotten)" => "FAULT",
}
