//! All that one CPU's TLB can come to hold for one address, and what a TLBI takes from it.

use linmap_model::{Core, Tlb};

use crate::descriptor::{BLOCK, NOT_GLOBAL, PAGE};

/// One entry, as it translates one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// A level 2 descriptor that leads to a table, in a walk cache.
    Table(u64),
    /// A level 2 or 3 leaf, by itself or as a part of a contiguous run.
    Leaf { level: u8, run: bool, oa: u64, attributes: u64 },
}

impl Entry {
    pub(crate) fn table(&self) -> Option<u64> {
        match self {
            Self::Table(table) => Some(*table),
            Self::Leaf { .. } => None,
        }
    }
}

/// The entries for one address that an invalidation drops.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Hits {
    tables: bool,
    level_2: bool,
    level_3: bool,
    /// Only global leaves: the ASID is another.
    global_only: bool,
}

impl Hits {
    fn take(self, entry: &Entry) -> bool {
        match *entry {
            Entry::Table(_) => self.tables,
            Entry::Leaf { level, attributes, .. } => {
                (if level == 2 { self.level_2 } else { self.level_3 })
                    && !(self.global_only && attributes & NOT_GLOBAL != 0)
            }
        }
    }
}

/// How far an invalidation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Issued,
    /// Its DSB is done; this CPU may still work by what it had, until one more TLBI and DSB of the issuer
    /// (CVE-2025-10263).
    AwaitsAnother,
}

/// An invalidation that may act at any time, and has acted when its DSB is done (D8.17.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Invalidation {
    pub(crate) hits: Hits,
    pub(crate) by: u8,
    pub(crate) broadcast: bool,
    pub(crate) stage: Stage,
}

/// A set of entries, by their numbers in `Reachable::entries`.
type Content = u64;

/// One of the states that can come about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct State {
    content: Content,
    /// The entries that this CPU has invalidated itself, and may still use until an ISB. They are not in the TLB any
    /// more: otherwise the break-before-make of D8.17.1 RDDMVT would need that ISB (D8.17.8 RBLDZX).
    in_flight: Content,
    /// The numbers of the waiting invalidations that did not act yet.
    waits: u64,
}

impl State {
    /// Returns the state after a waiting invalidation takes these entries.
    fn after(self, number: usize, taken: Content, own: bool) -> Self {
        // One of another CPU is done only when this CPU works by the old entry no more (RWWQZZ).
        let in_flight = if own { self.in_flight | self.content & taken } else { self.in_flight & !taken };
        Self { content: self.content & !taken, in_flight, waits: self.waits & !(1 << number) }
    }
}

/// All states that can come about.
#[derive(Clone, Debug)]
pub(crate) struct Reachable {
    /// The CPU of the TLB.
    cpu: u8,
    /// All entries that were ever held.
    entries: Vec<Entry>,
    /// The invalidations that have not acted everywhere yet.
    waiting: Vec<Option<Invalidation>>,
    /// In order, each once.
    states: Vec<State>,
}

impl Reachable {
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// An empty TLB.
    pub(crate) fn new(cpu: u8) -> Self {
        let states = vec![State { content: 0, in_flight: 0, waits: 0 }];
        Self { cpu, entries: Vec::new(), waiting: Vec::new(), states }
    }

    /// Returns all entries that the TLB can hold, in one state or another.
    pub(crate) fn held(&self) -> Content {
        self.states.iter().fold(0, |all, s| all | s.content)
    }

    /// Returns all entries that the CPU can use.
    pub(crate) fn used(&self) -> Content {
        self.states.iter().fold(0, |all, s| all | s.content | s.in_flight)
    }

    /// Returns true if the TLB can hold two entries together, by their numbers.
    pub(crate) fn holds_both(&self, one: usize, other: usize) -> bool {
        let both = 1 << one | 1 << other;
        self.states.iter().any(|s| s.content & both == both)
    }

    /// Returns true if some invalidation has not acted everywhere yet.
    pub(crate) fn waits(&self) -> bool {
        self.waiting.iter().any(Option::is_some)
    }

    pub(crate) fn entries_of(&self, content: Content) -> impl Iterator<Item = &Entry> {
        self.entries.iter().enumerate().filter(move |(i, _)| content >> i & 1 != 0).map(|(_, e)| e)
    }

