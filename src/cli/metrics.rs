//! `cuzk metrics`: the daemon's counts and times for Prometheus, as its HTTP listener gives them.
use super::{Exit, Failure, Output, daemon, failure::Outcome};
use clap::Args;
use serde_json::json;
use std::path::Path;

/// Show what the daemon counts and times, in Prometheus' text format.
#[derive(Args, Debug)]
pub struct Metrics {}

/// Runs the verb.
///
/// # Errors
/// No daemon, or its refusal.
pub fn run(socket: &Path, output: Output) -> Outcome {
    let text = daemon::ask(socket)?.metrics().map_err(Failure::from)?;
    output.answer(&json!({ "metrics": text }), || text.trim_end().to_owned())?;
    Ok(Exit::Ok)
}
