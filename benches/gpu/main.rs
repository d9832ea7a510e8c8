//! The device's steps and whole proofs by size, in one table: median time, floor, fastest peer.
//!
//! `cargo bench --features cuda --bench gpu -- [--sizes 20,22] [--only steps|sums|proofs] [--kernels]`; sizes are
//! logarithms to base 2. `--kernels` tells, below each sum, what its kernels took. Every sum is compared with
//! the one that the points' logarithms give. Needs a machine with an NVIDIA device. `make gpu-bench` runs it
//! here, `scripts/gpu-bundle` takes it to another machine.
mod machine;
mod proofs;
mod steps;
mod sums;
mod table;

use cuzk::algebra::{G1, G2};
use machine::Machine;
use std::{error::Error, process::ExitCode};

/// Parts of the table, by name.
const PARTS: [&str; 3] = ["steps", "sums", "proofs"];
/// Proofs are measured up to this size: beyond it the host would be busy for minutes making a circuit.
const LARGEST_PROOF: u32 = 24;

struct Options {
    sizes: Vec<u32>,
    only: Option<String>,
    kernels: bool,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { sizes: vec![20, 22], only: None, kernels: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--sizes" => {
                let list = arguments.next().ok_or("--sizes wants a list, as in 20,22")?;
                options.sizes = list.split(',').map(str::parse).collect::<Result<_, _>>()?;
                if let Some(size) = options.sizes.iter().find(|size| !(13..=28).contains(*size)) {
                    return Err(format!("--sizes: {size} is not between 13 and 28").into());
                }
            }
            "--only" => {
                let part = arguments.next().filter(|part| PARTS.contains(&part.as_str()));
                options.only = Some(part.ok_or_else(|| format!("--only wants one of {PARTS:?}"))?);
            }
            "--kernels" => options.kernels = true,
            // What cargo adds.
            "--bench" => {}
            other => return Err(format!("what is {other}?").into()),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let machine = Machine::open()?;
    println!(
        "{}, {} multiprocessors, {}",
        machine.info.name, machine.info.multiprocessors, machine.info.uuid
    );
    let wants = |part: &str| options.only.as_deref().is_none_or(|only| only == part);
    table::print_head();
    for &log_size in &options.sizes {
        if wants("steps") {
            steps::measure(&machine, log_size)?;
        }
        if wants("sums") {
            sums::measure::<G1>(&machine, log_size, options.kernels)?;
            sums::measure::<G2>(&machine, log_size, options.kernels)?;
        }
        if wants("proofs") && log_size <= LARGEST_PROOF {
            proofs::measure(&machine, log_size)?;
        }
    }
    Ok(())
}
