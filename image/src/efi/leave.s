// From the firmware's map to the kernel's entry code: caches and MMU off, as a boot loader leaves them.
//
// leave_firmware: x0 and x1 are start and end of memory to clean, x2 and x3 of more; x4 is the physical address to continue at,
// x5 becomes its x0, x6 its x1. Runs 1:1, with the MMU on. Does not return, and has no stack once the MMU is off.

.section .text, "ax"
.global leave_firmware
leave_firmware:
    msr     daifset, #0xf
    mov     x15, x2
    mov     x16, x3
    mrs     x9, ctr_el0
    ubfx    x9, x9, #16, #4
    mov     x10, #4
    lsl     x9, x10, x9             // the smallest line in bytes
    mov     x14, #3                 // the two ranges, and the code below
1:  sub     x10, x9, #1
    bic     x0, x0, x10
2:  dc      civac, x0
    add     x0, x0, x9
    cmp     x0, x1
    b.lo    2b
    mov     x0, x15
    mov     x1, x16
    adr     x15, mmu_off
    adr     x16, mmu_off_end
    subs    x14, x14, #1
    b.ne    1b
    dsb     sy
    mrs     x9, CurrentEL
    cmp     x9, #(2 << 2)
mmu_off:
    mov     x10, #(1 << 2 | 1)      // C and M
    orr     x10, x10, #(1 << 12)    // I
    b.ne    3f
    mrs     x9, sctlr_el2
    bic     x9, x9, x10
    msr     sctlr_el2, x9
    isb
    tlbi    alle2
    b       4f
3:  mrs     x9, sctlr_el1
    bic     x9, x9, x10
    msr     sctlr_el1, x9
    isb
    tlbi    vmalle1
4:  ic      iallu
    dsb     sy
    isb
    mov     x0, x5
    mov     x1, x6
    br      x4
mmu_off_end:
