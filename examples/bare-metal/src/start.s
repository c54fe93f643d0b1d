// The first instructions, at EL1 with the MMU off, as QEMU starts a kernel; its loader has cleared .bss.
.section .start, "ax"
.global _start
_start:
    mov     x0, #(3 << 20)          // FP and SIMD do not trap
    msr     cpacr_el1, x0
    isb
    ldr     x0, =stack_top
    mov     sp, x0
    b       boot

    .balign 2048
    .global vectors
vectors:                            // any exception ends the run
    .rept   16
    b       fault
    .balign 128
    .endr
