//! `Readers`: a page is given back when no reader can be in it, and not lost.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed as Plain};

use linmap::{Frame, Memory, Pa};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;

use crate::every_order_is_needed;
use crate::readers::Readers;

/// A map of two pages: a link to each, and its contents, for which an access that races with another is an error. A third
/// page was never a table.
struct Map<const ROOM: usize> {
    readers: Readers<2, ROOM>,
    links: [AtomicU64; 2],
    pages: Pages,
}

struct Pages {
    contents: [UnsafeCell<u64>; 3],
    /// The number of times that each was given back.
    given: [AtomicUsize; 3],
}

// SAFETY: no page is ever taken or read through this memory.
unsafe impl Memory for Pages {
    fn page_size(&self) -> u64 {
        4096
    }

    fn take(&self) -> Option<Frame> {
        None
    }

    fn give(&self, frame: Frame) {
        let number = (frame.into_pa().0 >> 12) as usize;
        let page = &self.contents[number];
        // SAFETY: the next owner writes; `loom` fails if anybody may be reading.
        page.with_mut(|word| unsafe { *word = 0 });
        self.given[number].fetch_add(1, Plain);
    }
}

impl<const ROOM: usize> Map<ROOM> {
    fn new() -> Arc<Self> {
        let map = Self {
            readers: Readers::new(),
            links: [AtomicU64::new(1), AtomicU64::new(1)],
            pages: Pages {
                contents: [const { 7 }; 3].map(UnsafeCell::new),
                given: [0; 3].map(AtomicUsize::new),
            },
        };
        // All words are used once before there are threads.
        {
            let _sections = [map.readers.enter(0), map.readers.enter(1)];
            (0..ROOM).for_each(|_| assert!(map.retire(2).is_ok()));
            assert!(map.retire(2).is_err(), "the list is full");
        }
        map.ends_with([0, 0, ROOM]);
        map.pages.given[2].store(0, Plain);
        Arc::new(map)
    }

    /// Reads a page in a section, if the map has it.
    fn read(&self, cpu: usize, page: usize) {
        let _section = self.readers.enter(cpu);
        self.read_in_section(page);
    }

    fn read_in_section(&self, page: usize) {
        if self.links[page].load(Relaxed) == 1 {
            // SAFETY: `loom` fails if anybody may be writing.
            let word = self.pages.contents[page].with(|word| unsafe { *word });
            assert_eq!(word, 7, "a page that was given back");
        }
    }

    /// Removes a page from the map and retires it.
    fn remove(&self, page: usize) {
        self.links[page].store(0, Relaxed);
        assert!(self.retire(page).is_ok(), "the list has room");
    }

    fn retire(&self, page: usize) -> Result<(), Frame> {
        // SAFETY: the page was a table, or is the third one, and belongs to whom removed it.
        self.readers.retire(&self.pages, unsafe { Frame::from_pa(Pa((page as u64) << 12)) })
    }

    /// Retires a page in a section, so that it waits.
    fn retire_later(&self, page: usize) {
        let _section = self.readers.enter(page % 2);
        assert!(self.retire(page).is_ok(), "the list has room");
    }

    /// Now that no section is open, all pages have been given back or are now.
    fn ends_with(&self, given: [usize; 3]) {
        self.readers.give_back(&self.pages);
        assert_eq!(([0, 1, 2].map(|page| self.given(page)), self.readers.waiting()), (given, 0));
    }

    fn given(&self, page: usize) -> usize {
        self.pages.given[page].load(Plain)
    }
}

/// Runs something in a thread of its own.
fn beside<const ROOM: usize>(
    map: &Arc<Map<ROOM>>,
    work: impl FnOnce(&Map<ROOM>) + 'static,
) -> thread::JoinHandle<()> {
    let map = map.clone();
    thread::spawn(move || work(&map))
}

fn join<const N: usize>(threads: [thread::JoinHandle<()>; N]) {
    threads.into_iter().for_each(|thread| thread.join().expect("no thread failed"));
}

fn one_reader() {
    let map = Map::<2>::new();
    let reader = beside(&map, |map| {
        map.read(0, 0);
        map.read(0, 1);
    });
    map.remove(0);
    map.remove(1);
    join([reader]);
    map.ends_with([1, 1, 0]);
}

fn two_readers() {
    let map = Map::<2>::new();
    let readers = [0, 1].map(|cpu| beside(&map, move |map| map.read(cpu, 0)));
    map.remove(0);
    map.readers.give_back(&map.pages);
    join(readers);
    map.ends_with([1, 0, 0]);
}

/// Two threads whose sections are one CPU's, as after a thread has moved to another one.
fn two_readers_of_one_cpu() {
    let map = Map::<2>::new();
    let readers = [0, 1].map(|page| beside(&map, move |map| map.read(0, page)));
    map.remove(0);
    map.remove(1);
    join(readers);
    map.ends_with([1, 1, 0]);
}

fn a_section_in_a_section() {
    let map = Map::<2>::new();
    let reader = beside(&map, |map| {
        let _outer = map.readers.enter(0);
        map.read(0, 0);
        map.read_in_section(1);
    });
    map.remove(0);
    map.remove(1);
    join([reader]);
    map.ends_with([1, 1, 0]);
}

fn two_removers() {
    let map = Map::<2>::new();
    let others = [beside(&map, |map| map.read(0, 0)), beside(&map, |map| map.remove(1))];
    map.remove(0);
    join(others);
    map.ends_with([1, 1, 0]);
}

/// Pages are given back by somebody else.
fn another_gives_back() {
    let map = Map::<2>::new();
    let others = [beside(&map, |map| map.read(0, 0)), beside(&map, |map| map.readers.give_back(&map.pages))];
    map.remove(0);
    join(others);
    map.ends_with([1, 0, 0]);
}

/// Two callers find the same page.
fn two_give_back() {
    let map = Map::<2>::new();
    map.retire_later(0);
    let other = beside(&map, |map| map.readers.give_back(&map.pages));
    map.readers.give_back(&map.pages);
    join([other]);
    map.ends_with([1, 0, 0]);
}

/// A page enters the place that another one leaves.
fn a_place_is_used_again() {
    let map = Map::<1>::new();
    map.retire_later(0);
    let other = beside(&map, |map| map.readers.give_back(&map.pages));
    let section = map.readers.enter(1);
    let had_room = map.retire(1).is_ok();
    drop(section);
    join([other]);
    map.ends_with([1, usize::from(had_room), 0]);
}

/// The list has room for as many pages as there are, so it is never full, however often they wait.
fn a_page_waits_again() {
    let map = Map::<2>::new();
    let other = beside(&map, |map| {
        map.retire_later(0);
        map.readers.give_back(&map.pages);
        if map.given(0) == 1 {
            map.retire_later(0);
        }
    });
    map.retire_later(1);
    join([other]);
    map.readers.give_back(&map.pages);
    map.ends_with([map.given(0), 1, 0]);
}

#[test]
fn every_order_of_the_readers_is_needed() {
    let programs: [fn(); 9] = [
        one_reader,
        two_readers,
        a_section_in_a_section,
        two_readers_of_one_cpu,
        two_removers,
        another_gives_back,
        two_give_back,
        a_place_is_used_again,
        a_page_waits_again,
    ];
    every_order_is_needed("readers.rs", &programs);
}
