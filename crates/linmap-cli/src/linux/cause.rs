//! Why a linear map is in pages: pure functions over evidence.
//!
//! It follows from the behaviour of Linux (`arch/arm64/mm/mmu.c`, `pageattr.c`):
//!
//! - Before 6.18, all RAM is in pages with `rodata=full` (the default), `debug_pagealloc=on`, or if KFENCE needs
//!   pages; CPUs do not matter.
//! - From 6.18 on, CPUs that never abort get large leaves all the same, except with `debug_pagealloc`.
//! - KFENCE needs pages everywhere up to 6.4; from 6.5 on in its pool alone, unless it is compiled in with a
//!   sample interval of 0, as in Debian's 6.12 and 7.x: then it can be set up later, anywhere.
//! - `crashkernel=` needs pages everywhere up to 6.3: a crash kernel is taken out of the map when it is loaded.

use linmap::cpu::Midr;

use super::certainty::Certainty;
use super::evidence::{Evidence, Promised, Rodata};
use super::invalid::{Invalid, Purpose};
use super::release::{KFENCE_EARLY, RODATA_RENAMED, Release, SPLITS_LIVE};

/// A statement, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) certainty: Certainty,
    pub(crate) text: String,
}

/// A reason that a map is in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    DebugPagealloc,
    RodataFull,
    Kfence,
    Crashkernel,
    Unknown,
}

impl Cause {
    /// Returns its name in documents.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::DebugPagealloc => "debug_pagealloc",
            Self::RodataFull => "rodata=full",
            Self::Kfence => "kfence",
            Self::Crashkernel => "crashkernel",
            Self::Unknown => "unknown",
        }
    }
}

fn known(text: impl Into<String>) -> Statement {
    Statement { certainty: Certainty::Known, text: text.into() }
}

fn inferred(text: impl Into<String>) -> Statement {
    Statement { certainty: Certainty::Inferred, text: text.into() }
}

/// Returns everything that keeps a map in pages, with the reason; [`Cause::Unknown`] if nothing is known to.
pub(super) fn causes(e: &Evidence) -> Vec<(Cause, Statement)> {
    let causes: Vec<_> =
        [debug_pagealloc(e), rodata(e), kfence(e), crashkernel(e)].into_iter().flatten().collect();
    if causes.is_empty() { vec![(Cause::Unknown, unknown(e))] } else { causes }
}

fn debug_pagealloc(e: &Evidence) -> Option<(Cause, Statement)> {
    // The command line is a request; a kernel that was built without the feature ignores it. The map decides.
    let seen = seen_pagealloc(e)?;
    let text = format!(
        "{} in {} places are not valid: debug_pagealloc unmaps free pages",
        crate::size::human(seen.bytes),
        seen.places
    );
    Some((Cause::DebugPagealloc, if asks_for_pagealloc(e) { known(text) } else { inferred(text) }))
}

fn seen_pagealloc(e: &Evidence) -> Option<&Invalid> {
    e.invalid.iter().find(|invalid| invalid.what == Purpose::DebugPagealloc)
}

fn asks_for_pagealloc(e: &Evidence) -> bool {
    e.argument("debug_pagealloc").is_some_and(is_on)
}

/// Returns true if Linux takes it for a yes, by its first letters.
const fn is_on(value: &str) -> bool {
    matches!(value.as_bytes(), [b'1' | b'y' | b'Y' | b't' | b'T', ..] | [b'o' | b'O', b'n' | b'N', ..])
}

fn rodata(e: &Evidence) -> Option<(Cause, Statement)> {
    let (by_default, certainty) = match e.rodata() {
        Some((Rodata::Full, certainty)) => (false, certainty),
        Some(_) => return None,
        None => (true, Certainty::Inferred),
    };
    let name = if e.is_from(RODATA_RENAMED) { "rodata=on, once called full," } else { "rodata=full" };
    let name = if by_default { format!("{name} (the default)") } else { name.to_owned() };
    let splits = e.is_from(SPLITS_LIVE);
    let (certainty, text) = match (e.promised(), e.version()) {
        (_, Some(version)) if !splits => {
            (certainty, format!("{name} changes single pages, and Linux {version} cannot split live leaves"))
        }
        (Promised::Not(midr, promise), Some(_)) => {
            let cpu = cpu_name(midr);
            (certainty, format!("{name} changes single pages, and {cpu} {promise}"))
        }
        (Promised::From(from), Some(version)) if version < from => (
            certainty,
            format!(
                "{name} changes single pages, and Linux {version} does not trust these CPUs to split live leaves; \
                 {from} does"
            ),
        ),
        (Promised::From(_), Some(_)) => (
            Certainty::Inferred,
            format!(
                "{name} changes single pages, and some CPU that was not seen may abort when a live leaf is split"
            ),
        ),
        _ => (
            Certainty::Inferred,
            format!(
                "{name} changes single pages, and leaves cannot be split live by this kernel or on these CPUs"
            ),
        ),
    };
    Some((Cause::RodataFull, Statement { certainty, text }))
}

