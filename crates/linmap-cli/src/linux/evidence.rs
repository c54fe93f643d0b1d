//! Evidence of a linear map and its kernel: values to draw conclusions from.

use linmap::cpu::{BbmPromise, Midr};

use super::certainty::Certainty;
use super::invalid::{Invalid, Purpose};
use super::release::{CRASH_KERNEL_UNMAPPED, KFENCE_EARLY, RODATA_RENAMED, Release, Version};
use super::trusted;

/// Bytes of memory by the permissions of the linear map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) read_only: u64,
    pub(crate) writable: u64,
}

impl Seen {
    pub(crate) const fn is_empty(&self) -> bool {
        self.read_only == 0 && self.writable == 0
    }

    /// Returns true if most of it is read-only.
    pub(crate) const fn is_read_only(&self) -> bool {
        self.read_only > self.writable
    }
}

/// All evidence; facts that a source does not show are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) release: Option<Release>,
    pub(crate) command_line: Option<String>,
    pub(crate) midrs: Vec<u64>,
    pub(crate) mmfr2: Option<u64>,
    /// Bytes that the linear map maps.
    pub(crate) bytes: u64,
    /// Of those, bytes in blocks and contiguous runs outside of the kernel image's alias.
    pub(crate) large: u64,
    /// Invalid pages that Linux still counts as present, by their purpose.
    pub(crate) invalid: Vec<Invalid>,
    /// The kernel's text at its own addresses.
    pub(crate) text: Seen,
    /// The alias in the linear map of the kernel's text and constants.
    pub(crate) image_alias: Seen,
    /// The alias in the linear map of the kernel's data and bss, as far as it is valid.
    pub(crate) data_alias: Seen,
    /// The aliases of read-only pages of modules, BPF and vmalloc.
    pub(crate) other_aliases: Seen,
}

/// The kernel's protection of read-only memory, by the older names of `rodata=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rodata {
    Off,
    On,
    Full,
}

/// The promise of all CPUs never to abort when a live leaf changes its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promised {
    /// All promise it, and Linux trusts all of them from this release on.
    From(Version),
    /// The first CPU that does not, by its MIDR.
    Not(u64, BbmPromise),
    Unknown,
}

impl Evidence {
    /// Returns true if everything but the alias of the kernel image is in pages.
    pub(crate) const fn in_pages(&self) -> bool {
        // One or two blocks at the ends of an image whose place is not known exactly.
        self.large.saturating_mul(50) < self.bytes
    }

    /// Returns true if some pages are invalid for this purpose.
    pub(crate) fn has_invalid(&self, what: Purpose) -> bool {
        self.invalid.iter().any(|invalid| invalid.what == what)
    }

    /// Returns the value of a boot argument, the last one if there are several, or `None` if the command line is not
    /// known.
    pub(crate) fn argument(&self, name: &str) -> Option<&str> {
        let words = self.command_line.as_deref()?.split_ascii_whitespace();
        words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')).next_back()
    }

    pub(crate) fn version(&self) -> Option<Version> {
        self.release.as_ref().map(Release::version)
    }

    pub(crate) fn is_before(&self, version: Version) -> bool {
        self.version().is_some_and(|own| own < version)
    }

    pub(crate) fn is_from(&self, version: Version) -> bool {
        self.version().is_some_and(|own| own >= version)
    }

    /// Returns the value of `rodata=`, given or by default, and how it is known.
    pub(crate) fn rodata(&self) -> Option<(Rodata, Certainty)> {
        use Certainty::{Inferred, Known};
        let renamed = self.is_from(RODATA_RENAMED);
        let asked = match self.argument("rodata") {
            Some("off") => Some((Rodata::Off, Known)),
            Some("noalias") if renamed => Some((Rodata::On, Known)),
            Some("on") if !renamed => Some((Rodata::On, Known)),
            // A release ignores a value that it does not know, and keeps its default.
            Some("on" | "full") => Some((Rodata::Full, Known)),
            _ => None,
        };
        let seen = if self.text.writable > 0 {
            Some((Rodata::Off, Known))
        } else if self.other_aliases.is_empty() {
            None
        } else if self.other_aliases.writable == 0 {
            Some((Rodata::Full, Known))
        } else if self.other_aliases.is_read_only() {
            Some((Rodata::Full, Inferred))
        } else {
            Some((Rodata::On, Inferred))
        };
        asked.or(seen)
    }

    /// Returns the promise of the CPUs. If only some CPUs are known, they stand for all.
    pub(crate) fn promised(&self) -> Promised {
        let mut from = None;
        let mut broken = None;
        for midr in &self.midrs {
            match trusted::from(Midr(*midr), self.mmfr2.unwrap_or_default()) {
                Some(version) => from = from.max(Some(version)),
                None => broken = broken.or(Some(*midr)),
            }
        }
        match (broken, from) {
            // The part number alone does not decide; its BBM field is not known.
            (Some(_), _) if self.mmfr2.is_none() => Promised::Unknown,
            (Some(midr), _) => {
                Promised::Not(midr, BbmPromise::of(Midr(midr), self.mmfr2.unwrap_or_default()))
            }
            (None, Some(version)) => Promised::From(version),
            (None, None) => Promised::Unknown,
        }
    }

