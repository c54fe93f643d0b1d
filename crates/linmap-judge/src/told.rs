//! Lies to the observer, which show what it notices: the guest runs unchanged.

use std::ops::Range;

use linmap_model::Tlb;

use crate::decode::Instruction;

/// A kind of instruction that can be hidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// TLBIs.
    Tlbi,
    /// DSBs, with the order of stores that they make.
    Dsb,
    /// ISBs.
    Isb,
}

impl Kind {
    /// Returns the kind with a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "tlbi" => Some(Self::Tlbi),
            "dsb" => Some(Self::Dsb),
            "isb" => Some(Self::Isb),
            _ => None,
        }
    }
}

/// The differences between what a guest does and what the observer is told.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Told {
    /// Instructions of a kind at some addresses are not told.
    pub hidden: Option<(Kind, Range<u64>)>,
    /// TLBIs of all CPUs are told as those of one.
    pub localised: bool,
    /// TLBIs by address are told as those of the 64K beside.
    pub shifted: bool,
}

impl Told {
    /// Reads a difference as the plugin's arguments have it: `hide=tlbi@START-END`, `localise=on`, `shift=on`.
    ///
    /// # Errors
    ///
    /// The mistake in it.
    pub fn argument(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("localise", "on") => self.localised = true,
            ("shift", "on") => self.shifted = true,
            ("hide", _) => {
                let hex = |text: &str| u64::from_str_radix(text, 16).ok();
                let hidden = value.split_once('@').and_then(|(kind, range)| {
                    let (first, end) = range.split_once('-')?;
                    Some((Kind::named(kind)?, hex(first)?..hex(end)?))
                });
                self.hidden = Some(hidden.ok_or_else(|| format!("hide={value} is not KIND@START-END"))?);
            }
            _ => return Err(format!("{name}={value} is no argument of the plugin")),
        }
        Ok(())
    }

    /// Returns the instruction that the observer is told of, if any.
    pub fn tell(&self, pc: u64, what: Instruction) -> Option<Instruction> {
        let kind = match what {
            Instruction::Tlbi(..) => Some(Kind::Tlbi),
            Instruction::Dsb(_) => Some(Kind::Dsb),
            Instruction::Isb => Some(Kind::Isb),
            _ => None,
        };
        if self.hidden.as_ref().is_some_and(|(hidden, range)| kind == Some(*hidden) && range.contains(&pc)) {
            return None;
        }
        Some(match what {
            Instruction::Tlbi(op, rt) if self.localised => Instruction::Tlbi(op.with(0, op.is_nxs()), rt),
            what => what,
        })
    }

    /// Returns the operand that the observer is told of.
    pub fn operand(&self, op: Tlb, operand: u64) -> u64 {
        // 64K beside: another page of every size.
        if self.shifted && op.is_by_address() { operand ^ 0x10 } else { operand }
    }
}

#[cfg(test)]
mod tests {
    use linmap_model::Barrier;

    use super::*;

    #[test]
    fn a_hidden_instruction_is_not_told() {
        let mut told = Told::default();
        let tlbi = Instruction::Tlbi(Tlb::Vaae1is, 3);
        assert_eq!(told.tell(0x1000, tlbi), Some(tlbi));
        told.argument("hide", "tlbi@1000-1004").expect("it is right");
        assert_eq!((told.tell(0x1000, tlbi), told.tell(0x1004, tlbi)), (None, Some(tlbi)));
        assert_eq!(told.tell(0x1000, Instruction::Dsb(Barrier::Ish)), Some(Instruction::Dsb(Barrier::Ish)));
        assert!(told.argument("hide", "tlbi").is_err() && told.argument("hide", "dmb@0-1").is_err());
        assert!(told.argument("shift", "2").is_err());
    }

    #[test]
    fn others_are_told_as_they_are_not() {
        let mut told = Told::default();
        told.argument("localise", "on").and_then(|()| told.argument("shift", "on")).expect("they are right");
        for (op, own) in [
            (Tlb::Vaae1is, Tlb::Vaae1),
            (Tlb::Vae1os, Tlb::Vae1),
            (Tlb::Vmalle1isnxs, Tlb::Vmalle1nxs),
            (Tlb::Aside1, Tlb::Aside1),
        ] {
            assert_eq!(told.tell(0, Instruction::Tlbi(op, 0)), Some(Instruction::Tlbi(own, 0)));
        }
        assert_eq!((told.operand(Tlb::Vae1is, 4), told.operand(Tlb::Aside1is, 4)), (0x14, 4));
    }
}
