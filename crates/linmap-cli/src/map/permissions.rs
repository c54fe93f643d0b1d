//! The permissions of a leaf in words.

use linmap::Attributes;
use linmap::arch::TableLimits;

/// The restrictions of a table descriptor, by name.
pub(crate) const LIMITS: [(TableLimits, &str); 4] = [
    (TableLimits::PXN, "PXNTable"),
    (TableLimits::UXN, "UXNTable"),
    (TableLimits::NO_EL0, "APTable[0]: no access from EL0"),
    (TableLimits::READ_ONLY, "APTable[1]: read-only"),
];

/// Returns true if EL1 can execute it: nothing that EL0 can write (D8.4.1.2.3).
pub(crate) fn el1_executes(a: Attributes) -> bool {
    let written_by_el0 = a.contains(Attributes::USER) && a.is_writable();
    !a.contains(Attributes::PXN) && !written_by_el0
}

/// Returns the permissions: `EL1: read, write, execute; EL0: no access`.
pub(crate) fn in_words(a: Attributes) -> String {
    let user = a.contains(Attributes::USER);
    let words = |may_execute: bool| {
        let mut words = vec!["read"];
        words.extend(a.is_writable().then_some("write"));
        words.extend(may_execute.then_some("execute"));
        words.join(", ")
    };
    let el0 = match (user, a.contains(Attributes::UXN)) {
        (true, never) => words(!never),
        (false, true) => "no access".to_owned(),
        (false, false) => "execute only".to_owned(),
    };
    format!("EL1: {}; EL0: {el0}", words(el1_executes(a)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restrictions_take_away_and_never_give() {
        let data = Attributes::KERNEL_DATA;
        assert_eq!(in_words(data), "EL1: read, write; EL0: no access");
        assert_eq!(in_words(TableLimits::READ_ONLY.restrict(data)), "EL1: read; EL0: no access");
        let text = Attributes::KERNEL_TEXT;
        assert_eq!(in_words(text), "EL1: read, execute; EL0: no access");
        assert_eq!(in_words(TableLimits::PXN.restrict(text)), "EL1: read; EL0: no access");
        assert_eq!(TableLimits::UXN.restrict(text), text);
        let user = data.union(Attributes::USER).difference(Attributes::UXN | Attributes::PXN);
        // EL1 never executes what EL0 can write.
        assert_eq!(in_words(user), "EL1: read, write; EL0: read, write, execute");
        assert_eq!(in_words(TableLimits::UXN.restrict(user)), "EL1: read, write; EL0: read, write");
        assert_eq!(
            in_words(TableLimits::NO_EL0.restrict(user)),
            "EL1: read, write, execute; EL0: execute only"
        );
        let dirty = data.union(Attributes::READ_ONLY | Attributes::DIRTY_MANAGED);
        assert_eq!(in_words(dirty), "EL1: read, write; EL0: no access");
        assert_eq!(in_words(TableLimits::READ_ONLY.restrict(dirty)), "EL1: read; EL0: no access");
    }
}
