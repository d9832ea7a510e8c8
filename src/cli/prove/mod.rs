//! `cuzk prove`: from witnesses to proofs, through the daemon or in this process.
mod daemon;
mod local;
mod report;

use super::{Failure, Output, failure::Outcome, files::check_outputs};
use crate::proto::{IdempotencyKey, Priority, messages::InvalidId};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use std::path::{Path, PathBuf};

/// Prove that witnesses satisfy a circuit.
///
/// Through the daemon, CIRCUIT is the name of a circuit that it serves (see `cuzk circuits`). With --local the
/// proof is made in this process, from key and circuit files. Either way a proof has been verified before
/// it is given out. Several witnesses are the partitions of one job.
#[derive(Args, Debug)]
pub struct Prove {
    /// The circuit's name.
    #[arg(required_unless_present = "local", conflicts_with = "local")]
    circuit: Option<String>,
    /// A witness (.wtns); several make a job of several partitions, proved in this order.
    #[arg(long, value_name = "FILE", required = true)]
    witness: Vec<PathBuf>,
    /// Where to write the proof: *.json for snarkjs JSON, else 192 bytes. Of several, a JSON array, or one
    /// after the other. Without this the proof is printed.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where to write the public inputs, as snarkjs JSON.
    #[arg(long, value_name = "FILE")]
    public: Option<PathBuf>,
    /// How urgent the job is.
    #[arg(long, value_parser = priorities(), default_value = Priority::Normal.name(), conflicts_with = "local")]
    priority: Priority,
    /// The job's own name, 1 to 64 bytes: the same key, from the same user, is the same job ever after,
    /// also from another process. By default a new one.
    #[arg(long, value_name = "KEY", value_parser = idempotency_key, conflicts_with = "local")]
    idempotency_key: Option<IdempotencyKey>,
    /// How long to go on while the daemon restarts or is short of memory.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, conflicts_with = "local")]
    patience: u64,
    /// Prove in this process, without the daemon.
    #[arg(long, requires = "key_file")]
    local: bool,
    /// With --local: the proving key, .params or .zkey.
    #[arg(long, value_name = "FILE", requires = "local", conflicts_with = "circuit")]
    key_file: Option<PathBuf>,
    /// With --local: the circuit, .cuzk or .r1cs. A .zkey holds it.
    #[arg(long, value_name = "FILE", requires = "local", conflicts_with = "circuit")]
    circuit_file: Option<PathBuf>,
    /// With --local: remember in this directory which keys were found valid, and check only others. By
    /// default every point of the key is checked every time.
    #[arg(long, value_name = "DIR", requires = "local", conflicts_with = "circuit")]
    validated: Option<PathBuf>,
}

fn priorities() -> impl TypedValueParser<Value = Priority> {
    let named = |name: String| Priority::ALL.iter().find(|p| p.name() == name).copied().unwrap_or_default();
    PossibleValuesParser::new(Priority::ALL.iter().map(|p| p.name())).map(named)
}

fn idempotency_key(text: &str) -> Result<IdempotencyKey, InvalidId> {
    IdempotencyKey::new(text.as_bytes())
}

/// Runs the verb.
///
/// # Errors
/// Files that cannot be used, a witness that does not satisfy the circuit, a refusal of the daemon.
pub fn run(verb: &Prove, socket: &Path, output: Output) -> Outcome {
    let outputs = verb.out.iter().chain(&verb.public);
    check_outputs(outputs, verb.witness.iter().chain(&verb.key_file).chain(&verb.circuit_file))?;
    let proved = match (&verb.key_file, &verb.circuit) {
        (Some(key), _) => local::prove(verb, key, output)?,
        (None, Some(circuit)) => daemon::prove(verb, circuit, socket, output)?,
        (None, None) => return Err(Failure::usage("a circuit's name or --local is wanted")),
    };
    report::give(&proved, verb, output)
}
