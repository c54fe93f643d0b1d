//! Contiguous runs: an inconsistency among the members of one, which is constrained unpredictable.

use super::finding::RunFault;
use crate::format::{Attributes, Descriptor, Entry, Geometry, Level};

/// Reads all members of a run. Returns its inconsistency, if there is one, and the first member that shows it.
///
/// # Errors
///
/// The reader's error for the first member that it cannot read.
pub(super) fn fault<E>(
    g: Geometry,
    level: Level,
    mut read: impl FnMut(usize) -> Result<Descriptor, E>,
) -> Result<Option<(RunFault, usize)>, E> {
    let (members, step) = (g.contiguous_entries(level), g.level_size(level));
    let mut run = MemberScan::default();
    for member in 0..members {
        run.add(member, read(member)?.decode(g, level), step, members as u64 * step);
    }
    Ok(run.fault())
}

/// Returns true if two members of a run may have these attributes. Hardware sets AF and clears AP\[2\] in one member at
/// a time (D8.7.1), and ignores the software bits.
fn is_alike(a: Attributes, b: Attributes) -> bool {
    let mut ignored = Attributes::ACCESSED | Attributes::SOFTWARE | Attributes::TAKEN_OUT;
    if (a & b).contains(Attributes::DIRTY_MANAGED) {
        ignored |= Attributes::READ_ONLY;
    }
    (a ^ b).difference(ignored).is_empty()
}

/// The properties of the members of a run so far.
#[derive(Default)]
struct MemberScan {
    /// True if a member has the contiguous bit. Without one there is no run.
    is_run: bool,
    /// The first valid member without the contiguous bit.
    plain: Option<usize>,
    /// The address where the run should start, and the attributes, from the first valid member.
    first: Option<(u64, Attributes)>,
    /// The first other inconsistency.
    other: Option<(RunFault, usize)>,
}

impl MemberScan {
    fn add(&mut self, member: usize, entry: Entry, step: u64, bytes: u64) {
        let leaf = match entry {
            Entry::Leaf(leaf) if leaf.valid && leaf.contiguous => leaf,
            Entry::Leaf(leaf) if !leaf.valid => return,
            Entry::Hole | Entry::Reserved => return,
            Entry::Leaf(_) | Entry::Table(_) => {
                self.plain.get_or_insert(member);
                return;
            }
        };
        self.is_run = true;
        let start = leaf.oa.0.wrapping_sub(member as u64 * step);
        let fault = match self.first {
            None => {
                self.first = Some((start, leaf.attributes));
                (start & (bytes - 1) != 0).then_some(RunFault::Unaligned)
            }
            Some((first, _)) if first != start => Some(RunFault::Addresses),
            Some((_, attributes)) if !is_alike(attributes, leaf.attributes) => Some(RunFault::Attributes),
            Some(_) => None,
        };
        self.other = self.other.or(fault.map(|fault| (fault, member)));
    }

    /// Returns the inconsistency of the run, if there is one, and the first member that shows it.
    fn fault(&self) -> Option<(RunFault, usize)> {
        let mixed = self.plain.filter(|_| self.is_run).map(|member| (RunFault::Mixed, member));
        mixed.or(self.other)
    }
}
