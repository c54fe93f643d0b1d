//! The findings of an observer, as a document.

use serde_json::{Value, json};

use super::memory::Memory;
use super::observer::Observer;
use super::replay::Placed;
use super::report::{Finding, Missed, Step, Stored};
use super::sites::{Kind, Site};
use crate::{CpuId, Event};

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

/// An event with its number and its place in the code.
fn placed(at: usize, pc: u64, event: &Event) -> Value {
    json!({ "event": at, "cpu": event.cpu(), "pc": hex(pc), "text": event.to_string() })
}

fn finding(found: &Finding) -> Value {
    let holders: Vec<CpuId> = (0..64u8).filter(|cpu| found.holders >> cpu & 1 == 1).collect();
    let events = found.events.iter().map(|(at, pc, event)| placed(*at, *pc, event));
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

fn site((pc, site): (u64, &Site)) -> Value {
    json!({ "pc": hex(pc), "what": site.kind.to_string(), "count": site.count, "needed": site.needed })
}

/// Returns the findings, the TLBIs and DSBs of the code, and how much was seen.
pub fn document<M: Memory>(observer: &Observer<M>) -> Value {
    let tlbis = || observer.sites().map(|(_, site)| site).filter(|site| matches!(site.kind, Kind::Tlbi(_)));
    json!({
        "findings": observer.findings().map(finding).collect::<Vec<_>>(),
        "vectors": hex(observer.vectors().unwrap_or_default()),
        "sites": observer.sites().map(site).collect::<Vec<_>>(),
        "counts": {
            "events": observer.events(),
            "tlbis": tlbis().map(|site| site.count).sum::<u64>(),
            "tlbis_needed": tlbis().map(|site| site.needed).sum::<u64>(),
            "roots": observer.roots(),
            "tables_not_known": observer.unknown_tables(),
        },
    })
}

/// Returns the last event of an observer, and the state of the tables and the TLBs at the address that it is about.
pub fn moment<M: Memory>(observer: &Observer<M>, (event, pc): &Placed) -> Value {
    let mut value = placed(observer.events().saturating_sub(1), *pc, event);
    let (va, facts) = observer.moment(event).unzip();
    value["address"] = va.map(|va| hex(va.0)).into();
    value["facts"] = facts.unwrap_or_default().into();
    value
}
