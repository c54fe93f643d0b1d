//! The innermost loops of functions, found in what llvm-objdump prints.

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    /// Its function, without what is before the module; with a number if the function has several loops.
    pub(super) name: String,
    /// Its instructions. Branches go to the label `loop`.
    pub(super) body: Vec<String>,
    /// The bytes that an iteration loads or stores, whichever are more.
    pub(super) bytes: u64,
}

impl Loop {
    fn is_like(&self, other: &Self) -> bool {
        (&self.name, self.body.len(), self.bytes) == (&other.name, other.body.len(), other.bytes)
    }
}

/// An instruction and its address.
struct Instruction<'t> {
    at: u64,
    text: &'t str,
}

/// Returns the innermost loops of all functions of a module.
pub(super) fn loops(disassembly: &str, module: &str) -> Result<Vec<Loop>, String> {
    let within = format!("{}::", module.trim_end_matches("::"));
    let mut found = Vec::new();
    for (symbol, instructions) in functions(disassembly) {
        let Some(at) = symbol.find(&within) else { continue };
        let name = plain(&symbol[at + within.len()..]);
        let bodies = innermost(&instructions);
        if bodies.is_empty() {
            return Err(format!("{within}{name} has no loop"));
        }
        let several = bodies.len() > 1;
        for (n, body) in (1usize..).zip(bodies) {
            let name = if several { format!("{name} {n}") } else { name.to_owned() };
            let new = Loop { name, bytes: bytes(&body), body };
            // A function that is compiled for several types has its loops in other registers.
            if !found.iter().any(|other| new.is_like(other)) {
                found.push(new);
            }
        }
    }
    if found.is_empty() { Err(format!("the image has no function of {module}")) } else { Ok(found) }
}

/// Splits a disassembly into functions, each with its name.
fn functions(disassembly: &str) -> Vec<(&str, Vec<Instruction<'_>>)> {
    let mut functions = Vec::<(&str, Vec<Instruction<'_>>)>::new();
    for line in disassembly.lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            functions.push((name, Vec::new()));
        } else if let (Some((at, text)), Some(last)) = (line.split_once(':'), functions.last_mut())
            && let Ok(at) = u64::from_str_radix(at.trim(), 16)
        {
            let text = text.split("//").next().unwrap_or_default().trim();
            last.1.push(Instruction { at, text });
        }
    }
    functions
}

