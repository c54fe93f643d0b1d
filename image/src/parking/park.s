// Off the upper half and back. While a CPU runs on the 1:1 map, it uses registers, the code here, and memory at
// physical addresses.
//
// Called at their high addresses with all interrupts masked:
//   x0 TTBR0 with the 1:1 map   x1 a table without entries, for either TTBR
//   x2 physical address of Request   x3 the difference of a physical address of the code here to its virtual one
//   x4 the number of the parking
// The empty table is in TTBR1 between the old tables and the new ones, and all of this CPU's TLB entries go while
// it is: none of the old can be left when the first entry changes, and none of the 1:1 map afterwards.

.macro leave_upper_half
    msr     ttbr0_el1, x0
    isb
    adr     x9, 1f
    add     x9, x9, x3
    adr     x10, 9f
    br      x9
1:  msr     ttbr1_el1, x1
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
.endm

.macro return_to_upper_half root
    msr     ttbr1_el1, \root
    isb
    br      x10
9:  msr     ttbr0_el1, x1
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    ret
.endm

.section .text, "ax"
// Stays away until the parking is over. x5: physical address of the word for this CPU's answer that it is away.
.global park_stay_away
park_stay_away:
    leave_upper_half
    stlr    x4, [x5]
2:  ldar    x11, [x2]                       // Request::over
    cmp     x11, x4
    b.hs    3f                              // kernel::rendezvous::is_over
    wfe
    b       2b
3:  ldr     x11, [x2, #{root}]
    return_to_upper_half x11

// Does x5 rewrites, then ends the parking with x6 as the root that all come back to.
.global park_rewrite
park_rewrite:
    leave_upper_half
    add     x11, x2, #{rewrites}
    cbz     x5, 4f
2:  ldp     x12, x13, [x11], #16            // first entry, first that is read
    ldp     x14, x15, [x11], #16            // how many, bits cleared
    ldp     x16, x17, [x11], #16            // bits set, nothing
3:  ldr     x17, [x13], #8
    bic     x17, x17, x15
    orr     x17, x17, x16
    str     x17, [x12], #8
    subs    x14, x14, #1
    b.ne    3b
    subs    x5, x5, #1
    b.ne    2b
4:  str     x6, [x2, #{root}]
    dsb     ish
    stlr    x4, [x2]                        // Request::over
    dsb     ish
    sev
    return_to_upper_half x6
