//! `linmap map`: the picture has every byte of the map, and says what each column is.

use std::path::Path;
use std::process::Command;

use crate::core::{Kernel, RAM, debian};
use crate::run::linmap;

/// Returns the texts on hover.
fn hovers(svg: &str) -> Vec<&str> {
    svg.split("<title>").skip(1).map(|rest| rest.split("</title>").next().expect("its end")).collect()
}

/// Returns the bytes of a class on hover, all columns together.
fn bytes(svg: &str, class: &str) -> u64 {
    let lines = hovers(svg).into_iter().flat_map(str::lines);
    let sizes = lines.filter_map(|line| line.strip_prefix(class)?.strip_prefix(": "));
    sizes
        .map(|size| match size.split_at(size.len() - 1) {
            (number, "K") => number.parse::<u64>().expect("whole") << 10,
            (number, "M") => number.parse::<u64>().expect("whole") << 20,
            (number, "G") => number.parse::<u64>().expect("whole") << 30,
            _ => panic!("{size}"),
        })
        .sum()
}

#[test]
fn the_picture_has_every_byte() {
    let page = debian().linear(RAM + (80 << 20));
    let kernel = Kernel { level: 2, ..debian() };
    let core = kernel.core(|_| {});
    let (svg, html) = (core.file("map.svg"), core.file("map.html"));
    let files = [&svg, &html].map(|file| file.to_str().expect("UTF-8").to_owned());
    core.run("map", &["--svg", &files[0], "--html", &files[1]]).exits(0);
    let picture = std::fs::read_to_string(&svg).expect("a picture");
    assert_eq!((bytes(&picture, "2M"), bytes(&picture, "4K")), (192 << 20, 64 << 20));
    assert!(picture.contains("256M, by leaf size"), "{picture}");
    let owner = |class: &str| {
        core.run("map", &["--svg", &files[0], "--by", "owner"]).exits(0);
        bytes(&std::fs::read_to_string(&svg).expect("a picture"), class)
    };
    // 256K of a module, 2M of code, and each table that was read.
    assert_eq!(
        (owner("code of modules or BPF [address]"), owner("kernel code [address]")),
        (256 << 10, 2 << 20)
    );
    let stat = core.run("stat", &["--json"]).exits(0).document();
    let tables = stat["linear"]["tables"].as_u64().expect("a number") << 12;
    assert!(
        (tables..tables + (64 << 10)).contains(&owner("page tables [address]")),
        "{}",
        owner("page tables [address]")
    );
    core.run("map", &["--svg", &files[0], "--by", "permission"]).exits(0);
    let picture = std::fs::read_to_string(&svg).expect("a picture");
    assert_eq!(bytes(&picture, "read-only"), (4 << 20) + (256 << 10));
    let html = std::fs::read_to_string(&html).expect("a page");
    assert_eq!((html.matches("<svg ").count(), html.matches("type=\"radio\"").count()), (3, 3));
    assert!(!html.contains("<script") && !html.contains("http://localhost"));
    // An invalid page is seen.
    let kept = debian().core(|tables| tables.change(page, |word| word & !1));
    kept.run("map", &["--svg", &files[0]]).exits(0);
    assert_eq!(bytes(&std::fs::read_to_string(&svg).expect("a picture"), "present-invalid"), 4096);
}

