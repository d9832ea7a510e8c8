//! The `cuzk` command: one file a verb.
//!
//! Every verb gives one answer on standard output, as text or with `--json` as one JSON document
//! (`docs/command-line.md` lists the fields), and ends with a status that scripts can use
//! ([`failure::Exit`]).
pub mod cancel;
pub mod circuit;
pub mod circuits;
pub mod daemon;
pub mod failure;
pub mod files;
pub mod generate;
pub mod metrics;
pub mod output;
pub mod plan;
pub mod prove;
pub mod setup;
pub mod status;
pub mod trace;
pub mod verify;

use clap::{Parser, Subcommand, error::ErrorKind};
pub use failure::{Exit, Failure};
use output::Output;
use std::{ffi::OsString, path::PathBuf, process::ExitCode};

/// Prove with Groth16 over BLS12-381, through the cuzk daemon or without it.
#[derive(Parser, Debug)]
#[command(name = "cuzk", version = crate::BUILD_ID, after_help = failure::EXIT_STATUS, max_term_width = 100)]
pub struct Cli {
    /// The daemon's socket.
    #[arg(long, global = true, value_name = "PATH", default_value = "/run/cuzk/cuzk.sock")]
    socket: PathBuf,
    /// Answer with one JSON document, and show no progress.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Prove(prove::Prove),
    Verify(verify::Verify),
    Circuits(circuits::Circuits),
    Circuit(circuit::CircuitArgs),
    Plan(plan::Plan),
    Setup(setup::Setup),
    Status(status::StatusArgs),
    Metrics(metrics::Metrics),
    Trace(trace::Trace),
    Cancel(cancel::Cancel),
    #[command(hide = true)]
    Generate(generate::Generate),
}

/// Runs the command line `args` (the program's name first) and returns its exit status.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return exit_code(not_parsed(&error, &args)),
    };
    let output = Output::new(cli.json);
    let outcome = match &cli.verb {
        Verb::Prove(verb) => prove::run(verb, &cli.socket, output),
        Verb::Verify(verb) => verify::run(verb, output),
        Verb::Circuits(_) => circuits::run(&cli.socket, output),
        Verb::Circuit(verb) => circuit::run(verb, output),
        Verb::Plan(verb) => plan::run(verb, output),
        Verb::Setup(verb) => setup::run(verb, output),
        Verb::Status(_) => status::run(&cli.socket, output),
        Verb::Metrics(_) => metrics::run(&cli.socket, output),
        Verb::Trace(verb) => trace::run(verb, &cli.socket, output),
        Verb::Cancel(verb) => cancel::run(verb, &cli.socket, output),
        Verb::Generate(verb) => generate::run(verb),
    };
    exit_code(outcome.unwrap_or_else(|failure| output.failure(&failure)))
}

/// Help and version are answers; anything else is a mistake, told as JSON to those who asked for that.
fn not_parsed(error: &clap::Error, args: &[OsString]) -> Exit {
    let answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !answer && args.iter().any(|a| a == "--json") {
        return Output::new(true).failure(&Failure::usage(error.to_string().trim_end()));
    }
    // Nowhere is left to report a closed stream.
    let _ = error.print();
    if answer { Exit::Ok } else { Exit::Usage }
}

fn exit_code(exit: Exit) -> ExitCode {
    ExitCode::from(exit as u8)
}
