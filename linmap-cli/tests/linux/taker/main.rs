//! Runs in the guest, and has Linux take pages out of its linear map:
//!
//! - `taker secret PAGES`: memory of memfd_secret, held until the guest ends; the file `/taken` shows that it is done;
//! - `taker crash ADDRESS`: a made-up crash kernel of 20 MiB and a page, loaded into the memory reserved for one.

use std::process::exit;

// Of <asm-generic/unistd.h>.
const FTRUNCATE: i64 = 46;
const KEXEC_LOAD: i64 = 104;
const MMAP: i64 = 222;
const MEMFD_SECRET: i64 = 447;

const PAGE: usize = 4096;
const READ_WRITE: i64 = 3;
const SHARED: i64 = 1;
const ON_CRASH: i64 = 1;

unsafe extern "C" {
    fn syscall(number: i64, ...) -> i64;
}

/// One segment to load, in the form of the kernel.
#[repr(C)]
struct Segment {
    from: *const u8,
    bytes: usize,
    to: usize,
    to_bytes: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match (arguments.get(1).map(String::as_str), arguments.get(2).and_then(|text| number(text))) {
        (Some("secret"), Some(pages)) => secret(pages),
        (Some("crash"), Some(address)) => crash(address),
        _ => fail("taker secret PAGES, or taker crash ADDRESS"),
    }
}

fn secret(pages: usize) {
    let bytes = pages * PAGE;
    // SAFETY: system calls with the arguments that they take; the memory is not used by anything else.
    let memory = unsafe {
        let file = syscall(MEMFD_SECRET, 0);
        if file < 0 || syscall(FTRUNCATE, file, bytes) != 0 {
            fail("no memfd_secret");
        }
        syscall(MMAP, 0_i64, bytes, READ_WRITE, SHARED, file, 0_i64)
    };
    if memory < 0 {
        fail("no memory");
    }
    for page in 0..pages {
        // SAFETY: the page belongs to the mapping that was just made.
        unsafe { (memory as *mut u8).add(page * PAGE).write_volatile(1) };
    }
    println!("taken");
    std::fs::write("/taken", "").unwrap_or_else(|_| fail("no place to say so"));
    loop {
        std::thread::park();
    }
}

fn crash(address: usize) {
    let nothing = [0_u8; PAGE];
    let segment = |to, to_bytes| Segment { from: nothing.as_ptr(), bytes: PAGE, to, to_bytes };
    let segments = [segment(address, 20 << 20), segment(address + (40 << 20), PAGE)];
    // SAFETY: the kernel copies a page that stays valid, twice. Nothing makes it crash.
    let result = unsafe { syscall(KEXEC_LOAD, address, segments.len(), segments.as_ptr(), ON_CRASH) };
    if result != 0 {
        fail("not loaded");
    }
    println!("taken");
}

fn fail(why: &str) -> ! {
    println!("taker: {why}: {}", std::io::Error::last_os_error());
    exit(1)
}