fn kfence(e: &Evidence) -> Option<(Cause, Statement)> {
    // CPUs that never abort keep large leaves.
    if e.splits_live() {
        return None;
    }
    if let Some(certainty) = e.kfence_is_late() {
        let text = "KFENCE is compiled in with a sample interval of 0: as it may be set up later, anywhere, \
                    Linux keeps all RAM in pages, whatever rodata says";
        return Some((Cause::Kfence, Statement { certainty, text: text.to_owned() }));
    }
    let is_old = e.is_before(KFENCE_EARLY);
    if is_old && e.has_invalid(Purpose::Kfence) {
        return Some((
            Cause::Kfence,
            inferred("KFENCE is in use, which before Linux 6.5 keeps all RAM in pages"),
        ));
    }
    let not_full = matches!(e.rodata(), Some((Rodata::On | Rodata::Off, _)));
    if !not_full || debug_pagealloc(e).is_some() || crashkernel(e).is_some() {
        return None;
    }
    let text = match e.version() {
        Some(_) if is_old => "KFENCE compiled in keeps all RAM in pages with any rodata",
        _ => "KFENCE compiled in with a sample interval of 0 keeps all RAM in pages with any rodata",
    };
    Some((Cause::Kfence, inferred(text)))
}

fn crashkernel(e: &Evidence) -> Option<(Cause, Statement)> {
    if !e.unmaps_crash_kernel() {
        return None;
    }
    let text = "which before Linux 6.4 keeps all RAM in pages, whatever rodata says";
    let statement = if e.argument("crashkernel").is_some() {
        known(format!("crashkernel= is on the command line, {text}"))
    } else if e.has_invalid(Purpose::CrashKernel) {
        inferred(format!("a crash kernel is loaded, {text}"))
    } else if e.may_have_crash_kernel()
        && matches!(e.rodata(), Some((Rodata::On | Rodata::Off, _)))
        && e.release.as_ref().is_some_and(Release::is_debian)
    {
        // Debian's kernels have no KFENCE there, so that no other cause is left.
        inferred(format!("crashkernel= is given, {text}"))
    } else {
        return None;
    };
    Some((Cause::Crashkernel, statement))
}

fn unknown(e: &Evidence) -> Statement {
    match &e.release {
        Some(release) => inferred(format!("nothing that was seen of Linux {release} explains the pages")),
        None => inferred("the source does not say which kernel this is"),
    }
}

/// Returns the common name of a CPU.
pub(crate) fn cpu_name(midr: u64) -> String {
    Midr(midr).name().map_or_else(|| format!("the CPU with MIDR {midr:#x}"), str::to_owned)
}

/// Returns the facts that were seen.
pub(super) fn facts(e: &Evidence) -> Vec<Statement> {
    let mut facts = Vec::new();
    facts.extend(e.release.as_ref().map(|release| known(format!("the kernel is Linux {release}"))));
    facts.extend(cpu(e));
    facts.extend(repeated_tlbi(e));
    facts.extend(rodata_fact(e));
    facts.extend(image_fact(e));
    if asks_for_pagealloc(e) && seen_pagealloc(e).is_none() {
        facts.push(inferred(
            "debug_pagealloc is on the command line, and free pages are mapped: this kernel is built without it",
        ));
    }
    facts.extend(data_fact(e));
    facts
}

fn cpu(e: &Evidence) -> Option<Statement> {
    Some(match e.promised() {
        Promised::Unknown => return None,
        Promised::Not(midr, promise) => known(format!("{} {promise}", cpu_name(midr))),
        Promised::From(_) => {
            let name = e.midrs.first().map(|midr| cpu_name(*midr))?;
            known(format!("{name} never aborts when a live leaf changes size"))
        }
    })
}

/// Reports the first CPU that needs its TLBIs repeated, since it slows all of them down.
fn repeated_tlbi(e: &Evidence) -> Option<Statement> {
    let needs = |midr: &u64| Some(known(format!("{} {}", cpu_name(*midr), Midr(*midr).repeated_tlbi()?)));
    e.midrs.iter().find_map(needs)
}

fn rodata_fact(e: &Evidence) -> Option<Statement> {
    let asked = e
        .argument("rodata")
        .map(|value| format!("rodata={} is on the command line", crate::printable::excerpt(value, 20)));
    let Some((rodata, certainty)) = e.rodata() else { return asked.map(known) };
    let text = match rodata {
        Rodata::Off => "the kernel's own text is writable: rodata=off",
        Rodata::On => {
            "what is read-only elsewhere is writable in the linear map: rodata is on (noalias), not full"
        }
        Rodata::Full => "what is read-only elsewhere is read-only in the linear map, too: rodata is full",
    };
    let text = asked.map_or_else(|| text.to_owned(), |asked| format!("{text}; {asked}"));
    Some(Statement { certainty, text })
}

fn image_fact(e: &Evidence) -> Option<Statement> {
    (!e.image_alias.is_empty()).then(|| {
        known(match e.image_alias.writable {
            0 => "the kernel's text and constants are read-only in the linear map",
            _ => "the kernel's text and constants are writable in the linear map",
        })
    })
}

/// Reports read-only data, from Linux 7.2 on; before that, it is writable as all data.
fn data_fact(e: &Evidence) -> Option<Statement> {
    (e.data_alias.is_read_only()).then(|| known("the kernel's data and bss are read-only in the linear map"))
}
