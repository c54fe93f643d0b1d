//! The name of a Linux kernel (`uname -r`, OSRELEASE in VMCOREINFO): its version, and its builder. The versions that
//! brought what shows in a linear map.

use std::fmt;

/// A kernel's name, with the version that it starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    name: String,
    version: Version,
}

/// Major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

/// The first release that splits live leaves, on CPUs that it trusts never to abort (`trusted`).
pub(crate) const SPLITS_LIVE: Version = Version(6, 18);
/// The first release whose KFENCE needs only its pool in pages, if it is set up early.
pub(crate) const KFENCE_EARLY: Version = Version(6, 5);
/// The first release whose `rodata=on` is the former `full`, and `noalias` the former `on`.
pub(crate) const RODATA_RENAMED: Version = Version(6, 18);
/// The first release that leaves a loaded crash kernel in the linear map. Before it, `crashkernel=` alone keeps all RAM
/// in pages.
pub(crate) const CRASH_KERNEL_UNMAPPED: Version = Version(6, 4);

impl Release {
    /// Parses a name that starts with a version. At most 64 characters are kept, as in Linux.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (major, rest) = name.split_once('.')?;
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let version = Version(number(major)?, number(&minor)?);
        Some(Self { name: crate::printable::excerpt(name, 64), version })
    }

    pub(crate) const fn version(&self) -> Version {
        self.version
    }

    /// Returns true if Debian built it: `6.1.0-40-arm64`, `6.12.48+deb13-cloud-arm64`.
    pub(crate) fn is_debian(&self) -> bool {
        let flavour = self.name.strip_suffix("-arm64").or_else(|| self.name.strip_suffix("-arm64-16k"));
        let Some(rest) = flavour else { return false };
        let rest = rest.strip_suffix("-cloud").or_else(|| rest.strip_suffix("-rt")).unwrap_or(rest);
        let abi = rest.rsplit_once('-').is_some_and(|(_, abi)| number(abi).is_some());
        abi || rest.contains("+deb") || rest.contains("~bpo")
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.0, self.1)
    }
}

fn number(digits: &str) -> Option<u32> {
    if digits.chars().all(|digit| digit.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn names_start_with_a_version() {
        let version = |name| Release::parse(name).map(|release| release.version());
        assert_eq!(version("6.1.0-40-arm64"), Some(Version(6, 1)));
        assert_eq!(version("6.12.48+deb13-arm64"), Some(Version(6, 12)));
        assert_eq!(version("7.2-rc1"), Some(Version(7, 2)));
        for name in ["", "6", "six.one", "6.", ".1", "+6.1", "99999999999.1"] {
            assert_eq!(version(name), None, "{name}");
        }
        assert!(Version(6, 12) < Version(7, 0) && Version(6, 5) < Version(6, 12));
    }

    #[test]
    fn debian_is_told_from_others() {
        let debian = |name| Release::parse(name).is_some_and(|release| release.is_debian());
        for name in ["6.1.0-40-arm64", "6.12.48+deb13-arm64", "6.12.9+bpo-1-cloud-arm64", "6.1.0-13-rt-arm64"]
        {
            assert!(debian(name), "{name}");
        }
        for name in
            ["6.8.0-45-generic-64k", "6.12.0", "5.14.0-503.el9.aarch64", "6.6.31+rpt-rpi-v8", "6.12-arm64"]
        {
            assert!(!debian(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_its_version_and_anything_else(major: u32, minor: u32, rest in "([^0-9].{0,80})?") {
            let release = Release::parse(&format!("{major}.{minor}{rest}"));
            prop_assert_eq!(release.as_ref().map(Release::version), Some(Version(major, minor)));
            let (shown, version) = (release.map(|r| r.to_string()).unwrap_or_default(), format!("{major}.{minor}"));
            prop_assert!(shown.starts_with(&version) && !shown.contains(char::is_control), "{shown:?}");
            // Each of 64 characters can take two, and one stands for the rest.
            prop_assert!(shown.chars().count() <= 2 * 64 + 1, "{shown:?}");
            let built_by_debian = Release::parse(&format!("{version}.0-{minor}-arm64"));
            prop_assert!(built_by_debian.is_some_and(|release| release.is_debian()));
        }

        #[test]
        fn a_name_without_a_version_is_none(name in "[^0-9].*|[0-9]*|[0-9]+\\.([^0-9].*)?|[0-9]+[+-]1\\..*|[1-9][0-9]{10}\\.1") {
            prop_assert_eq!(Release::parse(&name), None);
        }
    }
}
