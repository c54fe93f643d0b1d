//! Pages with two addresses: a page that is read-only by one of them cannot be written through the linear map.
//!
//! TLBs count as tables do. Judged after each store into a live table: nothing else makes a page writable or read-only,
//! and invalidations only drop entries.

use linmap::layout::linear_range;

use super::reach::Held;
use super::{Finding, Machine};
use crate::Rule;

/// Consecutive addresses that are mapped to consecutive physical memory.
struct Made {
    first: u64,
    last: u64,
    oa: u64,
}

impl Machine {
    /// Judges the stores for a range of a tree: no page is read-only that can be written through the linear map.
    pub(super) fn aliases_agree(&self, root: u64, span: (u64, u64)) -> Result<(), Finding> {
        let (Some(offset), Some(place)) = (self.setup.linear_offset, self.root_place(root)) else {
            return Ok(());
        };
        let (g, walkers) = (self.geometry(), self.walkers(root));
        if walkers == 0 || place.space.is_stage_2() {
            return Ok(());
        }
        let half = (place.va, place.va + ((1 << g.va_bits()) - 1));
        // What is mapped elsewhere may be where the linear map would be if it reached its memory.
        let (start, end) = linear_range(g);
        let is_alias = |held: &Held<'_>| {
            let va = held.part.0;
            held.cached.oa_at(va).wrapping_add(offset) == va && start.0 <= va && va <= end.0
        };
        let (mut aliases, mut areas) = (Vec::new(), Vec::new());
        self.in_tables(root, span, &mut |held| {
            let writable = held.is_writable();
            match (is_alias(held), writable) {
                (true, true) => join(&mut aliases, held),
                (false, false) => join(&mut areas, held),
                _ => {}
            }
            Ok(())
        })?;
        for made in aliases {
            self.held(root, half, &mut |held| {
                let oa = held.cached.oa_at(held.part.0);
                let apart =
                    oa > made.oa + (made.last - made.first) || made.oa > oa + (held.part.1 - held.part.0);
                if apart || is_alias(held) || held.is_writable() {
                    return Ok(());
                }
                let alias = oa.max(made.oa).wrapping_add(offset);
                let fact = format!("the tables make {alias:#x} writable, in the linear map");
                Err(Finding { va: Some(alias), ..self.contradicts(Rule::WritableAlias, fact, held) })
            })?;
        }
        for made in areas {
            let alias = made.oa.wrapping_add(offset);
            let Some(last) = alias.checked_add(made.last - made.first) else { continue };
            self.held(root, (alias, last), &mut |held| {
                if !is_alias(held) || !held.is_writable() {
                    return Ok(());
                }
                let va = made.first + (held.part.0 - alias);
                Err(self.contradicts(Rule::WritableAlias, format!("the tables make {va:#x} read-only"), held))
            })?;
        }
        Ok(())
    }
}

/// Adds the next translation in address order.
fn join(all: &mut Vec<Made>, held: &Held<'_>) {
    let ((first, last), oa) = (held.part, held.cached.oa_at(held.part.0));
    match all.last_mut() {
        Some(before) if before.last + 1 == first && before.oa + (first - before.first) == oa => {
            before.last = last;
        }
        _ => all.push(Made { first, last, oa }),
    }
}
