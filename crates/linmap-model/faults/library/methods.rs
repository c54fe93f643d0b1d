
impl crate::Space {
    /// Clears the access flags of `pages` pages from `va` on. Returns the bytes of the leaves that had it.
    ///
    /// # Errors
    ///
    /// As for [`take_access_flag`].
    ///
    /// # Safety
    ///
    /// No walker sets the flag, and the caller handles the faults of the next accesses.
    pub unsafe fn take_access_flag<P: crate::Platform>(
        &mut self,
        platform: &P,
        va: Va,
        pages: u64,
    ) -> Result<u64, ChangeError> {
        take_access_flag(self.caller(platform), va, pages)
    }
}

impl crate::SharedSpace {
    /// The same, for one of several callers.
    ///
    /// # Errors
    ///
    /// As for [`take_access_flag`].
    ///
    /// # Safety
    ///
    /// No walker sets the flag, and the caller handles the faults of the next accesses.
    pub unsafe fn take_access_flag<P: crate::Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
    ) -> Result<u64, ChangeError> {
        take_access_flag(self.caller(platform), va, pages)
    }
}
