//! A range that is hidden, and shown to those who have a view of it: others do not use it, nor does anybody before the CPU
//! that shows it is done, or after the last view.

use linmap::arch::Leaf;
use linmap_model::{Access::*, Core};

use crate::scene::Scene;

/// A CPU makes the first page valid or invalid.
fn set_valid(s: &mut Scene, valid: bool) -> &mut Scene {
    let leaf = Leaf { valid, ..s.leaf(0) };
    s.begin("set valid", [s.change(0..1, Some(leaf))]).put(0, leaf);
    if valid {
        s.publish();
    } else {
        s.flush(0..1);
    }
    s.done()
}

fn hidden(cores: &[Core]) -> Scene {
    let mut s = Scene::pages(cores);
    set_valid(&mut s, false);
    s
}

pub(crate) fn used_after_the_view(wrong: bool) -> Scene {
    let mut s = hidden(&[Core::STRONG]);
    set_valid(&mut s, true).access(Write, 0);
    set_valid(&mut s, false);
    if wrong {
        s.access(Write, 0);
    }
    s
}

pub(crate) fn second_view_without_an_isb(wrong: bool) -> Scene {
    let mut s = hidden(&[Core::STRONG; 2]);
    set_valid(&mut s, true).cpu(1);
    if !wrong {
        s.isb();
    }
    s.access(Read, 0).cpu(0);
    set_valid(&mut s, false);
    s
}

/// The first of two views ends, and hides what the second one still uses.
pub(crate) fn hidden_by_the_first_view_that_ends(wrong: bool) -> Scene {
    let mut s = hidden(&[Core::STRONG; 2]);
    set_valid(&mut s, true).cpu(1).isb().access(Read, 0).cpu(0);
    let ends = |s: &mut Scene| _ = set_valid(s, false);
    if wrong {
        ends(&mut s);
    }
    s.cpu(1).access(Read, 0).cpu(0);
    if !wrong {
        ends(&mut s);
    }
    s
}
