//! Watches stores: the memory is read-only while something runs, and each instruction that faults there is noted, and
//! executed alone with the memory writable.
//!
//! Every store is seen, also one of the value that is there already, and each attempt at an atomic exchange. Loads are not.

use std::mem::MaybeUninit;
use std::ptr::{addr_of_mut, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The watched memory: its first address and the one after its last. One memory is watched at a time.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
/// The addresses that were stored to.
static STORED: [AtomicUsize; 1 << 16] = [const { AtomicUsize::new(0) }; 1 << 16];
static COUNT: AtomicUsize = AtomicUsize::new(0);

const PAGE: usize = 4096;
/// The flag with which a CPU executes one instruction and then traps.
const STEP: i64 = 0x100;

/// A value in memory that can be watched.
pub(crate) struct Watched<T> {
    value: *mut T,
    _alone: MutexGuard<'static, ()>,
}

impl<T> Watched<T> {
    /// Moves a value to such memory.
    pub(crate) fn new(value: T) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        static HANDLERS: Once = Once::new();
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        HANDLERS.call_once(|| {
            handle(libc::SIGSEGV, on_fault);
            handle(libc::SIGTRAP, on_step);
        });
        let bytes = size_of::<T>().next_multiple_of(PAGE);
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, where the kernel likes.
        let place = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
        assert_ne!(place, libc::MAP_FAILED, "no memory");
        let to = place.cast::<T>();
        // SAFETY: the memory is new, large enough, and aligned to a page.
        unsafe { to.write(value) };
        START.store(place as usize, SeqCst);
        END.store(place as usize + bytes, SeqCst);
        Self { value: to, _alone: alone }
    }

    pub(crate) fn get(&self) -> &T {
        // SAFETY: written in `new`, and never unmapped.
        unsafe { &*self.value }
    }

    /// Returns the offsets in the value that `work` stores to.
    pub(crate) fn stores(&self, work: impl FnOnce()) -> Vec<usize> {
        COUNT.store(0, SeqCst);
        access(START.load(SeqCst), END.load(SeqCst), libc::PROT_READ);
        work();
        access(START.load(SeqCst), END.load(SeqCst), libc::PROT_READ | libc::PROT_WRITE);
        let stored = &STORED[..COUNT.load(SeqCst)];
        stored.iter().map(|at| at.load(SeqCst) - START.load(SeqCst)).collect()
    }

    /// Returns the bytes of the value.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let bytes = self.value.cast::<MaybeUninit<u8>>();
        // SAFETY: the memory was zero before the value came, so every byte has a value. Nobody else uses it.
        (0..size_of::<T>()).map(|at| unsafe { bytes.add(at).read_volatile().assume_init() }).collect()
    }
}

fn access(start: usize, end: usize, access: i32) {
    // SAFETY: whole pages of the watched memory.
    let done = unsafe { libc::mprotect(start as *mut libc::c_void, end - start, access) };
    assert_eq!(done, 0);
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t);

fn handle(signal: i32, handler: Handler) {
    // SAFETY: the handlers below call only what a handler may call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

/// Notes a store and lets its instruction be executed.
extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO.
    let (at, flags) = unsafe { ((*info).si_addr() as usize, flags(context)) };
    if !(START.load(SeqCst)..END.load(SeqCst)).contains(&at) {
        // Not ours: the instruction faults again, and ends the process.
        // SAFETY: the default is always permitted.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    }
    STORED[COUNT.fetch_add(1, SeqCst)].store(at, SeqCst);
    let page = at & !(PAGE - 1);
    access(page, page + PAGE, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the context is this handler's.
    unsafe { *flags |= STEP };
}

/// Watches again after the instruction.
extern "C" fn on_step(_: i32, _: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    access(START.load(SeqCst), END.load(SeqCst), libc::PROT_READ);
    // SAFETY: the context is this handler's.
    unsafe { *flags(context) &= !STEP };
}

/// Returns the place of the flags of the interrupted code.
///
/// # Safety
///
/// The context is one that the kernel passed to a handler.
unsafe fn flags(context: *mut libc::ucontext_t) -> *mut i64 {
    // SAFETY: the caller's promise.
    unsafe { addr_of_mut!((*context).uc_mcontext.gregs[libc::REG_EFL as usize]) }
}
