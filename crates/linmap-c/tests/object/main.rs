//! The object for arm64 kernels: what it needs and exports, how it is relocated, which instructions it has, and how deep its
//! calls go. `dev/scripts/test-c.sh` builds it and runs this: LINMAP_OBJECT is its path.

mod disassembly;
mod header;
mod stack;

use disassembly::{Function, Line, Object, Symbols};
use std::collections::BTreeSet;

#[test]
#[ignore = "needs the object: dev/scripts/test-c.sh"]
fn it_needs_and_exports_what_the_header_says() {
    let (symbols, header) = (Symbols::read(), header::functions());
    let needed: BTreeSet<_> = symbols
        .needed
        .iter()
        .filter(|name| !["memcpy", "memset"].contains(&name.as_str()))
        .cloned()
        .collect();
    assert_eq!(needed, header.of_the_kernel);
    assert_eq!(symbols.exported, header.of_the_library);
}

/// A position-independent kernel can relocate it: branches, addresses relative to the code, and 64-bit words of data.
#[test]
#[ignore = "needs the object: dev/scripts/test-c.sh"]
fn it_can_be_placed_anywhere() {
    let in_code = [
        "R_AARCH64_CALL26",
        "R_AARCH64_JUMP26",
        "R_AARCH64_ADR_PREL_PG_HI21",
        "R_AARCH64_ADD_ABS_LO12_NC",
        "R_AARCH64_LDST8_ABS_LO12_NC",
        "R_AARCH64_LDST16_ABS_LO12_NC",
        "R_AARCH64_LDST32_ABS_LO12_NC",
        "R_AARCH64_LDST64_ABS_LO12_NC",
    ];
    let relocations = disassembly::relocations();
    assert!(relocations.len() > 100, "there are {} relocations", relocations.len());
    for (section, kind) in relocations {
        let permitted = match section.starts_with(".text") {
            true => in_code.contains(&kind.as_str()),
            false => ["R_AARCH64_ABS64", "R_AARCH64_PREL32", "R_AARCH64_PREL64"].contains(&kind.as_str()),
        };
        assert!(permitted, "{kind} in {section}");
    }
}

/// The state of a map begins as zeros in the memory of the kernel, not as a copy of a constant. Texts are the places of panics.
#[test]
#[ignore = "needs the object: dev/scripts/test-c.sh"]
fn it_has_no_large_constant() {
    let state = disassembly::data().into_iter().filter(|(name, _)| !name.starts_with(".rodata.str"));
    let large: Vec<_> = state.filter(|(_, bytes)| *bytes > 1024).collect();
    assert!(large.is_empty(), "{large:?}");
}

#[test]
#[ignore = "needs the object: dev/scripts/test-c.sh"]
fn it_uses_no_register_of_floating_point_or_simd() {
    let vector = |operand: &str| {
        let mut chars = operand.chars();
        let kind = chars.next().is_some_and(|c| "bhsdqv".contains(c));
        let number: String = chars.by_ref().take_while(char::is_ascii_digit).collect();
        kind && !number.is_empty() && number.parse().is_ok_and(|n: u32| n < 32)
    };
    for function in Object::read().functions.values() {
        for line in &function.code {
            let found = line.operands.iter().find(|operand| vector(operand));
            assert_eq!(found, None, "{}: {line:?}", function.name);
        }
    }
}

/// Calls through pointers need types that a kernel with control flow integrity checks. There are some in the text of a
/// panic, after which nothing goes on.
#[test]
#[ignore = "needs the object: dev/scripts/test-c.sh"]
fn it_calls_nothing_through_a_pointer() {
    for (name, function) in reached(&Object::read()) {
        let indirect = function
            .code
            .iter()
            .find(|line| ["blr", "br"].contains(&line.instruction.as_str()) && !line.is_jump_table);
        assert!(indirect.is_none(), "{name} reaches {}: {indirect:?}", function.name);
    }
}

/// Returns each function that a call of the library reaches, with the name of the call.
fn reached(object: &Object) -> impl Iterator<Item = (String, &Function)> {
    let calls = header::functions().of_the_library.into_iter();
    calls
        .flat_map(|name| object.reached_from(&name).into_iter().map(move |function| (name.clone(), function)))
}

/// A stack trace of a kernel goes from one frame record to the next. What only a panic reaches comes from `core`, which is
/// built without them.
#[test]
#[ignore = "needs the object: dev/scripts/test-c.sh"]
fn each_function_that_calls_another_has_a_frame_record() {
    let is = |line: &Line, instruction: &str, operands: &[&str]| {
        line.instruction == instruction && line.operands.iter().zip(operands).all(|(a, b)| a == b)
    };
    let points = |line: &Line| is(line, "mov", &["x29", "sp"]) || is(line, "add", &["x29", "sp"]);
    for (_, function) in reached(&Object::read()) {
        let calls = |line: &Line| ["bl", "blr"].contains(&line.instruction.as_str());
        let Some(call) = function.code.iter().position(calls) else { continue };
        let before = &function.code[..call];
        let stored = before.iter().any(|line| is(line, "stp", &["x29", "x30", "sp"]));
        assert!(stored && before.iter().any(points), "{}: no frame record: {before:#?}", function.name);
        let sets = |line: &&Line| line.operands.first().is_some_and(|first| first == "x29" || first == "w29");
        let is_frame = |line: &Line| points(line) || ["stp", "ldp"].contains(&line.instruction.as_str());
        let other = function.code.iter().filter(sets).find(|line| !is_frame(line));
        assert!(other.is_none(), "{}: {other:?}", function.name);
    }
}

/// Prints a call's depth and the path to it. Returns what is wrong if it is deeper than that.
fn too_deep(call: &str, (deepest, path): (u64, stack::Path), most: u64) -> Option<String> {
    println!("{call:24} {deepest:6}");
    for (function, frame) in path {
        println!("    {frame:6} {function}");
    }
    (deepest > most).then(|| format!("{call} takes {deepest} bytes of stack, and {most} are its limit"))
}

#[test]
#[ignore = "needs the object: dev/scripts/test-c.sh"]
fn each_call_takes_a_bounded_stack() {
    let object = Object::read();
    let all = header::functions().of_the_library;
    let wrong =
        all.iter().filter_map(|name| too_deep(name, stack::deepest(&object, name), stack::most(name)));
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

#[test]
#[ignore = "needs the object: dev/scripts/test-c.sh"]
fn a_call_for_one_page_takes_little_of_the_stack() {
    let mut object = Object::read();
    for word in stack::NOT_OF_ONE_PAGE {
        let before = object.functions.len();
        object.functions.retain(|name, _| !name.contains(word));
        assert!(object.functions.len() < before, "{word} is in the name of no function");
    }
    let wrong = ["linmap_map", "linmap_unmap", "linmap_change"].iter().filter_map(|name| {
        let deepest = stack::deepest(&object, name);
        too_deep(&format!("{name}, one page"), deepest, stack::most_of_one_page(name))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}
