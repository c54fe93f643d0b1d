// From the boot loader to Rust: the Linux arm64 boot protocol, then a map of the image at its high
// address and at its physical one, in a granule that the CPU has.
//
// x0 is the physical address of the device tree. The MMU is off: no stack, no unaligned or exclusive
// access, and memory written here is cleaned from the caches' view before the MMU goes on.
//
// The file is also an EFI application: it begins with MZ, and flatten writes the PE header behind the header of the
// Image. Firmware calls efi_entry (efi/mod.rs), which continues at from_efi of a copy as a loader would have left it.
//
// x19 hand-over of the EFI stub, or 0            x20 device tree, or 0
// x21 image start (physical)   x22 next free table   x23 entry level (2 is EL2)
// x24 page shift    x25 shift of the leaf size   x26 shift of the root entries

.section .head, "ax"
.global _head
_head:
    ccmp    x18, #0, #0xd, pl       // code0: the letters MZ, and no more than flags
    b       start                   // code1
    .quad   0                       // text offset
    .quad   image_size
    .quad   0b1000                  // little endian; may lie anywhere in RAM
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .long   pe_header - _head
pe_header:
    .balign 4096, 0                 // a section of a PE file starts at a page

// From the EFI stub: x1 is the physical address of the hand-over. All else is as at start.
.global from_efi
from_efi:
    mov     x19, x1
    b       1f
start:
    mov     x19, xzr
1:  msr     daifset, #0xf
    mov     x20, x0
    adr     x21, _head
    mrs     x23, CurrentEL
    lsr     x23, x23, #2
    cmp     x23, #2
    b.ne    at_el1
    bl      leave_el2
at_el1:
    msr     spsel, #1
    ldr     x0, ={sctlr_off}
    msr     sctlr_el1, x0
    mov     x0, #(3 << 20)          // FP and SIMD do not trap
    msr     cpacr_el1, x0
    bl      plain_descriptors
    isb

    // A granule: 4K with 2M blocks, else 64K pages, else 16K pages; 48 bits of address in each.
    mrs     x0, id_aa64mmfr0_el1
    ubfx    x1, x0, #28, #4
    mov     x24, #12
    mov     x25, #21
    mov     x26, #39
    ldr     x27, ={tcr_4k}
    cmp     x1, #8
    b.lo    granule_found
    ubfx    x1, x0, #24, #4
    mov     x24, #16
    mov     x25, #16
    mov     x26, #42
    ldr     x27, ={tcr_64k}
    cmp     x1, #8
    b.lo    granule_found
    mov     x24, #14
    mov     x25, #14
    mov     x26, #47
    ldr     x27, ={tcr_16k}
granule_found:
    and     x0, x0, #7              // PARange, at most 48 bits
    cmp     x0, #5
    mov     x1, #5
    csel    x0, x0, x1, lo
    orr     x27, x27, x0, lsl #32

    // No cache line of the loader's may be written back over what is written here.
    adrp    x0, bss_start
    adrp    x1, boot_tables_end
    bl      discard_cached

    // Two roots, then the maps.
    adrp    x22, boot_tables_start
    bl      new_table
    mov     x28, x5                 // lower half
    bl      new_table
    mov     x29, x5                 // upper half

    // A console for early failures. First, so that RAM wins if a loader put the image there.
    ldr     x1, ={early_uart}
    mov     x2, x1
    mov     x3, #1
    mov     x0, x28
    ldr     x4, ={device}
    bl      map
    // The image at its physical address and at its high one.
    ldr     x3, =image_size
    mov     x0, x28
    mov     x1, x21
    mov     x2, x21
    ldr     x4, ={normal}
    bl      map
    ldr     x3, =image_size
    mov     x0, x29
    ldr     x1, =image_start
    mov     x2, x21
    ldr     x4, ={normal}
    bl      map
    // The hand-over, the device tree included, which is at most 4 MiB from a multiple of 2 MiB on.
    mov     x1, x19
    cbnz    x19, map_loaded
    // Else the device tree, if there can be one: 8-byte aligned and not beyond 48 bits, up to 2 MiB.
    cbz     x20, no_tree
    tst     x20, #7
    b.ne    no_tree
    lsr     x0, x20, #48
    cbnz    x0, no_tree
    and     x1, x20, #~0x1fffff
map_loaded:
    mov     x2, x1
    mov     x3, #0x400000
    mov     x0, x28
    ldr     x4, ={normal}
    bl      map
    b       1f
no_tree:
    mov     x20, #0
