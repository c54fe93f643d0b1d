//! Passes the linker script, which is that of another kernel without permissions.

const LINK: &str = "../../../examples/bugs/link.ld";

fn main() {
    println!("cargo::rerun-if-changed={LINK}");
    println!("cargo::rerun-if-changed=src/ways.s");
    if std::env::var("TARGET").is_ok_and(|target| target.starts_with("aarch64")) {
        let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-T{here}/{LINK}");
    }
}
