//! The order in which callers take effect, and what must come of it.
//!
//! Nobody else gets at the pages of a caller from its last look at them, before it stores, until its invalidations are
//! complete. So its first store is where it takes its place in the order, and what it must leave is what the map says then.
//! Stores before it that change no translation (`cut.rs`) are an operation of their own. A caller that stores nothing has its place where it took its last lock. An operation is done when its call returns, but before
//! another one stores to the same pages, or returns without a store: a caller that has let go of them by then must
//! have invalidated.

use linmap_model::{CpuId, Expected};

use crate::flat::Flat;
use crate::operation::{Operation, Prediction, Refused, What};

/// The map that must come of the callers so far.
#[derive(Default)]
pub(crate) struct Serial {
    pub(crate) flat: Flat,
    /// The maps of all times, that one the last.
    history: Vec<Flat>,
    callers: Vec<Caller>,
}

/// A caller, by the number of its CPU.
#[derive(Default)]
struct Caller {
    about: Option<Operation>,
    /// Its outcome if it took effect when it took its last lock.
    predicted: Option<Prediction>,
    /// Its results if it had taken effect at each lock that it took.
    results: Vec<Result<(), Refused>>,
    /// True if another has taken effect on its pages since.
    overtaken: bool,
    /// True if another changed its pages at any time of the call.
    meets: bool,
    /// True if it has changed the size of leaves, and no translation so far.
    cuts: bool,
    begun: Option<Begun>,
}

/// An operation that has taken effect.
struct Begun {
    ranges: Vec<(u64, u64)>,
    result_is_ok: bool,
    /// The map before it, and its number in the history.
    before: Flat,
    since: usize,
    /// True if the model has been told that it is done.
    done: bool,
}

/// An announcement to the model.
pub(crate) enum Tell {
    Begins(CpuId, &'static str, Vec<Expected>),
    Done(CpuId, bool),
}

/// Foretells operations by the rules for one caller alone.
pub(crate) trait Foretells {
    fn predict(&self, operation: &Operation, flat: &Flat) -> Prediction;
    fn ranges(&self, operation: &Operation, flat: &Flat) -> Vec<(u64, u64)>;
    fn changes(&self, operation: &Operation, flat: &Flat) -> Vec<Expected>;
}

/// Returns true if two sets of ranges have an address in common.
pub(crate) fn overlap(ranges: &[(u64, u64)], others: &[(u64, u64)]) -> bool {
    ranges.iter().any(|a| others.iter().any(|b| a.0 <= b.1 && b.0 <= a.1))
}

/// Returns true for operations that change no translation: others may change what they are about meanwhile.
pub(crate) const fn keeps_translations(operation: &Operation) -> bool {
    matches!(operation.what, What::SplitToPages | What::Collapse | What::Repaint(_))
}

/// Returns a map with a range as another has it.
fn with_range(flat: &Flat, (first, last): (u64, u64), from: &Flat) -> Flat {
    let mut new = Flat::default();
    let before = first.checked_sub(1).map_or(Vec::new(), |end| flat.within(0, end));
    let after = last.checked_add(1).map_or(Vec::new(), |next| flat.within(next, u64::MAX));
    for (a, b, to) in before.into_iter().chain(from.within(first, last)).chain(after) {
        if let Some(to) = to {
            new.push((a, b, to));
        }
    }
    new
}

impl Serial {
    pub(crate) fn new(flat: Flat, callers: usize) -> Self {
        let callers = (0..callers).map(|_| Caller::default()).collect();
        Self { history: vec![flat.clone()], flat, callers }
    }

    fn becomes(&mut self, flat: Flat) {
        self.history.push(flat.clone());
        self.flat = flat;
    }

    /// Returns true if no operation is under way but that of this caller.
    pub(crate) fn is_alone(&self, n: usize) -> bool {
        self.callers.iter().enumerate().all(|(m, c)| m == n || c.about.is_none())
    }

    /// Returns true if some operation has taken effect and not returned, or has tables that are not in the map.
    pub(crate) fn is_changing(&self) -> bool {
        let repaints = |c: &Caller| c.about.is_some_and(|o| matches!(o.what, What::Repaint(_)));
        self.callers.iter().any(|c| c.begun.is_some() || repaints(c))
    }

    pub(crate) fn calls_now(&self, n: usize) -> bool {
        self.callers[n].about.is_some()
    }

    pub(crate) fn calls(&mut self, n: usize, operation: &Operation) {
        let meets = self.callers.iter().any(|other| other.begun.is_some());
        self.callers[n] = Caller { about: Some(*operation), meets, ..Caller::default() };
    }

    /// A caller has taken a lock.
    pub(crate) fn takes(&mut self, n: usize, by: &impl Foretells) {
        let caller = &mut self.callers[n];
        let Some(operation) = caller.about.filter(|_| caller.begun.is_none()) else { return };
        caller.overtaken = false;
        let prediction = by.predict(&operation, &self.flat);
        caller.results.push(prediction.result);
        caller.predicted = Some(prediction);
    }

