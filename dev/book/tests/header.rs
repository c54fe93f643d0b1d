//! `linmap.h` says what the sources of linmap-c say.

use std::path::Path;

use test_support::is_as_stored;

#[test]
fn the_header_agrees_with_the_sources() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/linmap-c");
    let config = cbindgen::Config::from_file(library.join("cbindgen.toml")).expect("cbindgen.toml");
    let bindings = cbindgen::Builder::new().with_config(config).with_src(library.join("src/lib.rs"));
    let mut made = Vec::new();
    bindings.generate().expect("a header").write(&mut made);
    is_as_stored(library.join("linmap.h"), &String::from_utf8(made).expect("text"));
}
