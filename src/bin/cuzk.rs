//! The `cuzk` command; `cuzk::cli` is all of it.
use std::process::ExitCode;

fn main() -> ExitCode {
    cuzk::cli::run(std::env::args_os())
}
