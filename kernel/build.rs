//! Passes the linker script to the image, and to nothing else.

fn main() {
    println!("cargo::rerun-if-changed=image.ld");
    println!("cargo::rerun-if-changed=src/boot/entry.s");
    let target = std::env::var("TARGET").unwrap_or_default();
    if target.starts_with("aarch64") {
        let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-T{here}/image.ld");
    }
}
