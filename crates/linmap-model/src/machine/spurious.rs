//! Permissions that were relaxed without an invalidation, where the caller handles spurious faults: a TLB may keep the
//! stricter ones.

use linmap::{Attributes, OaFormat};

use super::Machine;
use crate::cached::Cached;
use crate::{Mapping, stage2};

/// The permissions that make an access fault. Not that of EL0: without it PAN does not apply, and EL1 has more
/// (D8.4 RTBKKB).
const PERMISSIONS: Attributes =
    Attributes::READ_ONLY.union(Attributes::DIRTY_MANAGED).union(Attributes::PXN).union(Attributes::UXN);

impl Machine {
    /// Judges that TLBs may keep a leaf for a range: it says what the operation has made of the range, or what differs is
    /// left to a handler, or to a later invalidation.
    ///
    /// # Errors
    ///
    /// The first address for which they may not.
    pub(super) fn may_keep(&self, root: u64, span: (u64, u64), held: &Cached) -> Result<(), u64> {
        let left = |va| self.left_until(root, va, held);
        let handled = |va| self.handled_until(root, va, held).or_else(|| left(va));
        all_but(span, |part| self.may_translate_as(root, part, held), handled)?;
        all_but(span, |part| self.dirty_state_is_kept(root, part, held), left)
    }

    /// Returns the last address up to which a leaf differs in stricter permissions alone, and faults are handled.
    fn handled_until(&self, root: u64, va: u64, held: &Cached) -> Option<u64> {
        let handled = self.physical.spurious_faults.until(self.current(root), va)?;
        let (end, states) = self.states(root, va);
        let stricter = states.iter().flatten().any(|now| now.valid && self.is_stricter(held, va, now));
        stricter.then(|| end.min(handled))
    }

    fn is_stricter(&self, held: &Cached, va: u64, now: &Mapping) -> bool {
        let mut ignored = Attributes::SOFTWARE | Attributes::TAKEN_OUT;
        if self.geometry().oa_format() == OaFormat::Lpa2 {
            ignored |= Attributes::INNER_SHAREABLE;
        }
        let (old, new) = (held.attributes, Attributes::from_bits_retain(now.attributes));
        if stage2::is_of_stage_2(old) {
            return held.oa_at(va) == now.pa && stage2::is_stricter(old, new, ignored);
        }
        let ignored = ignored | PERMISSIONS;
        let forbids = |bit: Attributes| old.contains(bit) || !new.contains(bit);
        held.oa_at(va) == now.pa
            && old - ignored == new - ignored
            && (!old.is_writable() || new.is_writable())
            && forbids(Attributes::PXN)
            && forbids(Attributes::UXN)
    }
}

/// Judges a span, but for the parts that may differ: `judge` returns the first address that is not right, and `until` the last
/// one up to which it need not be.
///
/// # Errors
///
/// The first address that has to be right and is not.
fn all_but(
    (first, last): (u64, u64),
    judge: impl Fn((u64, u64)) -> Result<(), u64>,
    until: impl Fn(u64) -> Option<u64>,
) -> Result<(), u64> {
    let mut va = first;
    while let Err(other) = judge((va, last)) {
        let end = until(other).ok_or(other)?;
        if end >= last {
            break;
        }
        va = end + 1;
    }
    Ok(())
}
