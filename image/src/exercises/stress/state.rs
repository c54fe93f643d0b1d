//! The state that the CPUs of a stress test share: pages, the model of them, counts.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use kernel::stress::model::{Model, Page};
use kernel::stress::step::Pages;
use kernel::stress::turns::{self, Turns};
use kernel::views::Hidden;
use linmap::{Hardware, Pa, Va};

use crate::console::say;
use crate::cpu;
use crate::exercises::scratch::scratch;
use crate::exercises::tally::Tally;
use crate::hardware::HARDWARE;
use crate::hidden;
use crate::system::System;
use crate::virtual_addresses::STACKS;

/// The most pages of the linear map that change: two thirds before the middle of the scratch range, the rest after it.
const LINEAR: [u64; 2] = [8192, 4096];
/// The most pages in the vmalloc area.
const VMALLOC: u64 = 8192;
const MOST: usize = (LINEAR[0] + LINEAR[1] + VMALLOC) as usize;

/// Their addresses: the last gigabyte before the stacks.
const AREA: u64 = STACKS - (1 << 30);

/// The word of a page that holds its address; the one before it is a function.
pub(super) const ADDRESS: usize = 1;
/// The words of a page that are functions as well, for calls that are retried.
pub(super) const AGAIN: Range<usize> = 128..144;

/// After so many mistakes no more operations are done.
pub(super) const MOST_WRONG: u64 = 20;

static STATES: [AtomicU8; MOST] = [const { AtomicU8::new(0) }; MOST];
static NUMBERS: [AtomicU32; MOST.div_ceil(turns::PAGES)] =
    [const { AtomicU32::new(0) }; MOST.div_ceil(turns::PAGES)];

/// The counts of one CPU, which alone writes them.
#[repr(align(64))]
pub(super) struct Counts {
    pub(super) probes: AtomicU64,
    /// Probes of pages that another CPU owned meanwhile.
    pub(super) passed_over: AtomicU64,
    pub(super) faults_expected: AtomicU64,
    pub(super) faults_wrong: AtomicU64,
    /// Calls that were retried.
    pub(super) calls_again: AtomicU64,
    /// Operations that failed for want of a table page, and those that failed by the policy.
    pub(super) no_frames: AtomicU64,
    pub(super) needs_resize: AtomicU64,
    /// All that was done, as one number.
    pub(super) digest: AtomicU64,
}

impl Counts {
    pub(super) const fn new() -> Self {
        Self {
            probes: AtomicU64::new(0),
            passed_over: AtomicU64::new(0),
            faults_expected: AtomicU64::new(0),
            faults_wrong: AtomicU64::new(0),
            calls_again: AtomicU64::new(0),
            no_frames: AtomicU64::new(0),
            needs_resize: AtomicU64::new(0),
            digest: AtomicU64::new(0),
        }
    }

    /// Adds to a count.
    pub(super) fn add(count: &AtomicU64, more: u64) {
        count.store(count.load(Relaxed) + more, Relaxed);
    }

    /// Makes the digest depend on a number.
    pub(super) fn digest(&self, number: u64) {
        let mixed = (self.digest.load(Relaxed) ^ number).wrapping_mul(0x100_0000_01b3);
        self.digest.store(mixed ^ mixed >> 29, Relaxed);
    }
}

/// The name of an operation: CPU and number.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) cpu: usize,
    pub(super) number: u64,
}

pub(super) struct Stress<'a> {
    pub(super) system: &'a System<'a>,
    pub(super) seed: u64,
    pub(super) model: Model<'static>,
    pub(super) turns: Turns<'static>,
    pub(super) pages: Pages,
    /// The address of the pages in the linear map, and their memory.
    pub(super) linear: Va,
    pub(super) memory: Pa,
    /// The image's data, if they are hidden.
    pub(super) hidden: Option<Hidden<'a>>,
    /// The frame source refuses pages.
    pub(super) scarce: AtomicBool,
    pub(super) counts: [Counts; cpu::MAX],
    pub(super) tally: Tally<'a>,
}

