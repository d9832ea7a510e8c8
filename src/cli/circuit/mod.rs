//! `cuzk circuit`: what concerns circuits and keys on disk, without the daemon.
mod add;
mod check;
mod show;

use super::{Failure, Output, failure::Outcome};
use crate::{
    catalog::{CircuitDefinition, FileKind, Material, open_circuit},
    formats::validated::validate_key,
    groth16::ProvingKey,
    r1cs::Circuit,
};
use clap::{Args, Subcommand};
use std::path::Path;

/// Add, show and check circuits and keys.
#[derive(Args, Debug)]
pub struct CircuitArgs {
    #[command(subcommand)]
    verb: CircuitVerb,
}

#[derive(Subcommand, Debug)]
enum CircuitVerb {
    Add(add::Add),
    Show(show::Show),
    Check(check::Check),
}

/// Runs the verb.
///
/// # Errors
/// Those of its sub-verb.
pub fn run(args: &CircuitArgs, output: Output) -> Outcome {
    match &args.verb {
        CircuitVerb::Add(verb) => add::run(verb, output),
        CircuitVerb::Show(verb) => show::run(verb, output),
        CircuitVerb::Check(verb) => check::run(verb, output),
    }
}

/// A circuit from a file of its own, from a key that holds it or from a definition; with the key, where there is one.
pub(super) fn open(file: &Path, key: Option<&Path>) -> Result<(Circuit, Option<ProvingKey>), Failure> {
    let material = match (is_definition(file), key) {
        (true, _) => Material::from_definition(&CircuitDefinition::read(file)?)?,
        (false, Some(key)) => Material::open(key, Some(file))?,
        (false, None) if FileKind::of(file)? == FileKind::Zkey => Material::open(file, None)?,
        (false, None) => return Ok((open_circuit(file)?, None)),
    };
    let Material { circuit, key } = material;
    Ok((circuit, Some(key)))
}

fn is_definition(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "toml")
}

/// Validates every point of the key in the file `path`, with progress, unless the directory `remember`
/// says that this was done.
pub(super) fn validate(
    key: &ProvingKey,
    path: &Path,
    remember: Option<&Path>,
    output: Output,
) -> Result<(), Failure> {
    let bar = output.bar("validating the key's points", 0);
    let progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let validated = validate_key(key, remember, &progress);
    bar.finish_and_clear();
    Ok(validated.map_err(|error| error.in_file(path))?)
}

/// The counts of a circuit, for `show` and `check`.
fn counts(circuit: &Circuit) -> serde_json::Value {
    serde_json::json!({
        "id": super::output::hex(&circuit.id()),
        "constraints": circuit.num_constraints(),
        "rows": circuit.num_rows(),
        "public_inputs": circuit.num_inputs().saturating_sub(1),
        "auxiliary": circuit.num_aux(),
        "witness_bytes": 32 * circuit.num_variables() as u64,
    })
}
