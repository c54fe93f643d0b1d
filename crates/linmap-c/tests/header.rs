//! `linmap.h` says what the sources say. LINMAP_WRITE=1 writes it anew.

use std::path::Path;

#[test]
fn the_header_agrees_with_the_sources() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml");
    let bindings = cbindgen::Builder::new().with_config(config).with_src(here.join("src/lib.rs"));
    let mut made = Vec::new();
    bindings.generate().expect("a header").write(&mut made);
    let made = String::from_utf8(made).expect("text");
    let path = here.join("linmap.h");
    if std::env::var_os("LINMAP_WRITE").is_some() {
        std::fs::write(&path, &made).expect("the header is written");
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        made == stored,
        "linmap.h is not what the sources say; LINMAP_WRITE=1 cargo test -p linmap-c --test header writes it"
    );
}
