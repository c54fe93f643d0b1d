//! Why a linear map is in pages, and what would help: a pure function over evidence.
//!
//! What it rests on is what Linux does (`arch/arm64/mm/mmu.c`, `pageattr.c`):
//!
//! - Before 6.18 all RAM is in pages if `rodata=full` (the default), `debug_pagealloc=on`, or KFENCE wants
//!   pages; CPUs do not matter.
//! - From 6.18 on CPUs that never abort get large leaves nonetheless, but with `debug_pagealloc`.
//! - KFENCE wants pages everywhere up to 6.4; from 6.5 on in its pool alone, unless it is compiled in with a
//!   sample interval of 0, as in Debian's 6.12 and 7.x: then it might be set up later, anywhere.

use linmap::Midr;

use super::evidence::{Certainty, Evidence, KFENCE_EARLY, Promised, RODATA_RENAMED, Rodata, SPLITS_LIVE};

/// One thing that is said, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) certainty: Certainty,
    pub(crate) text: String,
}

/// Something that keeps a map in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    DebugPagealloc,
    RodataFull,
    Kfence,
    Unknown,
}

impl Cause {
    /// The name in documents.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::DebugPagealloc => "debug_pagealloc",
            Self::RodataFull => "rodata=full",
            Self::Kfence => "kfence",
            Self::Unknown => "unknown",
        }
    }
}

/// What is to be said of how a map is mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Explanation {
    /// What keeps it in pages, each with the reason; nothing for a map in large leaves.
    pub(crate) causes: Vec<(Cause, Statement)>,
    /// What was seen.
    pub(crate) facts: Vec<Statement>,
    /// What would help, and what it costs.
    pub(crate) remedies: Vec<String>,
}

fn known(text: impl Into<String>) -> Statement {
    Statement { certainty: Certainty::Known, text: text.into() }
}

fn inferred(text: impl Into<String>) -> Statement {
    Statement { certainty: Certainty::Inferred, text: text.into() }
}

/// Explains what was seen.
pub(crate) fn explain(e: &Evidence) -> Explanation {
    let mut explanation = Explanation { facts: facts(e), ..Explanation::default() };
    if e.bytes == 0 || !e.in_pages() {
        return explanation;
    }
    let causes: Vec<_> = [debug_pagealloc(e), rodata(e), kfence(e)].into_iter().flatten().collect();
    explanation.remedies = remedies(e, &causes);
    explanation.causes = if causes.is_empty() { vec![(Cause::Unknown, unknown(e))] } else { causes };
    explanation
}

/// Whether free pages are unmapped: far more pieces than any pool has.
fn is_pagealloc_seen(e: &Evidence) -> bool {
    let (pages, pieces) = e.invalid;
    pieces > 1000 && pages > 1000
}

fn debug_pagealloc(e: &Evidence) -> Option<(Cause, Statement)> {
    // The command line is a request; a kernel that was built without it does nothing. The map decides.
    if !is_pagealloc_seen(e) {
        return None;
    }
    let (pages, pieces) = e.invalid;
    let text = format!("{pages} pages in {pieces} places are not valid: debug_pagealloc unmaps free pages");
    Some((Cause::DebugPagealloc, if asks_for_pagealloc(e) { known(text) } else { inferred(text) }))
}

fn asks_for_pagealloc(e: &Evidence) -> bool {
    matches!(e.argument("debug_pagealloc"), Some("on" | "1"))
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
            (certainty, format!("{name} changes single pages, and Linux {version} can not split live leaves"))
        }
        (Promised::Not(midr, promise), Some(_)) => {
            let cpu = cpu_name(midr);
            (certainty, format!("{name} changes single pages, and {cpu} {promise}"))
        }
        (Promised::All, Some(_)) => (
            Certainty::Inferred,
            format!(
                "{name} changes single pages, and some CPU that was not seen may abort when a live leaf is split"
            ),
        ),
        _ => (
            Certainty::Inferred,
            format!(
                "{name} changes single pages, and leaves can not be split live by this kernel or on these CPUs"
            ),
        ),
    };
    Some((Cause::RodataFull, Statement { certainty, text }))
}

fn kfence(e: &Evidence) -> Option<(Cause, Statement)> {
    // CPUs that never abort spare the map that.
    if e.is_from(SPLITS_LIVE) && e.promised() == Promised::All {
        return None;
    }
    if let Some(certainty) = e.kfence_is_late() {
        let text = "KFENCE is compiled in with a sample interval of 0: as it may be set up later, anywhere, \
                    Linux keeps all RAM in pages, whatever rodata says";
        return Some((Cause::Kfence, Statement { certainty, text: text.to_owned() }));
    }
    let is_old = e.is_before(KFENCE_EARLY);
    if is_old && e.kfence.is_some() {
        return Some((
            Cause::Kfence,
            known("KFENCE is in use, which before Linux 6.5 keeps all RAM in pages"),
        ));
    }
    let not_full = matches!(e.rodata(), Some((Rodata::On | Rodata::Off, _)));
    if !not_full || is_pagealloc_seen(e) {
        return None;
    }
    let text = match e.version() {
        Some(_) if is_old => {
            "KFENCE compiled in, or before 6.3 a crash kernel: either keeps all RAM in pages with any rodata"
        }
        _ => "KFENCE compiled in with a sample interval of 0 keeps all RAM in pages with any rodata",
    };
    Some((Cause::Kfence, inferred(text)))
}

