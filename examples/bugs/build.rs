//! Passes the linker script.

fn main() {
    println!("cargo::rerun-if-changed=link.ld");
    if std::env::var("TARGET").is_ok_and(|target| target.starts_with("aarch64")) {
        let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-T{here}/link.ld");
    }
}
