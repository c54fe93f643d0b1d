//! The object as the programs of binutils show it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Runs a program of binutils on the object.
fn run(program: &str, arguments: &[&str]) -> String {
    let object = std::env::var("LINMAP_OBJECT").expect("LINMAP_OBJECT is the path of linmap.o");
    let program = format!("aarch64-linux-gnu-{program}");
    let output = Command::new(&program).args(arguments).arg(object).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The global symbols.
pub(crate) struct Symbols {
    pub(crate) needed: BTreeSet<String>,
    pub(crate) exported: BTreeSet<String>,
}

impl Symbols {
    pub(crate) fn read() -> Self {
        let (mut needed, mut exported) = (BTreeSet::new(), BTreeSet::new());
        for line in run("nm", &["--extern-only"]).lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            match words[..] {
                ["U", name] => needed.insert(name.to_owned()),
                [_, "T", name] => exported.insert(name.to_owned()),
                _ => panic!("an unexpected symbol: {line}"),
            };
        }
        Self { needed, exported }
    }
}

/// Returns the section and the type of each relocation.
pub(crate) fn relocations() -> Vec<(String, String)> {
    let (text, mut section, mut found) = (run("objdump", &["--reloc"]), String::new(), Vec::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("RELOCATION RECORDS FOR [") {
            section = name.trim_end_matches("]:").to_owned();
        } else if let Some(kind) = line.split_whitespace().nth(1).filter(|word| word.starts_with("R_")) {
            found.push((section.clone(), kind.to_owned()));
        }
    }
    found
}

/// Returns the sections of constants and of data, and their sizes in bytes.
pub(crate) fn data() -> Vec<(String, u64)> {
    let text = run("objdump", &["--section-headers", "--wide"]);
    let section = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let name =
            words.next().filter(|name| [".rodata", ".data", ".bss"].iter().any(|of| name.starts_with(of)))?;
        Some((name.to_owned(), u64::from_str_radix(words.next()?, 16).ok()?))
    };
    let found: Vec<_> = text.lines().filter_map(section).collect();
    assert!(!found.is_empty(), "{text}");
    found
}

/// An instruction.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) instruction: String,
    /// Registers and numbers; targets of branches are left out.
    pub(crate) operands: Vec<String>,
    /// A branch by a register after an address in this function was computed in it, as a `match` does by a table.
    pub(crate) is_jump_table: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) code: Vec<Line>,
    /// The functions that it calls, or goes on in.
    pub(crate) calls: BTreeSet<String>,
    /// Those of them that are called while its frame is on the stack. It goes on in the others after it has taken that off.
    pub(crate) within: BTreeSet<String>,
    /// True if the last instruction has raised the stack pointer, and if the one before has.
    raises: (bool, bool),
    /// The bytes by which it lowers the stack pointer.
    pub(crate) frame: u64,
}

/// All functions, by name.
pub(crate) struct Object {
    pub(crate) functions: BTreeMap<String, Function>,
}

impl Object {
    pub(crate) fn read() -> Self {
        let mut functions = BTreeMap::new();
        let (mut at, mut own) = (Function::default(), false);
        for line in run("objdump", &["--disassemble", "--reloc", "--no-show-raw-insn"]).lines() {
            if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
                let new = Function { name: name.1.to_owned(), ..Function::default() };
                at.recursion(std::mem::take(&mut own));
                let done = std::mem::replace(&mut at, new);
                functions.insert(done.name.clone(), done);
            } else if line.contains("R_AARCH64_") {
                at.relocation(line);
                own = false;
            } else if let Some((_, code)) = line.split_once(":\t") {
                at.recursion(own);
                // A branch to this function needs no relocation. All others have one, in the next line.
                own = code.starts_with("bl\t") && code.ends_with(&format!("<{}>", at.name));
                at.instruction(code);
            }
        }
        functions.insert(at.name.clone(), at);
        functions.remove("");
        assert!(functions.len() > 20, "there are {} functions", functions.len());
        Self { functions }
    }

    /// Returns the functions that a call may reach, but for what runs after a panic.
    pub(crate) fn reached_from(&self, name: &str) -> Vec<&Function> {
        let (mut found, mut next) = (BTreeSet::new(), vec![name]);
        while let Some(name) = next.pop() {
            if let Some(function) = self.functions.get(name).filter(|function| !function.is_panic())
                && found.insert(name)
            {
                next.extend(function.calls.iter().map(String::as_str));
            }
        }
        found.iter().map(|&name| &self.functions[name]).collect()
    }
}

