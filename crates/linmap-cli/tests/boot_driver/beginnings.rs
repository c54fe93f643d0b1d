//! Mistakes that are found before anything runs, and arguments that are passed on.

use std::process::Command;

use snapbox::{assert_data_eq, str};

use crate::machine::{FAKE_QEMU, GOOD, Machine, assert_exit, boot, document, image, stderr, stdout};

#[test]
fn qemu_is_missing() {
    let output = boot(GOOD, &["--qemu", "/nowhere/qemu"]);
    assert_exit(&output, 2);
    assert_data_eq!(
        stderr(&output),
        str![[r#"
error: cannot start QEMU `/nowhere/qemu`: No such file or directory (os error 2); install it (Debian: qemu-system-arm), or name it with --qemu

"#]]
    );
    let output = boot(GOOD, &["--json", "--qemu", "/nowhere/qemu"]);
    assert_exit(&output, 2);
    let document = document(&output);
    assert_eq!((&document["schema"], &document["ok"]), (&"linmap.boot/1".into(), &false.into()));
    assert!(document["error"].as_str().is_some_and(|error| error.contains("/nowhere/qemu")));
}

#[test]
fn the_named_image_is_missing() {
    for options in [&["--image", "/nowhere/image"][..], &["--json", "--image", "/nowhere/image"]] {
        let output = boot(GOOD, options);
        assert_exit(&output, 2);
        assert_data_eq!(
            stderr(&output),
            str![[r#"
error: no image to boot: `/nowhere/image` is not a file; the image is built for bare metal, from the sources, and `cargo install` does not have it: run `make image` there, which leaves target/linmap.img, then `linmap boot` there, or anywhere with --image PATH or with a copy of it beside `linmap`

"#]]
        );
    }
}

#[test]
fn no_image_was_built() {
    let machine = Machine::new("");
    let linmap = machine.file("bin/linmap");
    std::fs::create_dir(machine.file("bin")).expect("a directory");
    // A link, not a copy: a file that is open for writing cannot be run.
    std::fs::hard_link(env!("CARGO_BIN_EXE_linmap"), &linmap).expect("a link");
    let run = || {
        let mut command = Command::new(&linmap);
        command.args(["boot", "--qemu", FAKE_QEMU]).current_dir(machine.directory.path());
        command.output().expect("linmap runs")
    };
    let output = run();
    assert_exit(&output, 2);
    assert_data_eq!(
        stderr(&output),
        str![[r#"
error: no image to boot: none of `[..]/linmap.img`, `[..]/bin/linmap.img`, `target/linmap.img` is a file; the image is built for bare metal, from the sources, and `cargo install` does not have it: run `make image` there, which leaves target/linmap.img, then `linmap boot` there, or anywhere with --image PATH or with a copy of it beside `linmap`

"#]]
    );
    for place in ["target/linmap.img", "bin/linmap.img", "linmap.img"] {
        std::fs::create_dir_all(machine.file("target")).expect("a directory");
        std::fs::write(machine.file(place), image("echo \"$2\"")).expect("an image");
        assert!(stdout(&run()).ends_with(&format!("{place}\n")), "{}", stdout(&run()));
    }
}

#[test]
fn wrong_arguments_end_in_a_document_too() {
    let wrong: [(&[&str], &str); 8] = [
        (&["--run", "bogus"], "for '--run <LIST>': there is no task bogus; there are bench, contend, cpus, "),
        (&["--run", "dump,selftset"], "did you mean selftest? there is no task selftset; there are bench, "),
        (&["--run", "stress:many"], "stress takes two numbers, both may be left out: stress:OPS:SEED"),
        (&["--run", "dump rodata=off"], "there is no task dump rodata=off; "),
        (&["extra"], "unexpected argument 'extra' found"),
        (&["--ram", "12X"], "invalid value '12X' for '--ram <SIZE>': not a size: write a number"),
        (&["--page-size", "8k"], "[possible values: 4k, 16k, 64k]"),
        (&["--cpus"], "a value is required for '--cpus <N>'"),
    ];
    for (options, reason) in wrong {
        let output = boot(GOOD, &[&["--json"], options].concat());
        assert_exit(&output, 2);
        let document = document(&output);
        assert_eq!((&document["schema"], &document["ok"]), (&"linmap.boot/1".into(), &false.into()));
        assert!(document["error"].as_str().is_some_and(|error| error.contains(reason)), "{document}");
        assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
    }
}

#[test]
fn without_arguments_there_is_help() {
    let linmap = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_linmap")).args(arguments).output().expect("linmap runs")
    };
    let output = linmap(&[]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("Usage: linmap"), "{}", stderr(&output));
    let output = linmap(&["boot", "--help"]);
    assert_exit(&output, 0);
    assert!(stdout(&output).contains("[default: 12G]"), "{}", stdout(&output));
    let tasks = ["stress[:OPERATIONS[:SEED]]  has all CPUs", "overflow-last", "vmalloc80"];
    assert!(tasks.iter().all(|task| stdout(&output).contains(task)), "{}", stdout(&output));
}

#[test]
fn bad_kernel_arguments_reach_the_kernel() {
    let image = r#"echo "$command_line"; echo 'linmap: {"finished":true,"ok":true}'"#;
    let output = boot(image, &["--append", "pagesize=8k nonsense run=bogus"]);
    assert_exit(&output, 0);
    assert!(stdout(&output).contains(" run=dump pagesize=8k nonsense run=bogus\n"), "{}", stdout(&output));
}

#[test]
fn the_named_image_is_something_else() {
    let output = boot(GOOD, &["--image", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("is no arm64 kernel image"), "{}", stderr(&output));
}
