//! Memory that EL1 can write and execute, on a machine whose kernel has none.

use linmap::Attributes;
use linmap_model::{Core, Event};

use crate::scene::{Plan, Scene};

const TEXT: Attributes = Attributes::KERNEL_TEXT;
const WRITABLE_TEXT: Attributes = TEXT.difference(Attributes::READ_ONLY);

pub(crate) fn mapped(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.map(40, s.with(40, if wrong { WRITABLE_TEXT } else { TEXT }));
    s
}

/// Only EL0 executes it: PXN is set.
pub(crate) fn mapped_without_pxn(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let pxn = if wrong { Attributes::PXN } else { Attributes::empty() };
    s.map(40, s.with(40, Attributes::RAM.difference(Attributes::UXN | pxn)));
    s
}

/// If EL0 can write, EL1 cannot execute.
pub(crate) fn mapped_for_users(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let user = if wrong { Attributes::empty() } else { Attributes::USER };
    s.map(40, s.with(40, WRITABLE_TEXT | user));
    s
}

/// Hardware may make it writable.
pub(crate) fn dirty_managed_text(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let managed = if wrong { Attributes::DIRTY_MANAGED } else { Attributes::empty() };
    s.map(40, s.with(40, TEXT | managed));
    s
}

/// A page of text is to be patched: it is not executable while it is writable.
pub(crate) fn text_made_writable(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let text = s.with(40, TEXT);
    let open = s.with(40, if wrong { WRITABLE_TEXT } else { WRITABLE_TEXT | Attributes::PXN });
    s.map(40, text);
    s.begin("open", [s.change(40..41, Some(open))]).put(40, open).flush(40..41).done();
    s.begin("close", [s.change(40..41, Some(text))]).put(40, text).flush(40..41).done();
    s
}

/// A tree that is loaded has such memory.
pub(crate) fn loaded(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG; 2]);
    let leaf = linmap::arch::Leaf { attributes: if wrong { WRITABLE_TEXT } else { TEXT }, ..plan.leaf };
    let mut s = Plan { leaf, ..plan }.unloaded();
    s.load().cpu(1).event(Event::Report { cpu: 1 }).load();
    s
}
