//! `cuzk cancel`: stop a job.
use super::{Exit, Failure, Output, daemon, failure::Outcome};
use crate::proto::JobId;
use clap::Args;
use serde_json::json;
use std::path::Path;

/// Cancel a job: its partitions stop within one step, and its memory comes back.
#[derive(Args, Debug)]
pub struct Cancel {
    /// The job's id, as `cuzk status` and `cuzk prove` show it.
    job: JobId,
}

/// Runs the verb.
///
/// # Errors
/// No daemon, or its refusal: the job is unknown, or another user's.
pub fn run(verb: &Cancel, socket: &Path, output: Output) -> Outcome {
    daemon::ask(socket)?.cancel(verb.job).map_err(Failure::from)?;
    let job = verb.job.to_string();
    output.answer(&json!({ "job": job, "cancelled": true }), || format!("{job}: cancelled"))?;
    Ok(Exit::Ok)
}
