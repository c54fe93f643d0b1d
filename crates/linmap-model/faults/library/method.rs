
impl<G: crate::Form> crate::Live<'_, G> {
    /// Clears the access flags of `pages` pages from `va` on. Returns the bytes of the leaves that had it.
    ///
    /// # Errors
    ///
    /// As for [`take_access_flag`].
    ///
    /// # Safety
    ///
    /// No walker sets the flag, and the caller handles the faults of the next accesses.
    pub unsafe fn take_access_flag(&mut self, va: Va, pages: u64) -> Result<u64, ChangeError> {
        take_access_flag(self.caller, va, pages)
    }
}
