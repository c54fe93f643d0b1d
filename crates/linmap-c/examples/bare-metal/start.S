/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The first instructions, at EL1 with the MMU off, as QEMU starts a kernel; its loader has cleared .bss. */
    .section .start, "ax"
    .global _start
_start:
    ldr     x0, =stack_top
    mov     sp, x0
    ldr     x0, =vectors
    msr     vbar_el1, x0
    isb
    b       boot

    .text
/* void mmu_on(const struct registers *): MAIR, TCR, TTBR0 and TTBR1; then the MMU and the caches. */
    .global mmu_on
mmu_on:
    ldp     x1, x2, [x0]
    ldp     x3, x4, [x0, #16]
    dsb     sy
    ic      iallu
    tlbi    vmalle1
    dsb     nsh
    msr     mair_el1, x1
    msr     tcr_el1, x2
    msr     ttbr0_el1, x3
    msr     ttbr1_el1, x4
    isb
    mrs     x1, sctlr_el1
    mov     x2, #0x1005         // M, C, I
    orr     x1, x1, x2
    msr     sctlr_el1, x1
    isb
    ret

    .balign 2048
vectors:                        // any exception ends the run
    .rept   16
    b       exception
    .balign 128
    .endr
