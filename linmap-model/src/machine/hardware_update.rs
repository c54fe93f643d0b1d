//! Hardware updates of descriptors: walkers that set the access flag and make writable-clean entries writable-dirty.

use linmap::Attributes;

use super::Machine;

impl Machine {
    /// Returns true if walkers may have made some attributes of others.
    pub(super) fn is_update(&self, from: Attributes, to: Attributes) -> bool {
        let mut updated = Attributes::empty();
        if self.cpus.iter().any(|c| c.core.hardware_access_flag) {
            updated |= Attributes::ACCESSED - from;
        }
        let clean = Attributes::READ_ONLY | Attributes::DIRTY_MANAGED;
        if from.contains(clean) && self.cpus.iter().any(|c| c.core.hardware_dirty_state) {
            updated |= Attributes::READ_ONLY;
        }
        from ^ to == (from ^ to) & updated
    }
}
