//! Remedies for a linear map in pages: a promise, which `make test-linux` tests on each kernel.
//!
//! All causes have to be removed together: to remove one of several changes nothing. If no boot argument can help,
//! only other kernels or CPUs are named.

use std::fmt;

use super::cause::Cause;
use super::evidence::{Evidence, Promised};
use super::invalid::Purpose;
use super::release::{KFENCE_EARLY, RODATA_RENAMED, Release, SPLITS_LIVE, Version};

/// One remedy. All of it has to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remedy {
    /// This release or a newer one.
    pub(crate) release: Option<Version>,
    /// CPUs that never abort, whose list starts with AmpereOne.
    pub(crate) cpus: bool,
    /// Boot arguments to give.
    pub(crate) with: Vec<&'static str>,
    /// Boot arguments to leave out, by name.
    pub(crate) without: Vec<&'static str>,
    /// True if it is known that the kernel was given those.
    pub(crate) is_given: bool,
}

const NOT_FULL: &str = "rodata=on";
const NOT_FULL_RENAMED: &str = "rodata=noalias";
const EARLY: &str = "kfence.sample_interval=100";

/// Returns the remedies against all of these causes.
pub(crate) fn remedies(e: &Evidence, causes: &[Cause]) -> Vec<Remedy> {
    if causes.is_empty() {
        return Vec::new();
    }
    [booted_differently(e, causes), newer_without_full(e, causes), other_kernel_or_cpus(e, causes)]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the remedy with the same kernel on the same machine.
fn booted_differently(e: &Evidence, causes: &[Cause]) -> Option<Remedy> {
    let has = |cause| causes.contains(&cause);
    if has(Cause::Kfence) && e.is_before(KFENCE_EARLY) {
        // Every configuration of it needs pages.
        return None;
    }
    let mut remedy = Remedy { is_given: e.command_line.is_some(), ..Remedy::default() };
    if has(Cause::RodataFull) {
        remedy.with.push(if e.is_from(RODATA_RENAMED) { NOT_FULL_RENAMED } else { NOT_FULL });
    }
    if has(Cause::Kfence) || has(Cause::RodataFull) && may_have_late_kfence(e) {
        remedy.with.push(EARLY);
    }
    if has(Cause::DebugPagealloc) {
        remedy.without.push("debug_pagealloc");
    }
    if has(Cause::Crashkernel) || e.may_have_crash_kernel() {
        remedy.without.push("crashkernel");
    }
    Some(remedy)
}

/// Returns true unless it is known that KFENCE is not compiled in with a sample interval of 0. The argument is then
/// needed, and does nothing to a kernel without KFENCE.
fn may_have_late_kfence(e: &Evidence) -> bool {
    let is_debian = e.release.as_ref().is_some_and(Release::is_debian);
    e.is_from(KFENCE_EARLY)
        && !is_debian
        && !e.has_invalid(Purpose::Kfence)
        && e.argument("kfence.sample_interval").is_none()
}

/// Returns a newer release, if this one cannot do without pages for a crash kernel or for KFENCE.
fn newer_without_full(e: &Evidence, causes: &[Cause]) -> Option<Remedy> {
    let is_stuck =
        causes.contains(&Cause::Crashkernel) || causes.contains(&Cause::Kfence) && e.is_before(KFENCE_EARLY);
    is_stuck.then(|| Remedy {
        release: Some(SPLITS_LIVE),
        with: vec![NOT_FULL_RENAMED, EARLY],
        without: without_pagealloc(causes),
        is_given: e.command_line.is_some(),
        ..Remedy::default()
    })
}

/// Returns a kernel that splits live leaves, on CPUs that it trusts.
fn other_kernel_or_cpus(e: &Evidence, causes: &[Cause]) -> Option<Remedy> {
    let needs_splits = [Cause::RodataFull, Cause::Kfence, Cause::Crashkernel];
    if !causes.iter().any(|cause| needs_splits.contains(cause)) {
        return None;
    }
    let (from, cpus) = match e.promised() {
        Promised::From(version) if !e.is_from(version) => (version, false),
        _ => (SPLITS_LIVE, true),
    };
    Some(Remedy {
        release: (!e.is_from(from)).then_some(from),
        cpus,
        without: without_pagealloc(causes),
        is_given: e.command_line.is_some(),
        ..Remedy::default()
    })
}

fn without_pagealloc(causes: &[Cause]) -> Vec<&'static str> {
    if causes.contains(&Cause::DebugPagealloc) { vec!["debug_pagealloc"] } else { Vec::new() }
}

impl fmt::Display for Remedy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CPUS: &str = "CPUs that never abort when a live leaf changes size, such as AmpereOne";
        match (self.release, self.cpus) {
            (Some(release), true) => write!(out, "Linux {release} or newer on {CPUS}")?,
            (Some(release), false) if self.with.is_empty() => {
                write!(out, "Linux {release} or newer, which has large leaves on these CPUs")?;
            }
            (Some(release), false) => write!(out, "Linux {release} or newer, booted")?,
            (None, true) => out.write_str(CPUS)?,
            (None, false) => out.write_str("boot")?,
        }
        if !self.with.is_empty() {
            write!(out, " with `{}`", self.with.join(" "))?;
        }
        for (index, argument) in self.without.iter().enumerate() {
            let and = if index > 0 || !self.with.is_empty() { " and" } else { "" };
            let comma = if self.cpus || self.release.is_some() && self.with.is_empty() { "," } else { "" };
            write!(out, "{comma}{and} without `{argument}=`")?;
        }
        if !self.without.is_empty() && !self.is_given {
            out.write_str(" if it is given")?;
        }
        let prices = self.prices();
        if prices.is_empty() { Ok(()) } else { write!(out, ": {}", prices.join(", and ")) }
    }
}

impl Remedy {
    /// Returns its costs.
    fn prices(&self) -> Vec<&'static str> {
        let mut prices = Vec::new();
        if self.with.iter().any(|argument| argument.starts_with("rodata=")) {
            prices.push("what modules and BPF make read-only stays writable in the linear map");
        }
        if self.with.contains(&EARLY) {
            prices.push("KFENCE samples an allocation each 100 ms, with only its pool in pages");
        }
        if self.without.contains(&"crashkernel") {
            prices.push("there is no kdump");
        }
        prices
    }
}
