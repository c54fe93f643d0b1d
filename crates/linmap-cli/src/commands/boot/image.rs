//! Finds the image to boot: the named one, otherwise the one that `make image` built.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::failure::Failure;

const NAME: &str = "linmap.img";

/// Returns the path of an existing image.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let executable = std::env::current_exe().ok();
    let places = match named {
        Some(path) => vec![path.to_owned()],
        None => usual_places(executable.as_deref().and_then(Path::parent)),
    };
    match places.iter().find(|path| path.is_file()) {
        Some(path) if is_image(path) => Ok(path.clone()),
        Some(path) => Err(Failure::NotAnImage(path.clone())),
        None => Err(Failure::NoImage { places }),
    }
}

/// Returns true if a file has the header of an arm64 kernel image: a magic at byte 56.
fn is_image(path: &Path) -> bool {
    let mut header = [0; 60];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && header[56..] == *b"ARM\x64"
}

/// Returns the places where a build leaves the image, relative to the executable and to the current directory.
fn usual_places(directory: Option<&Path>) -> Vec<PathBuf> {
    let beside = directory.map(|directory| directory.join(NAME));
    let above = directory.and_then(Path::parent).map(|directory| directory.join(NAME));
    above.into_iter().chain(beside).chain([Path::new("target").join(NAME)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_places_in_order() {
        let places = usual_places(Some(Path::new("/src/target/release")));
        let expected = ["/src/target/linmap.img", "/src/target/release/linmap.img", "target/linmap.img"];
        assert_eq!(places, expected.map(PathBuf::from));
        assert_eq!(usual_places(None), ["target/linmap.img"].map(PathBuf::from));
    }
}
