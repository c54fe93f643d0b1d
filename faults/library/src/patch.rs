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
    AliasAfterArea: "match alias {" => "match match alias {
        Alias::First(change) if FAULT => Alias::Last(change),
        Alias::Last(change) if FAULT => Alias::First(change),
        right => right,
    } {",
    /// Aliases do not follow.
    AliasForgotten: "!found.aliases.changes()" => "(!found.aliases.changes() || FAULT)",
    /// A repaint is not told of aliases.
    AliasNotMarked: "locked.state.dirty.mark(alias);" => "if !FAULT { locked.state.dirty.mark(alias) }",
    /// A repaint does not copy again what has changed meanwhile.
    ChangeForgotten: "if first <= last {" => "if first <= last && !FAULT {",
}