/// A page that is hidden from the linear map has the owner that its other mapping tells, or is unknown.
#[test]
fn hidden_pages_have_owners() {
    let kernel = debian();
    let (data, taken) = (crate::core::IMAGE + 0x60_0000, RAM + (80 << 20));
    let core = kernel.core(|tables| {
        for pa in [data, taken] {
            tables.change(kernel.linear(pa), |word| word & !1);
        }
    });
    let map = core.run("map", &["--by", "owner", "--json"]).exits(0).document();
    assert_eq!((&map["by"], &map["invalid_bytes"]), (&"owner".into(), &8192.into()));
    let at = |pa: u64| {
        let number = |text: &serde_json::Value| {
            u64::from_str_radix(&text.as_str().expect("an address")[2..], 16).expect("hex")
        };
        let va = kernel.linear(pa);
        let pieces = map["pieces"].as_array().expect("pieces").iter();
        let mut here = pieces.filter(|piece| {
            let start = number(&piece["va"]);
            start <= va && va - start < piece["bytes"].as_u64().expect("a number")
        });
        let piece = here.next().expect("a piece");
        (piece["class"].as_str().expect("a name").to_owned(), piece["by"].as_str().map(str::to_owned))
    };
    assert_eq!(at(data), ("kernel data".to_owned(), Some("address".to_owned())));
    assert_eq!(at(taken), ("present-invalid".to_owned(), None));
    assert_eq!(at(taken + 4096), ("unknown".to_owned(), None));
}

#[test]
fn other_addresses_have_pictures_as_well() {
    let core = debian().core(|_| {});
    let file = core.file("map.svg");
    let svg = file.to_str().expect("UTF-8");
    core.run("map", &["--region", "modules", "--svg", svg]).exits(0);
    let picture = std::fs::read_to_string(&file).expect("a picture");
    assert_eq!(bytes(&picture, "4K"), 256 << 10);
    assert!(hovers(&picture)[0].starts_with("0xffff800000000000-"), "{:?}", hovers(&picture));
    core.run("map", &["--range", "0xffff700000000000-0xffff700000001000", "--svg", svg])
        .exits(2)
        .says("no picture");
    core.run("map", &[]).exits(2).says("--svg");
    core.run("map", &["--svg", "/nonexistent/map.svg"])
        .exits(2)
        .says("`/nonexistent/map.svg` cannot be written");
    // A text has no output addresses.
    let text = core.file("text");
    std::fs::write(&text, core.run("dump", &[]).exits(0).0.stdout).expect("room");
    let text = text.to_str().expect("UTF-8");
    linmap(&["map", text, "--by", "owner", "--svg", svg]).exits(2).says("owners are not known");
    let page = core.file("map.html");
    let html = page.to_str().expect("UTF-8");
    linmap(&["map", text, "--svg", svg, "--html", html]).exits(0);
    assert_eq!(std::fs::read_to_string(&page).expect("a page").matches("<svg ").count(), 2);
    // With a page as well, too; the page alone leaves that picture out.
    linmap(&["map", text, "--by", "owner", "--svg", svg, "--html", html])
        .exits(2)
        .says("owners are not known");
    linmap(&["map", text, "--by", "owner", "--html", html]).exits(0);
    linmap(&["map", text, "--svg", svg, "--html", svg]).exits(2).says("is to have two contents");
}

/// Where a picture or a table of values would take the place of its source.
#[test]
fn a_source_is_not_written_over() {
    let core = debian().core(|_| {});
    let file = core.file("saved");
    std::fs::write(&file, core.run("dump", &[]).exits(0).0.stdout).expect("room");
    let before = std::fs::read(&file).expect("a file");
    let name = file.to_str().expect("a path in UTF-8");
    linmap(&["map", name, "--svg", name]).exits(2).says("would be lost");
    linmap(&["watch", name, "--count", "1", "--openmetrics", name]).exits(2).says("would be lost");
    linmap(&["report", name, "--html", name]).exits(2).says("would be lost");
    assert_eq!(std::fs::read(&file).expect("a file"), before);
}

/// The picture of the documents is what is drawn now; `linmap map crates/linmap/tests/data/ptdump-mode1.txt --svg docs/map.svg`
/// writes it.
#[test]
fn the_picture_of_the_documents_is_up_to_date() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let file = directory.path().join("map.svg");
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    command.current_dir(root).args(["map", "crates/linmap/tests/data/ptdump-mode1.txt", "--svg"]).arg(&file);
    assert!(command.output().expect("linmap runs").status.success());
    let [drawn, kept] = [&file, &Path::new(root).join("docs/map.svg")]
        .map(|file| std::fs::read_to_string(file).expect("a picture"));
    assert!(drawn == kept, "docs/map.svg is stale");
}