    /// Returns true if this release splits live leaves on all CPUs that were seen.
    pub(crate) fn splits_live(&self) -> bool {
        matches!(self.promised(), Promised::From(version) if self.is_from(version))
    }

    /// Returns true if this release takes a crash kernel out of the linear map.
    pub(crate) fn unmaps_crash_kernel(&self) -> bool {
        self.is_before(CRASH_KERNEL_UNMAPPED)
    }

    /// Returns true unless it is known that there is no crash kernel that the release would take out of the linear
    /// map.
    pub(crate) fn may_have_crash_kernel(&self) -> bool {
        self.unmaps_crash_kernel() && self.command_line.is_none()
    }

    /// Returns how it is known that KFENCE is compiled in and not set up at boot, or `None` if it is not so. Linux
    /// then keeps everything in pages for it: Debian's kernels from 6.12 on, unless the command line says otherwise.
    pub(crate) fn kfence_is_late(&self) -> Option<Certainty> {
        if !self.is_from(KFENCE_EARLY) {
            return None;
        }
        match self.argument("kfence.sample_interval") {
            Some("0") => Some(Certainty::Known),
            Some(_) => None,
            None if self.has_invalid(Purpose::Kfence) => None,
            None => {
                let debian = self.release.as_ref().is_some_and(Release::is_debian);
                (debian && self.is_from(Version(6, 12))).then_some(Certainty::Inferred)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::release::SPLITS_LIVE;

    fn of(release: &str) -> Evidence {
        Evidence { release: Release::parse(release), ..Evidence::default() }
    }

    fn with_line(release: &str, line: &str) -> Evidence {
        Evidence { command_line: Some(line.to_owned()), ..of(release) }
    }

    #[test]
    fn the_command_line_is_read_as_its_release_reads_it() {
        let rodata = |release, line| with_line(release, line).rodata().map(|(rodata, _)| rodata);
        assert_eq!(rodata("6.1", "quiet rodata=on"), Some(Rodata::On));
        assert_eq!(rodata("6.17.13", "rodata=on"), Some(Rodata::On));
        assert_eq!(rodata("6.17.13", "rodata=noalias"), None);
        assert_eq!(rodata("6.18.0", "rodata=on"), Some(Rodata::Full));
        assert_eq!(rodata("6.18.0", "rodata=full"), Some(Rodata::Full));
        assert_eq!(rodata("6.18.0", "rodata=noalias"), Some(Rodata::On));
        assert_eq!(rodata("7.0", "rodata=on rodata=off"), Some(Rodata::Off));
        assert_eq!(rodata("7.0", "xrodata=on rodata"), None);
    }

    #[test]
    fn what_is_seen_says_what_rodata_is() {
        let seen = |text: (u64, u64), others: (u64, u64)| {
            let seen = |(read_only, writable)| Seen { read_only, writable };
            Evidence { text: seen(text), other_aliases: seen(others), ..of("6.1") }.rodata()
        };
        assert_eq!(seen((1, 0), (0, 0)), None);
        assert_eq!(seen((0, 1), (0, 0)), Some((Rodata::Off, Certainty::Known)));
        assert_eq!(seen((1, 0), (9, 0)), Some((Rodata::Full, Certainty::Known)));
        assert_eq!(seen((1, 0), (9, 1)), Some((Rodata::Full, Certainty::Inferred)));
        assert_eq!(seen((1, 0), (1, 9)), Some((Rodata::On, Certainty::Inferred)));
    }

    #[test]
    fn one_cpu_without_the_promise_is_enough() {
        let with = |mmfr2, midrs: &[u64]| Evidence { midrs: midrs.to_vec(), mmfr2, ..Evidence::default() };
        let promised = |midrs: &[u64]| with(Some(2 << 52), midrs).promised();
        assert_eq!(promised(&[]), Promised::Unknown);
        assert_eq!(promised(&[0xc00f_ac30, 0xc00f_ac30]), Promised::From(SPLITS_LIVE));
        // Neoverse-N3, which Linux trusts from a later release on.
        assert_eq!(promised(&[0xc00f_ac30, 0x410f_d8e0]), Promised::From(Version(7, 3)));
        assert!(matches!(promised(&[0xc00f_ac30, 0x410f_d0c1]), Promised::Not(0x410f_d0c1, _)));
        // If the BBM field is not shown, a part that is not listed can be either.
        assert_eq!(with(None, &[0x410f_d0c1]).promised(), Promised::Unknown);
        assert_eq!(with(None, &[0xc00f_ac30]).promised(), Promised::From(SPLITS_LIVE));
    }

    #[test]
    fn kfence_is_late_in_debian_unless_told_otherwise() {
        assert_eq!(of("6.12.48+deb13-arm64").kfence_is_late(), Some(Certainty::Inferred));
        assert_eq!(of("7.2.1+deb14-arm64").kfence_is_late(), Some(Certainty::Inferred));
        assert_eq!(of("6.1.0-40-arm64").kfence_is_late(), None);
        assert_eq!(of("6.12.0-custom").kfence_is_late(), None);
        let line = |line| with_line("6.12.48+deb13-arm64", line).kfence_is_late();
        assert_eq!(line("kfence.sample_interval=100"), None);
        assert_eq!(line("kfence.sample_interval=0"), Some(Certainty::Known));
    }
}
