//! Where the words of a table come from when it is linked, and who has stored to it since a barrier.

use std::collections::HashMap;

use crate::{CpuId, Word};

/// A page that becomes a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Linked {
    /// Its words.
    pub words: Vec<u64>,
    /// The CPUs whose stores to it no barrier of theirs has ordered, as bits.
    pub unordered: u64,
}

/// The physical memory of a machine that is watched.
pub trait Memory {
    /// Returns what is at a physical address, so many words, or `None` if that is not known.
    fn table(&mut self, pa: u64, words: usize) -> Option<Linked>;

    /// Takes a store, whose page may become a table.
    fn store(&mut self, cpu: CpuId, pa: u64, value: u64);

    /// Takes what the walker of a CPU wrote to a descriptor.
    fn update(&mut self, pa: u64, value: u64);

    /// Takes a barrier that orders the earlier stores of a CPU before its later ones.
    fn barrier(&mut self, cpu: CpuId);

    /// Takes the contents of a page that is about to be linked: the index and value of each word that is not zero. `unordered` has a
    /// bit for each CPU whose stores to the page no barrier has ordered.
    fn link(&mut self, pa: u64, words: &[(usize, Word)], unordered: u64);
}

/// The bytes of a frame: the unit in which stores are remembered. A root may be smaller, and a table larger.
const FRAME: u64 = 4096;

/// Memory as far as stores and links have told of it. What was never stored is zero.
#[derive(Debug, Default)]
pub struct Told {
    frames: HashMap<u64, Frame>,
    /// For each CPU, the number of barriers that ordered its stores.
    epochs: HashMap<CpuId, u64>,
}

#[derive(Debug)]
struct Frame {
    words: Box<[u64; (FRAME / 8) as usize]>,
    /// The CPU of the last store, and the number of its barriers then.
    last: Option<(CpuId, u64)>,
    /// The CPUs that a link named instead.
    said: Option<u64>,
}

impl Default for Frame {
    fn default() -> Self {
        Self { words: Box::new([0; (FRAME / 8) as usize]), last: None, said: None }
    }
}

impl Memory for Told {
    fn table(&mut self, pa: u64, words: usize) -> Option<Linked> {
        let mut linked = Linked { words: Vec::with_capacity(words), unordered: 0 };
        for at in (0..words as u64).map(|n| pa.wrapping_add(8 * n)) {
            let frame = self.frames.get(&(at / FRAME));
            linked.words.push(frame.map_or(0, |frame| frame.words[(at % FRAME / 8) as usize]));
            if let Some(frame) = frame.filter(|_| at == pa || at % FRAME == 0) {
                let epoch = |cpu| self.epochs.get(&cpu).copied().unwrap_or_default();
                let own = frame.last.filter(|&(cpu, at)| epoch(cpu) == at).map_or(0, |(cpu, _)| 1 << cpu);
                linked.unordered |= frame.said.unwrap_or(own);
            }
        }
        Some(linked)
    }

    fn store(&mut self, cpu: CpuId, pa: u64, value: u64) {
        let epoch = self.epochs.get(&cpu).copied().unwrap_or_default();
        let frame = self.frames.entry(pa / FRAME).or_default();
        frame.words[(pa % FRAME / 8) as usize] = value;
        frame.last = Some((cpu, epoch));
        frame.said = None;
    }

    fn update(&mut self, pa: u64, value: u64) {
        if let Some(frame) = self.frames.get_mut(&(pa / FRAME)) {
            frame.words[(pa % FRAME / 8) as usize] = value;
        }
    }

    fn barrier(&mut self, cpu: CpuId) {
        *self.epochs.entry(cpu).or_default() += 1;
    }

    fn link(&mut self, pa: u64, words: &[(usize, Word)], unordered: u64) {
        let place = |index: usize| pa.wrapping_add((index as u64).wrapping_mul(8));
        // Words that are not listed are zero. In a table larger than 4K that holds for each 4K with a word in the list.
        for frame in [pa].into_iter().chain(words.iter().map(|(index, _)| place(*index))).map(|at| at / FRAME)
        {
            self.frames.insert(frame, Frame { said: Some(unordered), ..Frame::default() });
        }
        for &(index, Word(value)) in words {
            let at = place(index);
            if let Some(frame) = self.frames.get_mut(&(at / FRAME)) {
                frame.words[(at % FRAME / 8) as usize] = value;
            }
        }
    }
}
