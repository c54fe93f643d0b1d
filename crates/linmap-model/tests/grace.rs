//! Table pages that are retired: they are given back when all have ended who were reading at that moment.

use linmap::{Geometry, Granule, Memory, OaFormat, Sharing};
use linmap_model::{Core, Model, Setup};

fn model() -> Model {
    let g = Geometry::new(Granule::K4, 39, OaFormat::Bits48).expect("a geometry");
    Model::new(&Setup { tables: 4, ..Setup::new(g, &[Core::STRONG; 3]) }).expect("a machine")
}

#[test]
fn without_readers_a_page_is_given_back_at_once() {
    let model = model();
    let cpu = model.cpu(0);
    drop(model.cpu(1).begins_to_read());
    cpu.retire(&cpu, cpu.take().expect("a page"));
    assert_eq!(model.in_use(), 0);
    model.finish().expect("nothing is left");
}

#[test]
fn a_page_waits_for_the_readers_of_its_moment() {
    let model = model();
    let [cpu, one, other] = [0, 1, 2].map(|n| model.cpu(n));
    let first = one.begins_to_read();
    let nested = one.begins_to_read();
    let second = other.begins_to_read();
    cpu.retire(&cpu, cpu.take().expect("a page"));
    let late = cpu.begins_to_read();
    drop(nested);
    drop(second);
    assert_eq!(model.in_use(), 1, "a reader of that moment has not ended");
    drop(first);
    assert_eq!(model.in_use(), 0, "who began later is not waited for");
    drop(late);
    model.finish().expect("nothing is left");
}

/// Readers wait for nobody, not even for the holder of the lock on their own CPU.
#[test]
fn who_reads_takes_no_lock() {
    let model = model();
    let cpu = model.cpu(0);
    let held = cpu.lock(0);
    assert!(cpu.read(|| model.cpu(1).read(|| model.is_locked())));
    drop(held);
    model.finish().expect("nobody reads");
}