impl Function {
    /// Returns true for the functions of `core` that begin a panic.
    pub(crate) fn is_panic(&self) -> bool {
        ["panicking", "panic_already", "slice_index_fail", "unwrap_failed", "expect_failed"]
            .iter()
            .any(|part| self.name.contains(part))
    }

    /// Notes the target of a branch.
    fn relocation(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, kind, target] = words[..] else { panic!("a relocation: {line}") };
        if ["R_AARCH64_CALL26", "R_AARCH64_JUMP26"].contains(&kind) {
            let target = target.split('+').next().unwrap_or(target);
            let section = target.strip_prefix(".text.");
            let name = section.map_or(target, |name| name.strip_prefix("unlikely.").unwrap_or(name));
            self.calls.insert(name.to_owned());
            let (_, is_released) = self.raises;
            if kind == "R_AARCH64_CALL26" || !is_released {
                self.within.insert(name.to_owned());
            }
        }
    }

    /// Notes that the last instruction has called this function itself.
    fn recursion(&mut self, calls_itself: bool) {
        if calls_itself {
            self.calls.insert(self.name.clone());
            self.within.insert(self.name.clone());
        }
    }

    fn instruction(&mut self, code: &str) {
        let (instruction, rest) = code.split_once('\t').unwrap_or((code, ""));
        let rest = rest.split("//").next().unwrap_or("");
        // The target of a branch is an address without 0x, and then its symbol.
        let rest = match rest.split_once('<') {
            Some((before, _)) => before.trim_end().rsplit_once([' ', '\t']).map_or("", |(before, _)| before),
            None => rest,
        };
        let words = rest.split(|c: char| !c.is_alphanumeric() && c != '-').filter(|word| !word.is_empty());
        let operands: Vec<String> = words.map(str::to_owned).collect();
        self.frame += lowers(instruction, rest, &operands).unwrap_or_else(|| panic!("{}: {code}", self.name));
        let raises = match instruction {
            "add" => operands.first().is_some_and(|operand| operand == "sp"),
            _ => rest.contains("[sp], #"),
        };
        self.raises = (raises, self.raises.0);
        let into = |line: &Line| line.instruction == "adr" && line.operands.first() == operands.first();
        let computed = self.code.iter().rev().take(6).any(into);
        let is_jump_table = instruction == "br" && computed;
        self.code.push(Line { instruction: instruction.to_owned(), operands, is_jump_table });
    }
}

/// Returns the number of bytes by which an instruction lowers the stack pointer, or `None` if that is not a constant.
fn lowers(instruction: &str, rest: &str, operands: &[String]) -> Option<u64> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match instruction {
        "sub" if operands[0] == "sp" => {
            let bytes = operands.get(2).and_then(|bytes| number(bytes))?;
            Some(if operands.get(3).is_some_and(|shift| shift == "lsl") { bytes << 12 } else { bytes })
        }
        "stp" | "str" if rest.contains("[sp, #-") => operands.last()?.strip_prefix('-').and_then(number),
        // The end of a function, and a frame pointer.
        "add" | "mov" | "ldp" | "ldr" | "sub" | "stp" | "str" => Some(0),
        _ => {
            if operands.first().is_some_and(|operand| operand == "sp") {
                None
            } else {
                Some(0)
            }
        }
    }
}