    /// The set of these entries.
    fn content(&mut self, entries: &[Entry]) -> Content {
        let mut content = 0;
        for entry in entries {
            let known = self.entries.iter().position(|e| e == entry);
            let number = known.unwrap_or_else(|| {
                self.entries.push(*entry);
                self.entries.len() - 1
            });
            content |= 1 << number;
        }
        content
    }

    /// Returns the effect of an invalidation on each content.
    fn taken(&self, hits: Hits) -> Content {
        let taken = self.entries.iter().enumerate().filter(|(_, e)| hits.take(e));
        taken.fold(0, |content, (i, _)| content | 1 << i)
    }

    /// Issues an invalidation. One that hits the same and waits for the same needs to act only once,
    /// from now on: if it had acted before, what it took may have come back.
    pub(crate) fn issue(&mut self, new: Invalidation) {
        let number = self.waiting.iter().position(|w| *w == Some(new)).unwrap_or_else(|| self.wait(new));
        self.change(|s| State { waits: s.waits | 1 << number, ..s });
    }

    /// Each state becomes another.
    fn change(&mut self, new: impl Fn(State) -> State) {
        self.states.iter_mut().for_each(|s| *s = new(*s));
        self.states.sort_unstable();
        self.states.dedup();
    }

    fn wait(&mut self, new: Invalidation) -> usize {
        let free = self.waiting.iter().position(Option::is_none);
        let number = free.unwrap_or(self.waiting.len());
        if free.is_none() {
            self.waiting.push(None);
        }
        self.waiting[number] = Some(new);
        number
    }

    /// Those invalidations act now at the latest.
    pub(crate) fn act(&mut self, due: impl Fn(&Invalidation) -> bool) {
        for number in 0..self.waiting.len() {
            let Some(one) = self.waiting[number].filter(|w| due(w)) else { continue };
            let taken = self.taken(one.hits);
            let own = one.by == self.cpu;
            self.change(|s| if s.waits >> number & 1 != 0 { s.after(number, taken, own) } else { s });
            self.waiting[number] = None;
        }
    }

    /// Nothing is in flight any more.
    pub(crate) fn synchronise(&mut self) {
        if self.states.iter().any(|s| s.in_flight != 0) {
            self.change(|s| State { in_flight: 0, ..s });
        }
    }

    /// Those invalidations have come to another stage.
    pub(crate) fn advance(&mut self, due: impl Fn(&Invalidation) -> bool, stage: Stage) {
        for number in 0..self.waiting.len() {
            let Some(one) = self.waiting[number].filter(|w| due(w)) else { continue };
            let new = Invalidation { stage, ..one };
            match self.waiting.iter().position(|w| *w == Some(new)) {
                None => self.waiting[number] = Some(new),
                Some(same) => {
                    self.change(|s| {
                        let waits = s.waits & !(1 << number) | (s.waits >> number & 1) << same;
                        State { waits, ..s }
                    });
                    self.waiting[number] = None;
                }
            }
        }
    }

    /// Adds all states that fills and waiting invalidations can bring about, one step at a time.
    pub(crate) fn close(&mut self, from_root: &[Entry], from_table: &[(u64, Vec<Entry>)]) {
        let from_root = self.content(from_root);
        let from_table: Vec<_> =
            from_table.iter().map(|(t, e)| (self.content(&[Entry::Table(*t)]), self.content(e))).collect();
        let taken: Vec<_> = (0..self.waiting.len())
            .filter_map(|number| {
                let one = self.waiting[number]?;
                Some((number, self.taken(one.hits), one.by == self.cpu))
            })
            .collect();
        let mut todo = self.states.clone();
        while let Some(state) = todo.pop() {
            let cached = from_table.iter().filter(|(table, _)| state.content & table != 0);
            let fills = cached.fold(from_root, |all, (_, leaves)| all | leaves) & !state.content;
            for one in bits(fills) {
                self.reach(State { content: state.content | one, ..state }, &mut todo);
            }
            // A walk that went on from an invalidated table may not have read the leaf yet.
            let walking = from_table.iter().filter(|(table, _)| state.in_flight & table != 0);
            let fills = walking.fold(0, |all, (_, leaves)| all | leaves) & !state.in_flight;
            for one in bits(fills) {
                self.reach(State { in_flight: state.in_flight | one, ..state }, &mut todo);
            }
            for &(number, taken, own) in taken.iter().filter(|(number, ..)| state.waits >> number & 1 != 0) {
                self.reach(state.after(number, taken, own), &mut todo);
            }
        }
    }

