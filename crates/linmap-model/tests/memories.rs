//! A memory refuses pages of another, so that there are never two references to one page.
//! And a breach is told, whatever is dropped meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};

use linmap::arch::{Descriptor, Level};
use linmap::host::HostMemory;
use linmap::{Frame, Geometry, Granule, Memory, OaFormat, Slot};
use linmap_model::{Core, Event, Model, OnCpu, Setup, Tlb};

fn setup() -> Setup {
    Setup {
        tables: 16,
        ..Setup::new(Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap(), &[Core::STRONG])
    }
}

fn model() -> Model {
    Model::new(&setup()).expect("a machine")
}

fn taken(memory: &impl Memory) -> Frame {
    memory.take().expect("a page")
}

/// Why something panics.
fn refusal<R>(what: impl FnOnce() -> R) -> String {
    let why = catch_unwind(AssertUnwindSafe(what)).err().expect("it is refused");
    let text = why.downcast_ref::<String>().map(String::as_str);
    text.or(why.downcast_ref::<&str>().copied()).unwrap_or_default().to_owned()
}

/// Every access to a page of another memory is refused.
fn refuses(memory: &impl Memory, take: impl Fn() -> Frame, says: &str) {
    let slot = |frame: &Frame| Slot { table: frame.pa(), index: 0 };
    let all = [
        refusal(|| memory.with_slots(&mut take(), Level::PAGE, |slots| slots.len())),
        refusal(|| memory.give(take())),
        // SAFETY: none that could be kept: this is what must be refused.
        refusal(|| unsafe { memory.load(slot(&take())) }),
        // SAFETY: as above.
        refusal(|| unsafe { memory.store(slot(&take()), Descriptor::HOLE) }),
    ];
    for why in all {
        assert!(why.contains(says), "{why}");
    }
}

const NOT_OURS: &str = "is not a table page of this machine";

#[test]
fn models_refuse_each_others_pages() {
    let (one, other) = (model(), model());
    let (a, b) = (one.cpu(0), other.cpu(0));
    assert_ne!(taken(&a).pa(), taken(&b).pa());
    refuses(&a, || taken(&b), NOT_OURS);
    let quiet = model().quietly();
    refuses(&quiet.cpu(0), || taken(&b), NOT_OURS);
    assert_eq!(quiet.in_use(), 0);
}

#[test]
fn models_and_host_memories_refuse_each_others_pages() {
    let setup = setup();
    let host = HostMemory::new(setup.geometry, 16);
    // Where the host's pages are, too.
    for at in [setup.tables_at, taken(&host).pa().0] {
        let [one, other] = [(); 2].map(|()| Model::new(&Setup { tables_at: at, ..setup.clone() }));
        let (one, other) = (one.expect("a machine"), other.expect("a machine"));
        refuses(&one.cpu(0), || taken(&host), NOT_OURS);
        refuses(&host, || taken(&other.cpu(0)), "is not in this memory");
    }
}

#[test]
fn a_page_outlives_its_model_and_belongs_to_no_other() {
    let frame = {
        let gone = model();
        taken(&gone.cpu(0))
    };
    let pa = frame.pa();
    let next = model();
    let cpu = next.cpu(0);
    assert!((0..16).all(|_| taken(&cpu).pa() != pa), "the same page once more");
    assert!(refusal(|| cpu.give(frame)).contains(NOT_OURS));
}

#[test]
fn addresses_run_out() {
    let all = Setup { tables_at: (1 << 48) - 16 * 4096, ..setup() };
    let model = Model::new(&all).expect("the last ones");
    assert_eq!(model.setup(), all);
    let why = Model::new(&all).err().expect("no more");
    assert_eq!(why, "there are no addresses for 16 more table pages from 0xffffffff0000 on");
}

/// Gives a page back when it is dropped, as what was reserved for an operation is.
struct Reserved<'m>(OnCpu<'m>, Option<Frame>);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.give(self.1.take().expect("a page"));
    }
}

#[test]
fn a_breach_is_told_while_pages_go_back() {
    let model = Model::new(&Setup { cores: vec![Core { range_tlbi: false, ..Core::STRONG }], ..setup() });
    let model = model.expect("a machine");
    let cpu = model.cpu(0);
    let why = refusal(|| {
        let _reserved = Reserved(cpu, cpu.take());
        cpu.step(Event::Tlbi { cpu: 0, op: Tlb::Rvaae1is, operand: 0 });
    });
    assert!(why.starts_with("TlbiOperand"), "{why}");
    assert_eq!(model.in_use(), 0);
}
