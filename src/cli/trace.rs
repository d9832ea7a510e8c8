//! `cuzk trace`: where the time of partitions went, for Perfetto.
use super::{Exit, Failure, Output, daemon, failure::Outcome};
use crate::proto::{JobId, TraceRequest};
use clap::Args;
use serde_json::Value;
use std::path::Path;

/// Show where the time of partitions went, as a Chrome trace: open it at ui.perfetto.dev or chrome://tracing.
#[derive(Args, Debug)]
pub struct Trace {
    /// Only the partitions of this job.
    job: Option<JobId>,
    /// At most so many partitions, those that ended last; 0: all that the daemon remembers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    last: u32,
}

/// Runs the verb.
///
/// # Errors
/// No daemon, or its refusal.
pub fn run(args: &Trace, socket: &Path, output: Output) -> Outcome {
    let request = TraceRequest { job: args.job, last: args.last };
    let text = daemon::ask(socket)?.trace(request).map_err(Failure::from)?;
    let document: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::internal(format!("the daemon's trace is no JSON: {error}")))?;
    output.answer(&document, || text)?;
    Ok(Exit::Ok)
}
