// The first instructions, and the ways to store. Each way makes the page at x0 what that at x1 is, as far as it can, and then stores x3
// to x2, with nothing between.
.arch armv9-a+mops+memtag+sme

.section .start, "ax"
.global _start
_start:
    mov     x0, #0x03330000         // FP, SVE and SME do not trap
    msr     cpacr_el1, x0
    isb
    mov     x0, #15                 // the longest vectors
    msr     zcr_el1, x0
    msr     smcr_el1, x0
    adr     x0, vectors
    msr     vbar_el1, x0
    ldr     x0, =stack_top
    mov     sp, x0
    b       main

.text
.macro way name
    .global \name
    .type   \name, %function
\name:
    add     x4, x0, #4096
.endm

.macro to_the_end
    cmp     x0, x4
    b.ne    1b
    last
.endm

.macro last
    str     x3, [x2]
    ret
.endm

way by_str
1:  ldr     x5, [x1], #8
    str     x5, [x0], #8
    to_the_end

way by_halves                       // a word by two stores
1:  ldr     w5, [x1], #4
    str     w5, [x0], #4
    to_the_end

way by_stp
1:  ldp     x5, x6, [x1], #16
    stp     x5, x6, [x0], #16
    to_the_end

way by_stp_q
1:  ldp     q0, q1, [x1], #32
    stp     q0, q1, [x0], #32
    to_the_end

way by_st1
1:  ld1     {v0.2d-v3.2d}, [x1], #64
    st1     {v0.2d-v3.2d}, [x0], #64
    to_the_end

way by_stlr
1:  ldr     x5, [x1], #8
    stlr    x5, [x0]
    add     x0, x0, #8
    to_the_end

way by_stxr
1:  ldr     x5, [x1], #8
2:  ldxr    x6, [x0]
    stxr    w6, x5, [x0]
    cbnz    w6, 2b
    add     x0, x0, #8
    to_the_end

way by_stxp
1:  ldp     x5, x6, [x1], #16
2:  ldxp    x7, x8, [x0]
    stxp    w7, x5, x6, [x0]
    cbnz    w7, 2b
    add     x0, x0, #16
    to_the_end

way by_cas
1:  ldr     x5, [x1], #8
    ldr     x6, [x0]
    cas     x6, x5, [x0]
    add     x0, x0, #8
    to_the_end

way by_casp
1:  ldp     x6, x7, [x1], #16
    ldp     x8, x9, [x0]
    casp    x8, x9, x6, x7, [x0]
    add     x0, x0, #16
    to_the_end

way by_swp
1:  ldr     x5, [x1], #8
    swp     x5, x5, [x0]
    add     x0, x0, #8
    to_the_end

way by_ldeor                        // the bits that differ
1:  ldr     x5, [x1], #8
    ldr     x6, [x0]
    eor     x5, x5, x6
    ldeor   x5, x5, [x0]
    add     x0, x0, #8
    to_the_end

way by_ldclr                        // only clears bits
1:  ldr     x5, [x1], #8
    mvn     x5, x5
    ldclr   x5, x5, [x0]
    add     x0, x0, #8
    to_the_end

way by_ldset                        // only sets bits
1:  ldr     x5, [x1], #8
    ldset   x5, x5, [x0]
    add     x0, x0, #8
    to_the_end

way by_dc_zva                       // only zeros, as the next two
    mrs     x6, dczid_el0
    and     x6, x6, #15
    mov     x5, #4
    lsl     x5, x5, x6
1:  dc      zva, x0
    add     x0, x0, x5
    to_the_end

way by_dc_gzva
    mrs     x6, dczid_el0
    and     x6, x6, #15
    mov     x5, #4
    lsl     x5, x5, x6
1:  dc      gzva, x0
    add     x0, x0, x5
    to_the_end

way by_stzgm
    mrs     x6, dczid_el0
    and     x6, x6, #15
    mov     x5, #4
    lsl     x5, x5, x6
1:  stzgm   xzr, [x0]
    add     x0, x0, x5
    to_the_end

way by_stzg
1:  stzg    x0, [x0], #16
    to_the_end

way by_set                          // all bytes are the first one
    ldrb    w5, [x1]
    mov     x6, #4096
    setp    [x0]!, x6!, x5
    setm    [x0]!, x6!, x5
    sete    [x0]!, x6!, x5
    last

way by_setg
    ldrb    w5, [x1]
    mov     x6, #4096
    setgp   [x0]!, x6!, x5
    setgm   [x0]!, x6!, x5
    setge   [x0]!, x6!, x5
    last

way by_cpyf
    mov     x5, #4096
    cpyfp   [x0]!, [x1]!, x5!
    cpyfm   [x0]!, [x1]!, x5!
    cpyfe   [x0]!, [x1]!, x5!
    last

way by_cpy
    mov     x5, #4096
    cpyp    [x0]!, [x1]!, x5!
    cpym    [x0]!, [x1]!, x5!
    cpye    [x0]!, [x1]!, x5!
    last

way by_sve_st1d
    ptrue   p0.d
1:  ld1d    {z0.d}, p0/z, [x1]
    st1d    {z0.d}, p0, [x0]
    addvl   x1, x1, #1
    addvl   x0, x0, #1
    to_the_end

way by_sve_scatter
    ptrue   p0.d
    index   z1.d, #0, #8
1:  ld1d    {z0.d}, p0/z, [x1]
    st1d    {z0.d}, p0, [x0, z1.d]
    addvl   x1, x1, #1
    addvl   x0, x0, #1
    to_the_end

way by_sve_str
1:  ldr     z0, [x1]
    str     z0, [x0]
    addvl   x1, x1, #1
    addvl   x0, x0, #1
    to_the_end

way by_sme_st1d                     // streaming mode takes the vectors, of which a caller keeps some
    stp     d8, d9, [sp, #-64]!
    stp     d10, d11, [sp, #16]
    stp     d12, d13, [sp, #32]
    stp     d14, d15, [sp, #48]
    smstart
    ptrue   p0.d
    mov     w12, #0
1:  ld1d    {za0h.d[w12, 0]}, p0/z, [x1]
    st1d    {za0h.d[w12, 0]}, p0, [x0]
    addvl   x1, x1, #1
    addvl   x0, x0, #1
    cmp     x0, x4
    b.ne    1b
    smstop
    ldp     d14, d15, [sp, #48]
    ldp     d12, d13, [sp, #32]
    ldp     d10, d11, [sp, #16]
    ldp     d8, d9, [sp], #64
    last

way by_sme_str
    smstart za
    rdsvl   x5, #1
    mov     w12, #0
1:  ldr     za[w12, 0], [x1]
    str     za[w12, 0], [x0]
    add     x1, x1, x5
    add     x0, x0, x5
    cmp     x0, x4
    b.ne    1b
    smstop  za
    last
