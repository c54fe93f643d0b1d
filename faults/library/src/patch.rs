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
    LastPageLeftOut: "(pages << page) - 1" => "((pages - u64::from(FAULT)) << page) - 1",
    /// Leaves in which different bits change are taken for alike.
    TakenForAlike: "!self.differs" => "(!self.differs || FAULT)",
    /// An area becomes read-only before its aliases, or writable after them.
    AliasAfterArea: "match self {
            Self::First(_) => [Side::Aliases, Side::Area]," => "match match self {
            Self::First(change) if FAULT => Self::Last(change),
            Self::Last(change) if FAULT => Self::First(change),
            right => right,
        } {
            Self::First(_) => [Side::Aliases, Side::Area],",
    /// Aliases do not follow.
    AliasForgotten: "!found.aliases.changes()" => "(!found.aliases.changes() || FAULT)",
    /// A repaint is not told of aliases.
    AliasNotMarked: "locked.mark(alias);" => "if !FAULT { locked.mark(alias) }",
    /// A repaint does not copy again what has changed meanwhile.
    ChangeForgotten: "if self.state.attention.is_repaint() {" => "if self.state.attention.is_repaint() && !FAULT {",
}