    /// A state comes about; if it is new it is to be explored.
    fn reach(&mut self, state: State, todo: &mut Vec<State>) {
        if let Err(at) = self.states.binary_search(&state) {
            self.states.insert(at, state);
            todo.push(state);
        }
    }
}

/// Each bit of a set.
fn bits(set: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(set), |rest| Some(rest & rest.wrapping_sub(1)))
        .take_while(|r| *r != 0)
        .map(|r| r & r.wrapping_neg())
}

/// Returns true if an operation is broadcast, and the entries for an address that it drops; `None` if its operand is
/// malformed or the CPU does not have the operation (D8.17.5).
pub(crate) fn hits(op: Tlb, operand: u64, core: &Core, asid: u64) -> Option<(bool, impl Fn(u64) -> Hits)> {
    let name = op.to_string();
    let broadcast = name.ends_with("is");
    let everything = name.starts_with("vmalle1");
    let range = name.starts_with('r');
    let takes_asid = name.starts_with("vae1") || name.starts_with("vale1");
    let last_level = name.contains("ale1") && !everything;
    let top = operand >> 48;
    if (everything && operand != 0) || (!takes_asid && top != 0) {
        return None;
    }
    let (named, levels) = if range {
        if !core.range_tlbi {
            return None;
        }
        addresses_of_range(operand, core.ttl)?
    } else {
        let hint = operand >> 44 & 0xf;
        if hint != 0 && !core.ttl {
            return None;
        }
        let page = operand & ((1 << 44) - 1);
        // Bit 55 of the address stands for those above it.
        let va = ((page << 20) as i64 >> 8) as u64;
        ((va, va + (PAGE - 1)), levels_of_hint(hint))
    };
    let hits = move |va: u64| {
        if everything {
            return Hits { tables: true, level_2: true, level_3: true, global_only: false };
        }
        let overlaps = |size: u64| va & !(size - 1) <= named.1 && named.0 <= va | (size - 1);
        let (level_2, level_3) = levels;
        Hits {
            // The table's leaves are of level 3: another hint is wrong. It may be cached as not global,
            // of whichever ASID is current: in the upper half that is any.
            tables: !last_level && level_3 && overlaps(BLOCK) && !takes_asid,
            level_2: level_2 && overlaps(BLOCK),
            // A contiguous run does not widen an invalidation (RLQLSD).
            level_3: level_3 && overlaps(PAGE),
            global_only: takes_asid && top != asid,
        }
    };
    Some((broadcast, hits))
}

/// Returns true for level 2 and for level 3 if a hint includes them (table D8-123).
fn levels_of_hint(hint: u64) -> (bool, bool) {
    match hint {
        // None, and reserved values that mean the same: 4K level 0, 16K levels 0 and 1, 64K level 0.
        0b0000..=0b0100 | 0b1000 | 0b1001 | 0b1100 => (true, true),
        0b0110 => (true, false),
        0b0111 => (false, true),
        _ => (false, false),
    }
}

/// The first and last address of a range, and whether its hint leaves level 2 and level 3 in.
fn addresses_of_range(operand: u64, has_ttl: bool) -> Option<((u64, u64), (bool, bool))> {
    let (granule, scale, num) = (operand >> 46 & 3, operand >> 44 & 3, operand >> 39 & 31);
    let (hint, base) = (operand >> 37 & 3, operand & ((1 << 37) - 1));
    // BaseADDR[48:12].
    let first = ((base << 27) as i64 >> 15) as u64;
    let unpredictable = first & [0, (1 << 30) - 1, BLOCK - 1, 0][hint as usize] != 0;
    if (hint != 0 && !has_ttl) || unpredictable {
        return None;
    }
    let last = first.saturating_add(((num + 1) << (5 * scale + 1)) * PAGE - 1);
    let ours = granule == 1;
    Some(((first, last), (ours && matches!(hint, 0 | 2), ours && matches!(hint, 0 | 3))))
}