impl<'a> Stress<'a> {
    /// Returns none, after a warning, where there is too little RAM.
    pub(super) fn new(system: &'a System<'a>, seed: u64) -> Option<Self> {
        scratch(system, "stress", 2)?;
        let (range, page) = (&system.memory.scratch.range, system.geometry.page_size());
        let half = (range.end.0 - range.start.0) / 2;
        let [before, behind] = LINEAR.map(|pages| half.min(pages * page));
        let middle = range.start.0 + half;
        let memory = Pa(middle - before);
        let linear = (before + behind) / page;
        let vmalloc = VMALLOC.min(linear - 1);
        Some(Self {
            system,
            seed,
            model: Model(&STATES),
            turns: Turns(&NUMBERS),
            pages: Pages { linear: linear as usize, vmalloc: vmalloc as usize },
            linear: system.memory.layout.va(memory)?,
            memory,
            hidden: hidden::data(system),
            scarce: AtomicBool::new(false),
            counts: [const { Counts::new() }; cpu::MAX],
            tally: Tally::start("stress", system),
        })
    }

    pub(super) fn bytes(&self, pages: usize) -> u64 {
        (pages as u64) << self.system.geometry.page_shift()
    }

    /// Returns the address of a page.
    pub(super) fn va(&self, page: usize) -> Va {
        match page.checked_sub(self.pages.linear) {
            None => Va(self.linear.0 + self.bytes(page)),
            Some(vmalloc) => Va(AREA + self.bytes(vmalloc)),
        }
    }

    /// Returns the memory of a page.
    pub(super) fn oa(&self, page: usize, skewed: bool) -> Pa {
        let number = page.checked_sub(self.pages.linear).unwrap_or(page);
        Pa(self.memory.0 + self.bytes(number + usize::from(skewed)))
    }

    /// Returns the first and the last address of some pages.
    pub(super) fn ends(&self, pages: &Range<usize>) -> (Va, Va) {
        let start = self.va(pages.start);
        (start, Va(start.0 + self.bytes(pages.len()) - 1))
    }

    /// Writes to each page of memory a function that returns at once, and its own address.
    pub(super) fn fill(&self) {
        const RET: u64 = 0xd65f_03c0;
        for page in 0..self.pages.linear {
            let va = self.va(page);
            let words: *mut u64 = core::ptr::with_exposed_provenance_mut(va.0 as usize);
            // SAFETY: memory without an owner, mapped and writable.
            unsafe {
                words.write_volatile(RET << 32u32 | RET);
                words.add(ADDRESS).write_volatile(self.oa(page, false).0);
            }
            let again = words.wrapping_add(AGAIN.start);
            for word in 0..AGAIN.len() {
                // SAFETY: as above.
                unsafe { again.add(word).write_volatile(RET << 32u32 | RET) };
            }
            HARDWARE.sync_code(va, 8 * AGAIN.end as u64);
        }
        self.model.set(0..self.pages.linear, Page::RAM);
        self.model.set(self.pages.linear..self.pages.all(), Page::Hole);
    }

    /// Reports a mistake, with what it takes to repeat it.
    pub(super) fn found_wrong(&self, At { number, .. }: At, what: fmt::Arguments<'_>) {
        self.tally.expect(false, format_args!("seed {}, operation {number}: {what}", self.seed));
    }

    pub(super) fn sum(&self, count: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        self.counts.iter().map(|counts| count(counts).load(Relaxed)).sum()
    }

    /// Reports what was done. Returns true if all went well.
    pub(super) fn conclude(&self, operations: u64, no_pages: u64) -> bool {
        let (probes, passed_over) = (self.sum(|c| &c.probes), self.sum(|c| &c.passed_over));
        let (expected, wrong) = (self.sum(|c| &c.faults_expected), self.sum(|c| &c.faults_wrong));
        let (no_frames, needs_resize) = (self.sum(|c| &c.no_frames), self.sum(|c| &c.needs_resize));
        let digest = self.counts.iter().fold(0, |sum: u64, c| sum.rotate_left(1) ^ c.digest.load(Relaxed));
        let (cpus, seed) = (cpu::running().count() as u64, self.seed);
        say!(
            "stress: {probes} probes, {expected} faults as expected, {wrong} results wrong, {passed_over} pages passed over, {} calls retried",
            self.sum(|c| &c.calls_again)
        );
        say!(
            "stress: {no_pages} pages refused, which ended {no_frames} operations; {needs_resize} ended by the policy; digest {digest:#018x}"
        );
        say!(
            "linmap: {{\"stress\":{{\"operations\":{operations},\"seed\":{seed},\"faults_expected\":{expected},\"faults_wrong\":{wrong},\
             \"probes\":{probes},\"out_of_frames\":{no_frames},\"needs_resize\":{needs_resize},\"digest\":\"{digest:#018x}\"}}}}"
        );
        self.tally.conclude(
            format_args!(
                "in {operations} operations on {cpus} CPUs from seed {seed} each page allowed what it should, and no more"
            ),
            &[("operations", operations), ("cpus", cpus)],
        )
    }
}
