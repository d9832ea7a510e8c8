//! Where the tests' fixtures are: in a folder beside the program, as in a bundle for another machine, or else
//! in this repository.
use std::path::{Path, PathBuf};

/// The fixture of that name, a path below the fixtures' folder.
pub fn fixture(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let beside = program.parent().unwrap().join("fixtures");
    let folder = match beside.is_dir() {
        true => beside,
        false => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"),
    };
    folder.join(name)
}
