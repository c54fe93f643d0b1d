//! The guest's RAM, in a file that this process shares with QEMU, and who stored to each frame last.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use linmap_model::observed::{Linked, Memory};
use linmap_model::{CpuId, Word};
use memmap2::{MmapOptions, MmapRaw};

/// log2 of the bytes of a frame: the unit in which stores are remembered.
const FRAME: u32 = 12;
/// The most CPUs.
pub const CPUS: usize = 64;

/// RAM from a physical address on.
#[derive(Debug)]
pub struct Ram {
    base: u64,
    map: MmapRaw,
    /// For each frame the CPU that stored last, from 1, in bits 7:0; above them the number of its barriers then.
    last: Box<[AtomicU64]>,
    /// For each CPU the number of barriers that ordered its stores.
    epochs: [AtomicU64; CPUS],
}

impl Ram {
    /// Maps the file that is a guest's RAM from `base` on.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or mapped.
    pub fn open(path: &Path, base: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let map = MmapOptions::new().map_raw_read_only(&file)?;
        let last = (0..map.len() >> FRAME).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { base, map, last, epochs: [const { AtomicU64::new(0) }; CPUS] })
    }

    /// Returns the place of a frame's last store.
    fn frame(&self, pa: u64) -> Option<&AtomicU64> {
        self.last.get((pa.checked_sub(self.base)? >> FRAME) as usize)
    }

    /// Returns the word that has a physical address in it.
    pub fn word(&self, pa: u64) -> Option<u64> {
        let at = usize::try_from(pa.checked_sub(self.base)? & !7).ok()?;
        if at.checked_add(8)? > self.map.len() {
            return None;
        }
        // SAFETY: the word is within the map, which lasts as long as `self`, and aligned to 8 bytes in pages that are. Guests store
        // to it at any time: it is only read as an atomic.
        let word = unsafe { &*self.map.as_ptr().add(at).cast::<AtomicU64>() };
        Some(u64::from_le(word.load(Relaxed)))
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// Notes a store of a CPU to a physical address. Any thread may.
    pub fn stored(&self, cpu: CpuId, pa: u64) {
        if let (Some(frame), Some(epoch)) = (self.frame(pa), self.epochs.get(usize::from(cpu))) {
            frame.store((epoch.load(Relaxed) << 8u32) | (u64::from(cpu) + 1), Relaxed);
        }
    }

    /// Notes that a CPU's earlier stores come before its later ones. Any thread may.
    pub fn ordered(&self, cpu: CpuId) {
        if let Some(epoch) = self.epochs.get(usize::from(cpu)) {
            epoch.store(epoch.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Returns the CPU whose last store to a frame no barrier of its own has ordered, as a bit.
    fn unordered(&self, pa: u64) -> u64 {
        let last = self.frame(pa).map_or(0, |frame| frame.load(Relaxed));
        let Some(cpu) = (last & 0xff).checked_sub(1) else { return 0 };
        let is_open = self.epochs.get(cpu as usize).is_some_and(|epoch| epoch.load(Relaxed) == last >> 8u32);
        u64::from(is_open) << cpu
    }
}

/// RAM as an observer uses it.
#[derive(Debug)]
pub struct Shared {
    ram: Arc<Ram>,
    /// The tables that the observer has read since it was asked, with their addresses: a log needs them.
    read: Option<Vec<(u64, Linked)>>,
}

impl Shared {
    /// Returns RAM; `logged` if the tables that are read are asked for.
    pub fn new(ram: Arc<Ram>, logged: bool) -> Self {
        Self { ram, read: logged.then(Vec::new) }
    }

    /// Returns the tables that were read since the last call.
    pub fn tables_read(&mut self) -> Vec<(u64, Linked)> {
        self.read.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Memory for Shared {
    fn table(&mut self, pa: u64, words: usize) -> Option<Linked> {
        let word = |n: u64| self.ram.word(pa.checked_add(8 * n)?);
        let all = (0..words as u64).map(word).collect::<Option<Vec<_>>>()?;
        let last = pa + 8 * words as u64 - 1;
        let frames = pa >> FRAME..=last >> FRAME;
        let unordered = frames.fold(0, |bits, frame| bits | self.ram.unordered(frame << FRAME));
        let linked = Linked { words: all, unordered };
        if let Some(read) = &mut self.read {
            read.push((pa, linked.clone()));
        }
        Some(linked)
    }

    // Stores are noted where they are seen, without the observer's lock; the memory has them itself.
    fn store(&mut self, _: CpuId, _: u64, _: u64) {}

    fn update(&mut self, _: u64, _: u64) {}

    fn barrier(&mut self, cpu: CpuId) {
        self.ram.ordered(cpu);
    }

    fn link(&mut self, _: u64, _: &[(usize, Word)], _: u64) {}
}
