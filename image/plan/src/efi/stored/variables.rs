//! The variables of firmware, as far as documents are stored in them: numbered, and limited.

/// Variables of one vendor, with numbers as names. Errors are statuses of the firmware.
pub trait Variables {
    /// Returns the limits of variables that stay when power goes.
    ///
    /// # Errors
    ///
    /// The firmware does not say.
    fn limits(&mut self) -> Result<Limits, u64>;

    /// Returns the bytes of a variable; none if it is not there.
    ///
    /// # Errors
    ///
    /// The firmware does not say.
    fn size(&mut self, number: u32) -> Result<Option<usize>, u64>;

    /// Reads a variable that has as many bytes as there is room for.
    ///
    /// # Errors
    ///
    /// The firmware does not read it, or it has another size.
    fn read(&mut self, number: u32, room: &mut [u8]) -> Result<(), u64>;

    /// Writes a variable that stays when power goes: all of it or nothing.
    ///
    /// # Errors
    ///
    /// The firmware does not write it.
    fn write(&mut self, number: u32, bytes: &[u8]) -> Result<(), u64>;

    /// Removes a variable.
    ///
    /// # Errors
    ///
    /// The firmware does not remove it.
    fn remove(&mut self, number: u32) -> Result<(), u64>;
}

/// The limits of variables, in bytes (UEFI specification, `QueryVariableInfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// All that is free.
    pub free: u64,
    /// The most of one variable, its name included.
    pub one: u64,
}

/// Returns the number of variables that are there: those from 0 on without a gap.
pub(super) fn present(variables: &mut impl Variables, most: u32) -> Result<u32, u64> {
    for number in 0..most {
        if variables.size(number)?.is_none() {
            return Ok(number);
        }
    }
    Ok(most)
}

/// Removes the first `count` variables, the last one first: at any moment those that are left have no gap.
pub(super) fn remove(variables: &mut impl Variables, count: u32) -> Result<(), u64> {
    (0..count).rev().try_for_each(|number| variables.remove(number))
}