1:  dsb     sy
    adrp    x0, bss_start
    adrp    x1, boot_tables_end
    bl      discard_cached

    ldr     x0, ={mair}
    msr     mair_el1, x0
    msr     tcr_el1, x27
    msr     ttbr0_el1, x28
    msr     ttbr1_el1, x29
    isb
    tlbi    vmalle1
    ic      iallu
    dsb     nsh
    isb
    ldr     x0, ={sctlr_on}
    ldr     x1, =high
    msr     sctlr_el1, x0
    isb
    br      x1

high:
    ldr     x0, =PER_CPU            // its first element is the boot CPU's
    msr     tpidr_el1, x0
    ldr     x0, =vectors
    msr     vbar_el1, x0
    ldr     x0, =boot_stack_top
    mov     sp, x0
    ldr     x0, =bss_start
    ldr     x1, =bss_end
1:  cmp     x0, x1
    b.hs    2f
    stp     xzr, xzr, [x0], #16
    b       1b
2:  isb
    mov     x29, #0
    mov     x30, #0
    mov     x0, x20
    mov     x1, x21
    mov     x2, x23
    mov     x3, x19
    bl      kernel_main
    b       .

// From EL2 back to its caller at EL1: lets EL1 be AArch64, own its counters, timers, FP and interrupt
// interface. Clobbers x0.
//
// HCR_EL2.E2H stays 1 on some CPUs. Then two registers have another layout, and SCTLR_EL1 has another name.
leave_el2:
    mov     x0, #(1 << 31)
    msr     hcr_el2, x0
    isb
    mrs     x0, hcr_el2
    tbz     x0, #34, 1f
    mov     x0, #(3 << 20)          // CPTR_EL2.FPEN
    msr     cptr_el2, x0
    mov     x0, #(3 << 10)          // CNTHCTL_EL2: EL1PCTEN and EL1PTEN
    msr     cnthctl_el2, x0
    ldr     x0, ={sctlr_off}
    msr     s3_5_c1_c0_0, x0        // SCTLR_EL12
    b       2f
1:  mov     x0, #0x33ff
    msr     cptr_el2, x0
    mov     x0, #3
    msr     cnthctl_el2, x0
    ldr     x0, ={sctlr_off}
    msr     sctlr_el1, x0
2:  msr     mdcr_el2, xzr
    mrs     x0, id_aa64dfr0_el1
    ubfx    x0, x0, #8, #4
    cbz     x0, 1f
    cmp     x0, #0xf
    b.eq    1f
    mrs     x0, pmcr_el0
    ubfx    x0, x0, #11, #5         // all counters belong to EL1
    msr     mdcr_el2, x0
1:  mrs     x0, id_aa64pfr0_el1
    ubfx    x0, x0, #24, #4
    cbz     x0, 1f
    mrs     x0, s3_4_c12_c9_5       // ICC_SRE_EL2
    orr     x0, x0, #1              // system registers, also for EL1
    orr     x0, x0, #8
    msr     s3_4_c12_c9_5, x0
    isb
    // Where there are fine-grained traps (ID_AA64MMFR0.FGT) or HCRX (ID_AA64MMFR1.HCX): none.
1:  mrs     x0, id_aa64mmfr0_el1
    lsr     x0, x0, #56
    cbz     x0, 1f
    msr     s3_4_c1_c1_4, xzr       // HFGRTR_EL2
    msr     s3_4_c1_c1_5, xzr       // HFGWTR_EL2
    msr     s3_4_c1_c1_6, xzr       // HFGITR_EL2
    msr     s3_4_c3_c1_4, xzr       // HDFGRTR_EL2
    msr     s3_4_c3_c1_5, xzr       // HDFGWTR_EL2
1:  mrs     x0, id_aa64mmfr1_el1
    ubfx    x0, x0, #40, #4
    cbz     x0, 1f
    mrs     x0, s3_0_c0_c7_3        // ID_AA64MMFR3_EL1.TCRX: TCR2_EL1 belongs to EL1
    tst     x0, #0xf
    cset    x0, ne
    lsl     x0, x0, #14             // TCR2En
    msr     s3_4_c1_c2_2, x0        // HCRX_EL2
    // The identity that EL1 reads, which is unknown after reset.
1:  mrs     x0, midr_el1
    msr     vpidr_el2, x0
    mrs     x0, mpidr_el1
    msr     vmpidr_el2, x0
    msr     vttbr_el2, xzr
    msr     cntvoff_el2, xzr
    mov     x0, #0x3c5              // EL1h, everything masked
    msr     spsr_el2, x0
    msr     elr_el2, x30
    eret

