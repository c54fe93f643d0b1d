//! `crates/linmap-cli/tools/`: the command in a real gdb and a real drgn. `dev/scripts/setup.sh` installs both.

use std::path::Path;
use std::process::{Command, Output};

use crate::core::{Core, debian};

fn tools() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tools").to_owned()
}

/// Runs these commands in gdb, on a core.
fn gdb(core: &Core, commands: &[&str]) -> Output {
    let mut command = Command::new("gdb-multiarch");
    command.args(["-nx", "-batch", "-ex"]).arg(format!("source {}/linmap_gdb.py", tools()));
    command.arg("-ex").arg(format!("core-file {}", core.path().display()));
    for line in commands {
        command.args(["-ex", line]);
    }
    command
        .env("LINMAP", env!("CARGO_BIN_EXE_linmap"))
        .output()
        .expect("gdb-multiarch: dev/scripts/setup.sh installs it")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn gdb_has_the_command() {
    let core = debian().core(|_| {});
    let page = debian().linear(crate::core::RAM);
    // The address is an expression of gdb.
    let walk = format!("linmap walk {}+{}", page - 0x1000, 0x1000);
    let ran = gdb(&core, &["linmap stat", &walk, "linmap walk _stext"]);
    let shown = text(&ran.stdout);
    assert!(shown.contains("Linear map: 256M, 4K granule"), "{shown}{}", text(&ran.stderr));
    assert!(shown.contains(&format!("{page:#x} -> 0x40000000")), "{shown}");
    assert!(shown.contains("0xffff800008010000 -> 0x40200000"), "a symbol that gdb does not know: {shown}");
    // Another SOURCE than the core.
    let other = core.file("missing");
    let line = format!("set linmap-source {}", other.display());
    let refused = text(&gdb(&core, &[&line, "linmap stat"]).stderr);
    assert!(refused.contains("missing") && refused.contains("`linmap stat` failed"), "{refused}");
    assert!(text(&gdb(&core, &["linmap boot"]).stderr).contains("the commands are stat, dump, check, walk"));
}

/// Runs a script in drgn, whose own program is that of an empty process.
fn drgn(core: &Path, script: &str) -> Output {
    let file = core.with_file_name("script.py");
    let path = core.display();
    let head = format!("import drgn\nfrom linmap_drgn import *\nprog = drgn.Program()\ncore = '{path}'\n");
    std::fs::write(&file, head + script).expect("room");
    // Debian's drgn belongs to Debian's Python, whose modules `drgn` itself finds.
    let python = ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        Command::new(python).args(["-c", "import drgn"]).output().is_ok_and(|ran| ran.status.success())
    });
    let mut command = Command::new(python.expect("drgn: dev/scripts/setup.sh installs python3-drgn"));
    command.arg(file).env("PYTHONPATH", tools()).env("LINMAP", env!("CARGO_BIN_EXE_linmap"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").output().expect("Python runs")
}

#[test]
fn drgn_has_the_documents() {
    let core = debian().core(|_| {});
    let stat = core.run("stat", &["--json"]).exits(0).document();
    let script = "print(stat(prog, source=core)['linear']['tlb_entries'])\n\
                  print(walk(prog, '_stext', source=core)['translation']['pa'])\n\
                  found = drgn.Object(prog, prog.int_type('unsigned long', 8, False, 'little'), 0xffff800008010000)\n\
                  print(walk(prog, found, source=core)['region'])\n\
                  print(check(prog, source=core)['count'])\n\
                  try:\n    stat(prog, source=core + '-missing')\nexcept LinmapError as error:\n    print('No such file' in str(error))\n\
                  try:\n    stat(prog)\nexcept LinmapError as error:\n    print('source=' in str(error) or 'core' in str(error))\n";
    let ran = drgn(&core.path(), script);
    let expected = format!("{}\n0x40200000\nkernel\n0\nTrue\nTrue\n", stat["linear"]["tlb_entries"]);
    assert_eq!(text(&ran.stdout), expected, "{}", text(&ran.stderr));
}
