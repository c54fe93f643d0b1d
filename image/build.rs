//! Passes the linker script and the largest page size of the build to the linker of the image, and of nothing else.

fn main() {
    println!("cargo::rerun-if-changed=image.ld");
    println!("cargo::rerun-if-changed=src/boot/entry.s");
    let target = std::env::var("TARGET").unwrap_or_default();
    if target.starts_with("aarch64") {
        let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        let fixed = |size: &u32| std::env::var_os(format!("CARGO_FEATURE_FIXED_{size}K")).is_some();
        let max_page = [4, 16, 64].into_iter().find(fixed).unwrap_or(64) << 10u32;
        println!("cargo::rustc-link-arg-bins=--defsym=MAX_PAGE={max_page}");
        println!("cargo::rustc-link-arg-bins=-T{here}/image.ld");
        // Generic functions that differ in their types alone are one: the compiler merges only those that call the same.
        println!("cargo::rustc-link-arg-bins=--icf=all");
        // For flatten: the words that hold addresses of the image, which EFI firmware relocates.
        println!("cargo::rustc-link-arg-bins=--emit-relocs");
    }
}
