//! What a leaf permits once the restrictions of the tables above it are laid on it (Arm ARM D8.4.1.2).

use linmap::Attributes;

/// The restrictions of a table descriptor, by bit and name.
pub(crate) const LIMITS: [(u64, &str); 4] = [
    (PXN_TABLE, "PXNTable"),
    (UXN_TABLE, "UXNTable"),
    (AP_TABLE_NO_EL0, "APTable[0]: no access from EL0"),
    (AP_TABLE_READ_ONLY, "APTable[1]: read-only"),
];
const PXN_TABLE: u64 = 1 << 59;
const UXN_TABLE: u64 = 1 << 60;
const AP_TABLE_NO_EL0: u64 = 1 << 61;
const AP_TABLE_READ_ONLY: u64 = 1 << 62;

/// What a leaf's attributes come to below tables with these restrictions, bits 63:59 (table D8-64).
pub(crate) fn restricted(attributes: Attributes, limits: u64) -> Attributes {
    let mut a = attributes;
    a.set(Attributes::PXN, a.contains(Attributes::PXN) || limits & PXN_TABLE != 0);
    a.set(Attributes::UXN, a.contains(Attributes::UXN) || limits & UXN_TABLE != 0);
    if limits & AP_TABLE_NO_EL0 != 0 {
        a.remove(Attributes::USER);
    }
    if limits & AP_TABLE_READ_ONLY != 0 {
        a.insert(Attributes::READ_ONLY);
        a.remove(Attributes::DIRTY_MANAGED);
    }
    a
}

/// Whether EL1 can execute it: not what EL0 can write (D8.4.1.2.3).
pub(crate) fn el1_executes(a: Attributes) -> bool {
    let written_by_el0 = a.contains(Attributes::USER) && a.is_writable();
    !a.contains(Attributes::PXN) && !written_by_el0
}

/// `EL1: read, write, execute; EL0: no access`.
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
        assert_eq!(in_words(restricted(data, AP_TABLE_READ_ONLY)), "EL1: read; EL0: no access");
        let text = Attributes::KERNEL_TEXT;
        assert_eq!(in_words(text), "EL1: read, execute; EL0: no access");
        assert_eq!(in_words(restricted(text, PXN_TABLE)), "EL1: read; EL0: no access");
        assert_eq!(restricted(text, UXN_TABLE), text);
        let user = data.union(Attributes::USER).difference(Attributes::UXN | Attributes::PXN);
        // EL1 never executes what EL0 can write.
        assert_eq!(in_words(user), "EL1: read, write; EL0: read, write, execute");
        assert_eq!(in_words(restricted(user, UXN_TABLE)), "EL1: read, write; EL0: read, write");
        assert_eq!(
            in_words(restricted(user, AP_TABLE_NO_EL0)),
            "EL1: read, write, execute; EL0: execute only"
        );
        let dirty = data.union(Attributes::READ_ONLY | Attributes::DIRTY_MANAGED);
        assert_eq!(in_words(dirty), "EL1: read, write; EL0: no access");
        assert_eq!(in_words(restricted(dirty, AP_TABLE_READ_ONLY)), "EL1: read; EL0: no access");
    }
}
