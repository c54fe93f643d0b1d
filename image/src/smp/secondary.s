// From PSCI CPU_ON to Rust on every CPU but the boot CPU: it reports its features, waits to be let in, and enters the
// map that the others use.
//
// x0 is the physical address of its slot (`Slot` in smp/slot.rs): a report, which it writes, and orders, which
// it reads. The MMU is off, so neither goes through its caches; the boot CPU maintains its own.

// A CPU of a spin table comes to spin_start with nothing, and finds its slot in SPIN_CALL (smp/spin_table.rs).

.section .text, "ax"
.global spin_start
spin_start:
    msr     daifset, #0xf
    mrs     x1, mpidr_el1
    ldr     x2, ={affinity}
    and     x1, x1, x2
    adrp    x3, SPIN_CALL
    add     x3, x3, :lo12:SPIN_CALL
1:  ldr     x2, [x3]                // whose the slot is
    cmp     x2, x1
    b.eq    2f
    wfe
    b       1b
2:  dmb     sy
    ldr     x0, [x3, #8]
    dmb     sy
    ldr     x2, [x3]                // it still is
    cmp     x2, x1
    b.ne    1b

.global secondary_start
secondary_start:
    msr     daifset, #0xf
    mov     x20, x0
    mrs     x0, CurrentEL
    lsr     x0, x0, #2
    cmp     x0, #2
    b.ne    1f
    bl      leave_el2
1:  msr     spsel, #1
    ldr     x0, ={sctlr_off}
    msr     sctlr_el1, x0
    mov     x0, #(3 << 20)          // FP and SIMD do not trap
    msr     cpacr_el1, x0
    bl      plain_descriptors
    isb

    mrs     x1, midr_el1
    mrs     x2, id_aa64isar0_el1
    mrs     x3, id_aa64mmfr0_el1
    mrs     x4, id_aa64mmfr1_el1
    mrs     x5, id_aa64mmfr2_el1
    mrs     x6, s3_0_c0_c7_3        // ID_AA64MMFR3_EL1
    mrs     x7, id_aa64pfr1_el1
    mrs     x8, id_aa64dfr0_el1
    mrs     x9, ctr_el0
    stp     x1, x2, [x20, #{features}]
    stp     x3, x4, [x20, #{features} + 16]
    stp     x5, x6, [x20, #{features} + 32]
    stp     x7, x8, [x20, #{features} + 48]
    str     x9, [x20, #{features} + 64]
    dsb     sy
    mov     x0, #1
    str     x0, [x20, #{arrived}]
    dsb     sy
    sev

    add     x20, x20, #{orders}
2:  ldr     x0, [x20, #{verdict}]
    cbnz    x0, 3f
    wfe
    b       2b
3:  dmb     sy
    cmp     x0, #{admitted}
    b.ne    4f

    // The last use of the slot by a CPU that stays. What is loaded here comes from this CPU's orders alone.
    ldp     x1, x2, [x20, #{tables}]        // TTBR0, TTBR1
    ldp     x3, x4, [x20, #{tables} + 16]   // TCR, MAIR
    ldp     x5, x6, [x20, #{stack}]         // stack, per-CPU data
    adr     x21, 7f                         // physical
    ic      iallu
    tlbi    vmalle1
    dsb     nsh
    msr     mair_el1, x4
    msr     tcr_el1, x3
    msr     ttbr0_el1, x1
    msr     ttbr1_el1, x2
    isb
    ldr     x0, ={sctlr_on}
    ldr     x7, =secondary_high
    msr     sctlr_el1, x0
    isb
    br      x7

secondary_high:
    ldr     x0, =vectors
    msr     vbar_el1, x0
    isb
    mov     sp, x5
    msr     tpidr_el1, x6
    mov     x29, #0
    mov     x30, #0
    bl      secondary_main

    // It leaves again, by the 1:1 map. Its stack and the map may be gone as soon as it is off, or says that it is asleep.
    br      x21
7:  ldr     x0, ={sctlr_off}
    msr     sctlr_el1, x0
    isb

    // Refused, or leaving: off again, or asleep if the firmware has no such call.
4:  ldr     x1, [x20, #{conduit}]
    ldr     w0, ={cpu_off}
    cmp     x1, #{by_smc}
    b.hi    6f
    b.eq    5f
    hvc     #0
    b       6f
5:  smc     #0
6:  sub     x1, x20, #{orders}
    mov     x0, #{asleep}
    str     x0, [x1, #{arrived}]
    dsb     sy
    sev
8:  wfi
    b       8b

    .ltorg