// Indirect permissions, overlays, 128-bit descriptors and all else in TCR2_EL1: off, where it exists. Clobbers x0.
.global plain_descriptors
plain_descriptors:
    mrs     x0, s3_0_c0_c7_3        // ID_AA64MMFR3_EL1.TCRX
    tst     x0, #0xf
    b.eq    1f
    msr     s3_0_c2_c0_3, xzr       // TCR2_EL1
1:  ret

// x5 = a cleared table, x22 moves on. Clobbers x6, x7.
new_table:
    mov     x5, x22
    mov     x6, #1
    lsl     x6, x6, x24
    add     x22, x22, x6
    mov     x7, x5
1:  stp     xzr, xzr, [x7], #16
    cmp     x7, x22
    b.lo    1b
    ret

// Maps x3 bytes from x2 at x1 with attributes x4 below the root x0, in leaves of 1 << x25 bytes.
// Clobbers x1 to x3 and x5 to x14.
map:
    mov     x14, x30
    and     x1, x1, #0xffffffffffff
    add     x3, x3, x1              // end
    mov     x6, #-1
    lsl     x6, x6, x25
    and     x1, x1, x6
    and     x2, x2, x6
    // The bit that tells a page from a block.
    orr     x8, x4, #2
    cmp     x25, x24
    csel    x4, x8, x4, eq
    sub     x13, x24, #3            // index bits
    mov     x12, #-1
    lsl     x12, x12, x13           // ~ of the index mask
1:  mov     x9, x0
    mov     x10, x26