    /// A caller is about to store, and changes translations unless it `cuts`.
    pub(crate) fn stores(&mut self, n: usize, cuts: bool, by: &impl Foretells) -> Vec<Tell> {
        let caller = &mut self.callers[n];
        let is_first = |o: &Operation| caller.begun.is_none() && !keeps_translations(o);
        match caller.about.filter(is_first) {
            Some(_) if cuts && caller.cuts => Vec::new(),
            Some(_) if cuts => {
                caller.cuts = true;
                vec![Tell::Begins(n as CpuId, "cut", Vec::new())]
            }
            Some(operation) => self.takes_effect(n, &operation, by),
            None => Vec::new(),
        }
    }

    /// An operation takes its place in the order.
    fn takes_effect(&mut self, n: usize, operation: &Operation, by: &impl Foretells) -> Vec<Tell> {
        let prediction = by.predict(operation, &self.flat);
        let changing = prediction.result.is_ok();
        let ranges = if changing { by.ranges(operation, &self.flat) } else { Vec::new() };
        let mut tells = self.ends_cut(n, true);
        tells.extend(self.finish(n, &ranges));
        for (m, other) in self.callers.iter_mut().enumerate() {
            if let Some(about) = other.about.filter(|_| m != n && other.begun.is_none()) {
                let meets = overlap(&ranges, &by.ranges(&about, &self.flat));
                (other.overtaken, other.meets) = (other.overtaken | meets, other.meets | meets);
            }
        }
        let changes = if changing { by.changes(operation, &prediction.flat) } else { Vec::new() };
        tells.push(Tell::Begins(n as CpuId, operation.name(), changes));
        let (before, since) = (self.flat.clone(), self.history.len() - 1);
        if changing {
            self.becomes(prediction.flat.clone());
        }
        let result_is_ok = prediction.result.is_ok();
        self.callers[n].begun = Some(Begun { ranges, result_is_ok, before, since, done: false });
        self.callers[n].predicted = Some(prediction);
        tells
    }

    /// A caller that has changed the size of leaves has done that.
    fn ends_cut(&mut self, n: usize, ok: bool) -> Vec<Tell> {
        let cuts = std::mem::take(&mut self.callers[n].cuts);
        cuts.then_some(Tell::Done(n as CpuId, ok)).into_iter().collect()
    }

    /// Callers that have stored to these pages have let go of them, and are done.
    fn finish(&mut self, n: usize, ranges: &[(u64, u64)]) -> Vec<Tell> {
        let mut tells = Vec::new();
        for (m, other) in self.callers.iter_mut().enumerate().filter(|(m, _)| *m != n) {
            if let Some(begun) = other.begun.as_mut().filter(|b| !b.done && overlap(&b.ranges, ranges)) {
                begun.done = true;
                tells.push(Tell::Done(m as CpuId, begun.result_is_ok));
            }
        }
        tells
    }

    /// A call returns. Returns the results that it may have, and what the model is to be told.
    pub(crate) fn returns(
        &mut self,
        n: usize,
        ok: bool,
        by: &impl Foretells,
    ) -> (Vec<Result<(), Refused>>, Vec<Tell>) {
        let operation = self.callers[n].about.expect("it was called");
        let stored = self.callers[n].begun.is_some();
        if self.callers[n].predicted.is_none() {
            self.takes(n, by);
        }
        if keeps_translations(&operation) {
            return (std::mem::take(&mut self.callers[n]).results, vec![Tell::Done(n as CpuId, ok)]);
        }
        let mut tells = Vec::new();
        // What another is about to invalidate itself is none of a flush, which may take no lock.
        let leaves_out = operation.what == What::Flush && self.callers[n].meets;
        if !stored && ok && !self.callers[n].overtaken && !leaves_out {
            // What others stored to its pages before it looked at them must be invalidated by now.
            tells.extend(self.takes_effect(n, &operation, by));
        }
        tells.extend(self.ends_cut(n, ok));
        let caller = std::mem::take(&mut self.callers[n]);
        if let Some(begun) = caller.begun.filter(|b| !b.done) {
            if begun.result_is_ok && !ok {
                let ranges = begun.ranges.iter();
                self.becomes(ranges.fold(self.flat.clone(), |flat, &r| with_range(&flat, r, &begun.before)));
            }
            tells.push(Tell::Done(n as CpuId, ok));
        } else if stored {
            assert!(ok, "{operation:x?} was refused, and others have changed what it stored");
        }
        (vec![caller.predicted.expect("it was foretold").result], tells)
    }

    /// Returns the number of the oldest map that a reader who begins now may still see entries of.
    pub(crate) fn oldest_in_sight(&self) -> usize {
        let begun = self.callers.iter().filter_map(|c| c.begun.as_ref());
        begun.map(|b| b.since).min().unwrap_or(self.history.len() - 1)
    }

    /// Returns the first address of a range for which a reader saw what no map had since then.
    pub(crate) fn never_was(&self, since: usize, seen: &Flat, (first, last): (u64, u64)) -> Option<u64> {
        let maps: Vec<_> = self.history[since..].iter().map(|m| m.within(first, last)).collect();
        let seen = seen.within(first, last);
        let mut starts: Vec<u64> = maps.iter().chain([&seen]).flatten().map(|p| p.0).collect();
        starts.sort_unstable();
        starts.dedup();
        let at = |map: &[(u64, u64, Option<crate::flat::Mapped>)], va: u64| {
            let piece = map.iter().find(|p| p.0 <= va && va <= p.1)?;
            piece.2.map(|to| to.at(va - piece.0))
        };
        starts.into_iter().find(|&va| !maps.iter().any(|map| at(map, va) == at(&seen, va)))
    }
}
