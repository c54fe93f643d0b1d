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
    AliasForgotten: "tables.leaf_change(follows)" => "if FAULT { LeafChange::NONE } else { tables.leaf_change(follows) }",
    /// A repaint is not told of aliases.
    AliasNotMarked: "editor.guard.mark(alias);" => "if !FAULT { editor.guard.mark(alias) }",
    /// A repaint does not copy again what has changed meanwhile.
    ChangeForgotten: "if self.state.attention.is_repaint() {
            mark(" => "if self.state.attention.is_repaint() && !FAULT {
            mark(",
    /// A range that is remade stays in the TLBs.
    RemadeNotInvalidated: "self.batch.add(out.first, out.last, table.shift);" => "if !FAULT { self.batch.add(out.first, out.last, table.shift) }",
    /// A range is remade in place.
    RemadeInPlace: "store(call, &mut OutOrBack::out(true), &[span], false)?;" => "if !FAULT { store(call, &mut OutOrBack::out(true), &[span], false)? }",
    /// A range that is remade is not yet visible when it is back.
    RemadeNotVisible: "        self.batch.finish(editor);
    }
}

impl<G: Guard> LiveVisitor<G> for OutOrBack" => "        if !(FAULT && self.back.is_some()) { self.batch.finish(editor) }
    }
}