fn unknown(e: &Evidence) -> Statement {
    match &e.release {
        Some(release) => inferred(format!("nothing that was seen of Linux {release} explains the pages")),
        None => inferred("the source does not say which kernel this is"),
    }
}

fn remedies(e: &Evidence, causes: &[(Cause, Statement)]) -> Vec<String> {
    let has = |cause| causes.iter().any(|(c, _)| *c == cause);
    let mut remedies = Vec::new();
    if has(Cause::DebugPagealloc) {
        remedies.push("boot without debug_pagealloc".to_owned());
    }
    let mut arguments = Vec::new();
    if has(Cause::RodataFull) {
        arguments.push(if e.is_from(RODATA_RENAMED) { "rodata=noalias" } else { "rodata=on" });
    }
    if has(Cause::Kfence) && !e.is_before(KFENCE_EARLY) {
        arguments.push("kfence.sample_interval=100");
    }
    if !arguments.is_empty() {
        remedies.push(format!("boot with `{}`{}", arguments.join(" "), price(&arguments)));
    }
    if has(Cause::Kfence) && e.is_before(KFENCE_EARLY) {
        remedies.push("a kernel without KFENCE, or Linux 6.5 or newer".to_owned());
    }
    if has(Cause::RodataFull) || has(Cause::Kfence) {
        let promised = e.promised() == Promised::All;
        remedies.push(match (e.is_from(SPLITS_LIVE), promised) {
            (true, _) => "CPUs that never abort when a live leaf changes size, such as AmpereOne".to_owned(),
            (false, true) => "Linux 6.18 or newer, which has large leaves on these CPUs".to_owned(),
            (false, false) => {
                "Linux 6.18 or newer on CPUs that never abort when a live leaf changes size, such as AmpereOne"
                    .to_owned()
            }
        });
    }
    remedies
}

/// What boot arguments cost.
fn price(arguments: &[&str]) -> &'static str {
    match *arguments {
        ["kfence.sample_interval=100"] => {
            ": KFENCE samples an allocation each 100 ms, and only its pool is in pages"
        }
        [_] => ": what modules and BPF make read-only stays writable in the linear map",
        _ => {
            ": what modules and BPF make read-only stays writable in the linear map, and KFENCE samples an \
             allocation each 100 ms"
        }
    }
}

/// What people call a CPU.
pub(crate) fn cpu_name(midr: u64) -> String {
    Midr(midr).name().map_or_else(|| format!("the CPU with MIDR {midr:#x}"), str::to_owned)
}

fn facts(e: &Evidence) -> Vec<Statement> {
    let mut facts = Vec::new();
    facts.extend(e.release.as_ref().map(|release| known(format!("the kernel is Linux {release}"))));
    facts.extend(cpu(e));
    facts.extend(rodata_fact(e));
    facts.extend(image_fact(e));
    if asks_for_pagealloc(e) && !is_pagealloc_seen(e) {
        facts.push(known(
            "debug_pagealloc=on was asked for on the command line, and the map has no sign of it: this kernel is built \
             without it",
        ));
    }
    if let Some(pool) = &e.kfence {
        let (bytes, va) = (crate::size::human(pool.bytes), pool.va);
        facts.push(inferred(format!(
            "{bytes} at {va:#x} look like KFENCE's pool: every other page is not valid"
        )));
    }
    let (pages, pieces) = e.invalid;
    if pages > 0 {
        facts.push(known(format!("{pages} more pages in {pieces} places are kept but not valid")));
    }
    facts
}

fn cpu(e: &Evidence) -> Option<Statement> {
    Some(match e.promised() {
        Promised::Unknown => return None,
        Promised::Not(midr, promise) => known(format!("{} {promise}", cpu_name(midr))),
        Promised::All => {
            let name = e.midrs.first().map(|midr| cpu_name(*midr))?;
            known(format!("{name} never aborts when a live leaf changes size"))
        }
    })
}

fn rodata_fact(e: &Evidence) -> Option<Statement> {
    if let Some(value) = e.argument("rodata") {
        let value = crate::printable::excerpt(value, 20);
        return Some(known(format!("rodata={value} is on the command line")));
    }
    let (rodata, certainty) = e.rodata()?;
    let text = match rodata {
        Rodata::Off => "the kernel's own text is writable: rodata=off",
        Rodata::On => {
            "what is read-only elsewhere is writable in the linear map: rodata is on (noalias), not full"
        }
        Rodata::Full => "what is read-only elsewhere is read-only in the linear map, too: rodata is full",
    };
    Some(Statement { certainty, text: text.to_owned() })
}

fn image_fact(e: &Evidence) -> Option<Statement> {
    (!e.image_alias.is_empty()).then(|| {
        known(match e.image_alias.writable {
            0 => "the kernel's text and constants are read-only in the linear map",
            _ => "the kernel's text and constants are writable in the linear map",
        })
    })
}

#[cfg(test)]
mod tests;