2:  lsr     x11, x1, x10
    bic     x11, x11, x12
    cmp     x10, x25
    b.eq    4f
    ldr     x8, [x9, x11, lsl #3]
    cbnz    x8, 3f
    bl      new_table
    orr     x8, x5, #3
    str     x8, [x9, x11, lsl #3]
3:  bic     x9, x8, #3
    sub     x10, x10, x13
    b       2b
4:  orr     x8, x2, x4
    str     x8, [x9, x11, lsl #3]
    mov     x8, #1
    lsl     x8, x8, x25
    add     x1, x1, x8
    add     x2, x2, x8
    cmp     x1, x3
    b.lo    1b
    ret     x14

// Drops x0 to x1 from the data caches, to the point of coherency. Clobbers x0, x2, x3.
discard_cached:
    mrs     x2, ctr_el0
    ubfx    x2, x2, #16, #4
    mov     x3, #4
    lsl     x2, x3, x2              // the smallest line in bytes
1:  dc      ivac, x0
    add     x0, x0, x2
    cmp     x0, x1
    b.lo    1b
    dsb     sy
    ret

// Changes granule and tables: x0 TTBR0, x1 TTBR1, x2 TCR, x3 MAIR. Runs at its physical address, mapped 1:1 by
// the old and the new TTBR0; touches no memory; returns to the high address in x30. It lies in one page, of which it has
// less than 64 bytes.
.balign 64
.global switch_tables
switch_tables:
    mrs     x5, sctlr_el1
    bic     x4, x5, #1
    msr     sctlr_el1, x4
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    msr     mair_el1, x3
    msr     tcr_el1, x2
    msr     ttbr0_el1, x0
    msr     ttbr1_el1, x1
    isb
    msr     sctlr_el1, x5
    isb
    ret

// Probes: accesses that may fault. C functions that return two words, the value and 0, or the syndrome
// and 1: the vectors know their instructions.
.global probe_read, probe_write, probe_execute
probe_read:
    ldr     x0, [x0]
probe_done:
    mov     x1, #0
    ret
probe_write:
    str     x1, [x0]
    b       probe_done
probe_execute:
    stp     x29, x30, [sp, #-16]!
    blr     x0
probe_returned:
    mov     x1, #0
probe_return:
    ldp     x29, x30, [sp], #16
    ret

// A synchronous exception of EL1 on its own stack pointer: a BRK may be anywhere, and changes no register; a
// probe's fault returns to its caller, which expects x0 and x1 to change; a report needs neither.
take_synchronous:
    msr     tpidr_el0, x0           // unused: there is no EL0
    mrs     x0, esr_el1
    lsr     x0, x0, #26
    cmp     x0, #0x3c               // the flags are in SPSR
    mrs     x0, tpidr_el0
    b.eq    take_breakpoint
    mrs     x0, elr_el1
    ldr     x1, =probe_read
    cmp     x0, x1
    b.eq    1f
    ldr     x1, =probe_write
    cmp     x0, x1
    b.eq    1f
    // A call that faults on its first instruction has the return address of the probe.
    mrs     x1, far_el1
    cmp     x0, x1
    b.ne    2f
    mrs     x1, esr_el1
    lsr     x1, x1, #26
    cmp     x1, #0x21
    b.ne    2f
    ldr     x1, =probe_returned
    cmp     x30, x1
    b.ne    2f
    ldr     x0, =probe_return
    msr     elr_el1, x0
    b       3f
1:  msr     elr_el1, x30
3:  mrs     x0, esr_el1
    mov     x1, #1
    eret
2:  mov     x0, #4
    b       report_exception

// Registers that a function may change are saved on the stack of the interrupted code, with those that another exception
// would change, such as that of a probe: `Registers` in exceptions.rs. A compiler that may use SIMD registers does.
.macro save
    stp     x29, x30, [sp, #-192]!
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    stp     x2, x3, [sp, #32]
    stp     x4, x5, [sp, #48]
    stp     x6, x7, [sp, #64]
    stp     x8, x9, [sp, #80]
    stp     x10, x11, [sp, #96]
    stp     x12, x13, [sp, #112]
    stp     x14, x15, [sp, #128]
    stp     x16, x17, [sp, #144]
    mrs     x0, elr_el1
    mrs     x1, spsr_el1
    stp     x18, x0, [sp, #160]
    str     x1, [sp, #176]
    .if     {simd}
    mrs     x0, fpcr
    mrs     x1, fpsr
    stp     x0, x1, [sp, #-16]!
    .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    str     q\n, [sp, #-16]!
    .endr
    .endif
.endm

.macro restore
    .if     {simd}
    .irp    n, 31,30,29,28,27,26,25,24,23,22,21,20,19,18,17,16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0
    ldr     q\n, [sp], #16
    .endr
    ldp     x0, x1, [sp], #16
    msr     fpcr, x0
    msr     fpsr, x1
    .endif
    ldr     x1, [sp, #176]
    ldp     x18, x0, [sp, #160]
    msr     elr_el1, x0
    msr     spsr_el1, x1
    ldp     x0, x1, [sp, #16]
    ldp     x2, x3, [sp, #32]
    ldp     x4, x5, [sp, #48]
    ldp     x6, x7, [sp, #64]
    ldp     x8, x9, [sp, #80]
    ldp     x10, x11, [sp, #96]
    ldp     x12, x13, [sp, #112]
    ldp     x14, x15, [sp, #128]
    ldp     x16, x17, [sp, #144]
    ldp     x29, x30, [sp], #192
.endm

// An interrupt of EL1 on its own stack pointer.
take_interrupt:
    save
    bl      interrupt
    restore
    eret

// A BRK, which may be a kprobe's: Rust returns true if it is, and sets where to continue.
take_breakpoint:
    save
    mov     x0, x29
    bl      breakpoint
    cbz     w0, 1f
    restore
    eret
1:  restore
    mov     x0, #4
    b       report_exception

// Any other exception ends the run: its kind, and the registers at that moment, go to Rust on a stack
// of their own.
.macro vector kind
    .balign 128
    .if \kind == 4
    b       take_synchronous
    .elseif \kind == 5
    b       take_interrupt
    .else
    mov     x0, #\kind
    b       report_exception
    .endif
.endm

    .balign 2048
vectors:
    .irp    kind, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vector  \kind
    .endr

report_exception:
    // One CPU reports, and a fault in its report is reported too; others wait for the end.
    ldr     x1, =reporting
    mrs     x2, tpidr_el1
1:  ldaxr   x3, [x1]
    cmp     x3, x2
    b.eq    3f
    cbnz    x3, 2f
    stxr    w3, x2, [x1]
    cbnz    w3, 1b
    b       3f
2:  wfe
    b       2b
3:  ldr     x1, =emergency_stack_top
    mov     x2, sp
    mov     sp, x1
    mov     x1, x30
    mov     x29, #0
    bl      exception
    b       .

// The CPU that is on the emergency stack, by its TPIDR_EL1.
.pushsection .bss.reporting, "aw", %nobits
    .balign 8
reporting:
    .skip   8
.popsection

// Markers at both ends of each measured window, for tracers to find by symbol.
.macro marker name
    .balign 8
    .global \name
    .type   \name, %function
\name:
    ret
    .size   \name, . - \name
.endm
    marker  mark_create_begin
    marker  mark_create_end
    marker  mark_park_begin
    marker  mark_park_end
    marker  mark_repaint_begin
    marker  mark_repaint_end

    .ltorg
