//! Runs in the guest, and has Linux take pages out of its linear map, make them read-only there,
//! or give way to another kernel:
//!
//! - `taker secret PAGES`: memory of memfd_secret, held until the guest ends; the file `/taken` shows that it is done;
//! - `taker bpf PROGRAMS`: BPF programs of 4096 instructions, held until the guest ends; so does `/loaded`;
//! - `taker crash ADDRESS`: a made-up crash kernel of 20 MiB and a page, loaded into the memory reserved for one;
//! - `taker kexec IMAGE`: the kernel in a file, in the place of Linux, with the device tree that Linux was given.

use std::process::exit;

// Of <asm-generic/unistd.h>.
const FTRUNCATE: i64 = 46;
const KEXEC_LOAD: i64 = 104;
const MMAP: i64 = 222;
const BPF: i64 = 280;
const MEMFD_SECRET: i64 = 447;

/// Of Linux's bits/confname.h.
const PAGE_SIZE: i32 = 30;
const READ_WRITE: i64 = 3;
const SHARED: i64 = 1;
const ON_CRASH: i64 = 1;
const REBOOT: i64 = 142;
/// The numbers that `reboot` wants, and the command to start what is loaded.
const MAGIC: [i64; 2] = [0xfee1_dead, 672_274_793];
const START: i64 = 0x4558_4543;
const PROG_LOAD: i64 = 5;
const SOCKET_FILTER: u32 = 1;
/// The instructions `r0 = 0x12345678` and `exit`.
const MOVE: u64 = 0x1234_5678_0000_00b7;
const EXIT: u64 = 0x95;

unsafe extern "C" {
    fn syscall(number: i64, ...) -> i64;
    fn sysconf(name: i32) -> i64;
}

/// The beginning of the kernel's `union bpf_attr`, for a program to load.
#[repr(C)]
struct Program {
    kind: u32,
    instructions: u32,
    first: *const u64,
    license: *const u8,
    /// Log and version of the kernel: none.
    none: [u64; 4],
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
        (Some("kexec"), _) if arguments.len() == 3 => kexec(&arguments[2]),
        (Some("bpf"), Some(programs)) => bpf(programs),
        _ => fail("taker secret PAGES, taker bpf PROGRAMS, taker crash ADDRESS, or taker kexec IMAGE"),
    }
}

/// Returns the size of a page.
fn page_size() -> usize {
    // SAFETY: it takes any number.
    let size = unsafe { sysconf(PAGE_SIZE) };
    usize::try_from(size).unwrap_or_else(|_| fail("no page size"))
}

fn secret(pages: usize) {
    let page = page_size();
    let bytes = pages * page;
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
    for index in 0..pages {
        // SAFETY: the page belongs to the mapping that was just made.
        unsafe { (memory as *mut u8).add(index * page).write_volatile(1) };
    }
    hold("taken")
}

fn bpf(programs: usize) {
    let mut instructions = [MOVE; 4096];
    instructions[4095] = EXIT;
    let program = Program {
        kind: SOCKET_FILTER,
        instructions: 4096,
        first: instructions.as_ptr(),
        license: c"GPL".as_ptr().cast(),
        none: [0; 4],
    };
    for _ in 0..programs {
        // SAFETY: the kernel reads the program and copies its instructions.
        if unsafe { syscall(BPF, PROG_LOAD, &raw const program, size_of::<Program>()) } < 0 {
            fail("no BPF program");
        }
    }
    hold("loaded")
}

/// Shows by a file that it is done, and holds what it has.
fn hold(done: &str) -> ! {
    println!("{done}");
    std::fs::write(format!("/{done}"), "").unwrap_or_else(|_| fail("no place to say so"));
    loop {
        std::thread::park();
    }
}

fn crash(address: usize) {
    let page = page_size();
    let nothing = vec![0_u8; page];
    let segment = |to, to_bytes| Segment { from: nothing.as_ptr(), bytes: page, to, to_bytes };
    let segments = [segment(address, 20 << 20), segment(address + (40 << 20), page)];
    // SAFETY: the kernel copies a page that stays valid, twice. Nothing makes it crash.
    let result = unsafe { syscall(KEXEC_LOAD, address, segments.len(), segments.as_ptr(), ON_CRASH) };
    if result != 0 {
        fail("not loaded");
    }
    println!("taken");
}

/// Starts a kernel at 128 MiB from the start of QEMU's RAM, as a boot loader does: the address of the device tree in x0.
fn kexec(image: &str) {
    const IMAGE: usize = 0x4800_0000;
    const TREE: usize = 0x5000_0000;
    const START_CODE: usize = 0x5020_0000;
    let read = |path| std::fs::read(path).unwrap_or_else(|_| fail("no such file"));
    let (image, tree) = (read(image), read("/sys/firmware/fdt"));
    // The bytes that the kernel takes in memory are in its header (Linux, Documentation/arch/arm64/booting.rst).
    let header = image.get(16..24).and_then(|bytes| bytes.first_chunk());
    let takes = header.map_or_else(|| fail("no image"), |bytes| u64::from_le_bytes(*bytes)) as usize;
    // ldr x0, #16; ldr x4, #20; br x4; nop; and the two numbers.
    let code = [0x5800_0080_u32, 0x5800_00a4, 0xd61f_0080, 0xd503_201f].map(u32::to_le_bytes).concat();
    let code = [code, TREE.to_le_bytes().to_vec(), IMAGE.to_le_bytes().to_vec()].concat();
    let segment = |from: &[u8], to, to_bytes: usize| Segment {
        from: from.as_ptr(),
        bytes: from.len(),
        to,
        to_bytes: to_bytes.max(from.len()).next_multiple_of(page_size()),
    };
    let segments =
        [segment(&image, IMAGE, takes), segment(&tree, TREE, 0), segment(&code, START_CODE, 0)];
    // SAFETY: the kernel copies bytes that stay valid. Then nothing of this program is left.
    unsafe {
        if syscall(KEXEC_LOAD, START_CODE, segments.len(), segments.as_ptr(), 0_i64) != 0 {
            fail("not loaded");
        }
        syscall(REBOOT, MAGIC[0], MAGIC[1], START);
    }
    fail("not started");
}

fn fail(why: &str) -> ! {
    println!("taker: {why}: {}", std::io::Error::last_os_error());
    exit(1)
}
