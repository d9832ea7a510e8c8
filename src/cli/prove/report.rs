//! What there is to tell about proofs, however they were made.
use super::Prove;
use crate::{
    algebra::Canonical,
    cli::{
        Exit, Failure, Output,
        failure::Outcome,
        files,
        output::{hex, seconds},
    },
    formats::snarkjs_json,
    groth16::{Proof, timeline::Span},
};
use serde_json::{Value, json};
use std::time::Duration;

/// A finished job.
pub struct Proved {
    /// The daemon's id of the job.
    pub job: Option<String>,
    /// The circuit's name.
    pub circuit: Option<String>,
    /// BLAKE3 of the circuit, in hexadecimal.
    pub circuit_id: String,
    /// BLAKE3 of the key, in hexadecimal.
    pub key_id: String,
    /// Which prover it was.
    pub backend: String,
    /// The prover's build.
    pub build: String,
    /// In the order of the witnesses.
    pub partitions: Vec<ProvedPartition>,
}

/// One proof, and what belongs to it.
pub struct ProvedPartition {
    /// The proof.
    pub proof: Proof,
    /// Its public inputs, without ONE.
    pub inputs: Vec<Canonical>,
    /// How often it was proved: 2 after a failed self-check.
    pub attempts: u32,
    /// Where the time went.
    pub timeline: Vec<StageTime>,
}

/// A stage's time, relative to the partition's start.
pub struct StageTime {
    /// The stage's name.
    pub stage: String,
    /// When it began.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
}

impl From<&Span> for StageTime {
    fn from(span: &Span) -> Self {
        Self { stage: span.stage.name().to_owned(), start: span.start, duration: span.duration }
    }
}

/// Writes the files that were asked for, then gives the answer.
pub fn give(proved: &Proved, verb: &Prove, output: Output) -> Outcome {
    let proofs: Vec<Proof> = proved.partitions.iter().map(|p| p.proof).collect();
    if let Some(path) = &verb.out {
        files::write_proofs(path, &proofs)?;
    }
    if let Some(path) = &verb.public {
        let publics: Vec<_> = proved.partitions.iter().map(|p| p.inputs.clone()).collect();
        files::write_publics(path, &publics)?;
    }
    let partitions = proved.partitions.iter().map(partition).collect::<Result<Vec<_>, _>>()?;
    let document = json!({
        "job": proved.job, "circuit": proved.circuit,
        "circuit_id": proved.circuit_id, "key_id": proved.key_id,
        "backend": proved.backend, "build": proved.build,
        "out": verb.out, "public": verb.public, "proofs": partitions,
    });
    output.answer(&document, || text(proved, verb))?;
    Ok(Exit::Ok)
}

fn partition(partition: &ProvedPartition) -> Result<Value, Failure> {
    let inputs: Value =
        serde_json::from_str(&snarkjs_json::public_to_json(&partition.inputs)).map_err(Failure::internal)?;
    let nanoseconds = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let stage = |s: &StageTime| json!({ "stage": s.stage, "start_ns": nanoseconds(s.start), "duration_ns": nanoseconds(s.duration) });
    Ok(json!({
        "proof": hex(&partition.proof.to_bytes()),
        "public_inputs": inputs,
        "attempts": partition.attempts,
        "timeline": partition.timeline.iter().map(stage).collect::<Vec<_>>(),
    }))
}

fn text(proved: &Proved, verb: &Prove) -> String {
    let mut lines = Vec::new();
    for (i, partition) in proved.partitions.iter().enumerate() {
        let end = partition.timeline.iter().map(|s| s.start + s.duration).max().unwrap_or_default();
        lines.push(format!(
            "proof {i}: verified, {} on {} (build {})",
            seconds(end),
            proved.backend,
            proved.build
        ));
        if verb.out.is_none() {
            lines.push(hex(&partition.proof.to_bytes()));
        }
    }
    if let Some(path) = &verb.out {
        lines.push(format!("written to {}", path.display()));
    }
    lines.join("\n")
}
