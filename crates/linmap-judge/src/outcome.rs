//! The findings of a run, as a document.

use linmap_model::CpuId;
use linmap_model::observed::{Finding, Missed, Observer, Step, Stored};
use serde_json::{Value, json};

use crate::ram::Shared;
use crate::watcher::Counts;

/// The version of the document.
pub const VERSION: u32 = 1;

fn hex(value: u64) -> Value {
    format!("{value:#x}").into()
}

fn step(step: &Step) -> Value {
    json!({ "event": step.at, "cpu": step.cpu, "pc": hex(step.pc) })
}

fn stored(stored: &Stored) -> Value {
    json!({ "step": step(&stored.step), "slot": hex(stored.slot), "old": hex(stored.old), "new": hex(stored.new) })
}

fn missed(missed: &Missed) -> Value {
    json!({
        "step": step(&missed.step),
        "op": missed.op.to_string(),
        "operand": hex(missed.operand),
        "why": missed.why.to_string(),
    })
}

fn finding(found: &Finding) -> Value {
    let holders: Vec<CpuId> = (0..64u8).filter(|cpu| found.holders >> cpu & 1 == 1).collect();
    let events = found.events.iter().map(|(at, pc, event)| {
        json!({ "event": at, "cpu": event.cpu(), "pc": hex(*pc), "text": event.to_string() })
    });
    json!({
        "grade": found.grade.to_string(),
        "rule": format!("{:?}", found.rule),
        "broken": found.rule.to_string(),
        "section": found.rule.section(),
        "step": step(&found.step),
        "address": found.va.map(|va| hex(va.0)),
        "facts": found.facts,
        "right": found.right,
        "store": found.stored.as_ref().map(stored),
        "tlbi": found.missed.as_ref().map(missed),
        "held_by": holders,
        "events": events.collect::<Vec<_>>(),
        "count": found.count,
    })
}

/// Returns the document of a run that has ended. `vectors` is the kernel's first value of VBAR_EL1.
pub fn document(observer: &Observer<Shared>, counts: &Counts, vectors: u64) -> Value {
    use std::sync::atomic::Ordering::Relaxed;
    json!({
        "version": VERSION,
        "findings": observer.findings().map(finding).collect::<Vec<_>>(),
        "vectors": hex(vectors),
        "counts": {
            "events": observer.events(),
            "stores": counts.stores.iter().map(|stores| stores.load(Relaxed)).sum::<u64>(),
            "stores_that_concern_tables": counts.concern.load(Relaxed),
            "tlbis": counts.tlbis.load(Relaxed),
            "returns": counts.returns.load(Relaxed),
            "stores_without_callback": counts.unseen.load(Relaxed),
            "hidden": counts.hidden.load(Relaxed),
            "tables_not_known": observer.unknown_tables(),
        },
    })
}