impl<G: Guard> LiveVisitor<G> for OutOrBack",
    /// Of leaves that differ in their addresses alone, the first tells whether there is anything to remake.
    RemadeAsTheFirst: "(index..end).all(is_made)" => "(index..if FAULT { index + 1 } else { end }).all(is_made)",
    /// The aliases of what is remade stay as they are.
    RemadeWithoutAliases: "store(call, &mut out, aliases, false)" => "if FAULT { Ok(()) } else { store(call, &mut out, aliases, false) }",
    /// The aliases of what is remade are not invalidated.
    RemadeAliasCached: "if self.back.is_none() && old.is_valid() {" => "let is_alias = table.va(index) <= crate::layout::linear_range(editor.geometry).1.0;
        if self.back.is_none() && old.is_valid() && !(FAULT && is_alias) {",
    /// Aliases do not come back.
    RemadeAliasLost: "store(call, &mut back, aliases, false)" => "if FAULT { Ok(()) } else { store(call, &mut back, aliases, false) }",
    /// Memory of any type is given tags in place.
    RetypedInPlace: "retyped && !Attributes::from_bits_retain(old.0).is_normal()" => "retyped && !Attributes::from_bits_retain(old.0).is_normal() && !FAULT",
    /// Locks are taken in the order of their numbers or in the other one, by turns.
    LocksInAnyOrder: "        let _held = self.begin(platform);
        match self.cover.but_lowest() {" => "        static TURNED: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
        if FAULT && TURNED.fetch_xor(true, core::sync::atomic::Ordering::Relaxed) {
            fn turned<P: Platform, R>(platform: &P, locks: u64, work: impl FnOnce() -> R) -> R {
                let number = (63 - locks.leading_zeros()) as usize;
                let _held = platform.lock(number);
                match locks & !(1 << number) {
                    0 => work(),
                    others => turned(platform, others, work),
                }
            }
            let share = self.state.share(self.cover.lowest());
            return turned(platform, self.cover.bits(), || {
                let version = share.changes_begin();
                let result = work();
                share.changes_end(version);
                result
            });
        }
        let _held = self.begin(platform);
        match self.cover.but_lowest() {",
    /// Tables are given back at once, though readers may be in them.
    NoGrace: "            G::retire(editor.platform, frame);" => "if FAULT {
                crate::platform::Memory::give(editor.platform, frame);
            } else {
                G::retire(editor.platform, frame);
            }",
    /// Those that went whole are given back at once, though readers may be in them.
    NoGraceForWhole: "G::retire(self.editor.platform, frame);" => "if FAULT {
            crate::platform::Memory::give(self.editor.platform, frame);
        } else {
            G::retire(self.editor.platform, frame);
        }",
    /// Tables that went whole in a piece are retired before TLBs and walk caches have dropped them.
    WholeRetiredEarly: "take(&mut self.beyond) || self.whole.is_some()" => "take(&mut self.beyond) || self.whole.is_some() && !FAULT",
    /// A table that went whole stays in the TLBs.
    WholeNotInvalidated: "self.batch.add(at.first, at.last, g.page_shift());" => "if !FAULT { self.batch.add(at.first, at.last, g.page_shift()) }",
    /// The counts of some locks are not in the sum.
    CountLost: "self.shares.iter().for_each(|share| share.counters.add_to(&mut stats));"
        => "self.shares.iter().skip(2 * usize::from(FAULT)).for_each(|share| share.counters.add_to(&mut stats));",
    /// The lock of the last gigabyte of a range is not taken.
    LastGigabyteForgotten: "Self { all: once(span), count: 1, first: span, cover: G::for_stores(span), listed: 0 }" => "{
            let (first, border) = (span.first, span.last >> 30 << 30);
            let less = FAULT && first < border;
            let of = Span { first, last: if less { border - 1 } else { span.last } };
            Self { all: once(span), count: 1, first: span, cover: G::for_stores(of), listed: 0 }
        }",
    /// A table takes the place of a hole without the lock that all agree on.
    TableUnagreed: "Cover::of::<P>(entry).first()" => "if FAULT { Cover::NOTHING } else { Cover::of::<P>(entry).first() }",
    /// Nobody waits until walkers see a table that another caller has just published.
    TableNotAwaited: "if self.cover.has(first) || " => "if FAULT || self.cover.has(first) || ",
    /// A range is claimed again after it was surveyed.
    ClaimAfterSurvey: "let survey = surveyed(call, operation.change(), from_ref(&span))?;" => "let survey = surveyed(call, operation.change(), from_ref(&span))?;
    if FAULT {
        call.unclaim();
        call.claim_all(once(span))?;
    }",
    /// Several ranges are claimed again after they were surveyed.
    ClaimsAfterSurvey: "let survey = surveyed(call, operation.change(), spans)?;" => "let survey = surveyed(call, operation.change(), spans)?;
        if FAULT && pass == Pass::Change {
            call.unclaim();
            call.claim_all(spans.iter().copied())?;
        }",
    /// An area is claimed without its aliases.
    AliasesNotClaimed: "chain(with.iter().copied())" => "chain(with.iter().copied().filter(|_| !FAULT))",
    /// In several holds, the translations of a side stay in the TLBs when the other side changes.
    SideNotFinished: "Some(span) => call.last_hold(*span, |editor| operation.end(editor))," => "Some(_) if FAULT => Ok(()),
        Some(span) => call.last_hold(*span, |editor| operation.end(editor)),",
    /// A short operation looks for claims before it has its lock.
    LooksBeforeLock: "        let held = editor.guard.begin(caller.platform);
        let tried = match find(editor, later, span) {" => "        let early = FAULT && editor.guard.is_free(editor, true, span);
        let held = editor.guard.begin(caller.platform);
        let tried = match if early { entry_of(editor, span) } else { find(editor, later, span) } {",
    /// Claims of others are not heeded.
    ClaimsIgnored: "self.state.attention.is_needed() && self.state.claims.overlap(span, self.own)"
        => "!FAULT && self.state.attention.is_needed() && self.state.claims.overlap(span, self.own)",
    /// A range is collapsed that another caller has claimed.
    CollapsesClaimed: "!self.editor.guard.is_claimed(span) &&" => "(FAULT || !self.editor.guard.is_claimed(span)) &&",
    /// Leaves that stay split are merged.
    MergesWhatStaysSplit: "self.0 & Attributes::STAYS_SPLIT.bits() != 0"
        => "!FAULT && self.0 & Attributes::STAYS_SPLIT.bits() != 0",
    /// A hold of a long operation ends before walkers see its tables.
    NoDsbBetweenHolds: "// The next holder may map something below these tables.
                        editor.publish_barrier();" => "if !FAULT { editor.publish_barrier() }",
    /// A hold that cuts leaves ends before walkers see the tables.
    NoDsbAfterCut: "// The next holder may change what is left of these leaves.
        editor.publish_barrier();" => "if !FAULT { editor.publish_barrier() }",
    /// Memory with a special use is removed as RAM.
    SpecialRemoved: "if old != ram(oa) ||" => "if !FAULT && old != ram(oa) ||",
    /// An access flag is taken, and TLBs keep it: in the example of an operation.
    AccessFlagCached: "self.batch.add(leaf.first, leaf.last, table.shift);" => "if !FAULT { self.batch.add(leaf.first, leaf.last, table.shift) }",
    /// Fewer table pages are taken before an operation than it may need.
    FewerTables: "reserve.fill(pages)" => "reserve.fill(if FAULT { pages / 2 } else { pages })",
}

impl Patch {
    /// Those in the operation that the book has as an example, which no other operation uses.
    pub const OF_EXAMPLE: &[Self] = &[Self::AccessFlagCached];

    /// Those that show where several callers are at work, or where table pages were taken before.
    pub const OF_CALLERS: &[Self] = &[
        Self::LocksInAnyOrder,
        Self::NoGrace,
        Self::NoGraceForWhole,
        Self::WholeRetiredEarly,
        Self::CountLost,
        Self::LastGigabyteForgotten,
        Self::TableUnagreed,
        Self::TableNotAwaited,
        Self::ClaimAfterSurvey,
        Self::ClaimsAfterSurvey,
        Self::AliasesNotClaimed,
        Self::SideNotFinished,
        Self::LooksBeforeLock,
        Self::ClaimsIgnored,
        Self::CollapsesClaimed,
        Self::MergesWhatStaysSplit,
        Self::NoDsbBetweenHolds,
        Self::NoDsbAfterCut,
        Self::FewerTables,
    ];
}