/// Returns a name without the hash that compilers add, and without the type of a method.
fn plain(name: &str) -> &str {
    let plain = match name.rsplit_once("::h") {
        Some((plain, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => plain,
        _ => name,
    };
    plain.rsplit_once("$GT$::").map_or(plain, |(_, method)| method)
}

/// Returns the bodies of loops in which no other is: from the target of a branch back to the branch.
fn innermost(instructions: &[Instruction<'_>]) -> Vec<Vec<String>> {
    let index = |address: u64| instructions.binary_search_by_key(&address, |i| i.at).ok();
    let back = instructions.iter().enumerate().filter_map(|(end, instruction)| {
        let start = index(target(instruction.text)?)?;
        (start <= end).then_some((start, end))
    });
    let all: Vec<(usize, usize)> = back.collect();
    // Of two branches back to one place, as by `continue`, the later one ends the loop.
    let is_inner = |&&(start, end): &&(usize, usize)| {
        let has = |&(s, e): &(usize, usize)| if s == start { e > end } else { start < s && e <= end };
        !all.iter().any(has)
    };
    let body = |&(start, end): &(usize, usize)| {
        instructions[start..=end].iter().map(|i| assembled(i.text)).collect()
    };
    all.iter().filter(is_inner).map(body).collect()
}

/// Returns where a branch within functions goes.
fn target(text: &str) -> Option<u64> {
    let (name, rest) = text.split_once(char::is_whitespace)?;
    if !(name == "b" || name.starts_with("b.") || ["cbz", "cbnz", "tbz", "tbnz"].contains(&name)) {
        return None;
    }
    let operand = rest.split('<').next()?.rsplit(',').next()?.trim();
    u64::from_str_radix(operand.strip_prefix("0x")?, 16).ok()
}

/// Returns an instruction as an assembler takes it: a branch goes to the label `loop`.
fn assembled(text: &str) -> String {
    let plain = text.split('<').next().unwrap_or_default().trim().replace('\t', " ");
    match plain.rfind("0x").filter(|_| target(text).is_some()) {
        Some(operand) => format!("{}loop", &plain[..operand]),
        None => plain,
    }
}

/// Returns the bytes that instructions load or store, whichever are more.
fn bytes(body: &[String]) -> u64 {
    let sum = |names: [&str; 2]| -> u64 {
        let is = |text: &&String| names.iter().any(|name| text.starts_with(name));
        body.iter().filter(is).map(|text| accessed(text)).sum()
    };
    sum(["ld", "cas"]).max(sum(["st", "swp"]))
}

/// Returns the bytes that one load or store accesses: those of its registers, which are before the address.
fn accessed(text: &str) -> u64 {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let registers = rest.split('[').next().unwrap_or_default();
    let registers = registers.split([',', '{', '}', ' ']).filter(|register| !register.is_empty());
    let size = |register: &str| match register.as_bytes()[0] {
        _ if name.ends_with('b') => 1,
        _ if name.ends_with('h') => 2,
        b'q' => 16,
        b'v' if register.ends_with("1d") || register.ends_with(".8b") => 8,
        b'v' => 16,
        b'x' | b'd' => 8,
        b'w' | b's' => 4,
        _ => 0,
    };
    let exclusive = name.starts_with("stx") || name.starts_with("stlx");
    registers.skip(exclusive.into()).map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
/target/kernel:\tfile format elf64-littleaarch64

Disassembly of section .text:

ffffffff80001000 <linmap::platform::arm64::bulk::fill::h24468e558a826751>:
ffffffff80001000:      \tcbz\tx1, 0xffffffff80001020 <linmap::platform::arm64::bulk::fill::h24468e558a826751+0x20>
ffffffff80001004:      \tmov\tx9, #0x10      // =16
ffffffff80001008:      \tstp\tx2, x3, [x0], #16
ffffffff8000100c:      \tsubs\tx1, x1, #2
ffffffff80001010:      \tb.hi\t0xffffffff80001008 <linmap::platform::arm64::bulk::fill::h24468e558a826751+0x8>
ffffffff80001014:      \tsubs\tx9, x9, #1
ffffffff80001018:      \tb.ne\t0xffffffff80001004 <linmap::platform::arm64::bulk::fill::h24468e558a826751+0x4>
ffffffff8000101c:      \tbl\t0xffffffff80001000 <linmap::platform::arm64::bulk::fill::h24468e558a826751>
ffffffff80001020:      \tret

ffffffff80001024 <linmap::build::other>:
ffffffff80001024:      \tldr\tx0, [x1]
ffffffff80001028:      \ttbnz\tw0, #0x3, 0xffffffff80001024 <linmap::build::other>
ffffffff8000102c:      \tldp\tx2, x3, [x1], #16
ffffffff80001030:      \tcbnz\tx3, 0xffffffff8000102c <linmap::build::other+0x8>
ffffffff80001034:      \tb\t0xffffffff80001000 <linmap::platform::arm64::bulk::fill::h24468e558a826751>

ffffffff80001038 <linmap::alias::none>:
ffffffff80001038:      \tret
";

    #[test]
    fn the_innermost_loop_is_found() {
        let found = loops(TEXT, "platform::arm64::bulk").unwrap();
        let body = ["stp x2, x3, [x0], #16", "subs x1, x1, #2", "b.hi loop"].map(str::to_owned).to_vec();
        assert_eq!(found, [Loop { name: "fill".to_owned(), body, bytes: 16 }]);
    }

    #[test]
    fn several_loops_have_numbers() {
        let found = loops(TEXT, "linmap::build").unwrap();
        let seen: Vec<_> =
            found.iter().map(|l| (l.name.as_str(), l.bytes, l.body.last().unwrap().as_str())).collect();
        assert_eq!(seen, [("other 1", 8, "tbnz w0, #0x3, loop"), ("other 2", 16, "cbnz x3, loop")]);
    }

    #[test]
    fn a_method_is_named_without_its_type_and_once() {
        let method = "_$LT$impl$u20$linmap..platform..slots..Slots$LT$M$GT$$GT$::fill";
        let fill = TEXT.replace("bulk::fill", &format!("bulk::{method}"));
        let again = fill.replace("24468e558a826751", "24468e558a826752").replace("x2, x3", "x4, x5");
        let found = loops(&format!("{fill}\n{again}"), "platform::arm64::bulk").unwrap();
        assert_eq!(found.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["fill"]);
    }

    #[test]
    fn what_is_not_found_is_an_error() {
        assert_eq!(loops(TEXT, "linmap::alias").unwrap_err(), "linmap::alias::none has no loop");
        assert_eq!(loops(TEXT, "linmap::share").unwrap_err(), "the image has no function of linmap::share");
        // The name of a module is not the beginning of another.
        assert!(loops(TEXT, "platform::arm64::bul").is_err());
    }

    #[test]
    fn bytes_are_those_of_the_registers() {
        let cases = [
            ("ldp x0, x1, [x2]", 16),
            ("stp q0, q1, [x2], #32", 32),
            ("ldr x0, [x2, x3, lsl #3]", 8),
            ("str w0, [x2]", 4),
            ("ldrb w0, [x2]", 1),
            ("st1 { v0.2d, v1.2d, v2.2d, v3.2d }, [x0], #64", 64),
            ("ld4 { v0.8h, v1.8h, v2.8h, v3.8h }, [x0]", 64),
            ("stxr w3, x0, [x2]", 8),
            ("add x0, x1, x2", 0),
        ];
        for (text, bytes_of) in cases {
            assert_eq!(bytes(&[text.to_owned()]), bytes_of, "{text}");
        }
        assert_eq!(bytes(&["ldp x0, x1, [x2]".to_owned(), "str x0, [x2]".to_owned()]), 16);
    }
}
