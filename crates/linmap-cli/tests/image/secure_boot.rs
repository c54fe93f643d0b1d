//! Secure boot: firmware starts the image that is signed by a key that it knows, and no other.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::disk::{Disk, EDK2, SECURE};

/// The key for tests that Debian's variables know, and its certificate.
const KEY: &str = "/usr/share/qemu-efi-aarch64/PkKek-1-snakeoil.key";
const CERTIFICATE: &str = "/usr/share/qemu-efi-aarch64/PkKek-1-snakeoil.pem";
const PASSPHRASE: &str = "pass:snakeoil";

fn done(command: &mut Command) {
    let output = command.output().expect("the program is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Signs the image that was built.
fn signed(directory: &Path) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_linmap")).ancestors().nth(2).expect("a target directory");
    let (key, signed) = (directory.join("key"), directory.join("signed.efi"));
    done(Command::new("openssl").args(["pkey", "-in", KEY, "-passin", PASSPHRASE, "-out"]).arg(&key));
    let mut sign = Command::new("sbsign");
    done(
        sign.arg("--key")
            .arg(&key)
            .args(["--cert", CERTIFICATE, "--output"])
            .args([&signed, &built.join("linmap.img")]),
    );
    done(Command::new("sbverify").args(["--cert", CERTIFICATE]).arg(&signed));
    signed
}

/// Of two disks the firmware tries the first, refuses its image, and starts that of the second.
#[test]
fn firmware_starts_what_is_signed_and_nothing_else() {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let signed = signed(directory.path());
    let image = signed.to_str().expect("a plain path");
    let second = Disk::with(&["--args", "run=selftest", "--image", image]);
    let drive = format!("-drive if=virtio,format=raw,readonly=on,file={}", second.path().display());
    let first = Disk::new("run=dump").keep(SECURE).more(&drive);
    let booted = first.boot(EDK2, "acpi=off", &["--cpus", "1"]).expect_well("the signed image");
    assert!(booted.says("failed to load") && booted.says("Access Denied"), "{}", booted.console);
    assert_eq!(booted.at("/tests/selftest/ok"), true);
    assert!(!booted.says("---[ Linear Mapping"), "{}", booted.console);
}
