//! Cache maintenance by address of many lines: two instructions each, where a loop takes six.

/// Executes an instruction for each line of a range, as [`CacheType::lines`](crate::cpu::CacheType::lines) has them; none if the size
/// of a line is `None`.
macro_rules! each_line {
    ($instruction:literal, $line:expr, $va:expr, $bytes:expr) => {{
        let line: Option<u64> = $line;
        let (first, count) = $crate::platform::CacheType::first_and_count(line, $va, $bytes);
        let (mut at, line) = (first.0, line.unwrap_or(0));
        for _ in 0..count / 8 {
            core::arch::asm!(
                ".rept 8",
                concat!($instruction, ", {at}"),
                "add {at}, {at}, {line}",
                ".endr",
                at = inout(reg) at,
                line = in(reg) line,
                options(nostack, preserves_flags)
            );
        }
        for _ in 0..count % 8 {
            core::arch::asm!(concat!($instruction, ", {at}"), at = in(reg) at, options(nostack, preserves_flags));
            at = at.wrapping_add(line);
        }
    }};
}
