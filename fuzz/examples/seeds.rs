//! Writes what the fuzz targets start from into `CORPUS/TARGET/`: `seeds CORPUS`. (The circom fixtures are
//! a corpus of their own, for every target.)
#[path = "../checks.rs"]
#[allow(dead_code, reason = "the checks are the fuzz targets'")]
mod checks;
#[path = "../samples.rs"]
mod samples;

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let corpus = std::env::args_os().nth(1);
    let corpus = corpus.ok_or_else(|| io::Error::other("wanted one argument, the corpus directory"))?;
    let seeds = [
        ("request", samples::requests()),
        ("reply", samples::replies()),
        ("params", vec![samples::params()]),
        ("vk", vec![samples::vk()]),
        ("cuzk", samples::cuzk()),
        ("packed", vec![samples::packed()]),
    ];
    for (target, seeds) in seeds {
        let directory = Path::new(&corpus).join(target);
        fs::create_dir_all(&directory)?;
        for (i, bytes) in seeds.iter().enumerate() {
            fs::write(directory.join(format!("sample-{i}")), bytes)?;
        }
    }
    Ok(())
}
