//! `cuzk circuit add`: check a key and its circuit, then give them a name that the daemon knows.
use super::{Output, validate};
use crate::{
    catalog::{CircuitDefinition, Material, check_name, definition},
    cli::{Exit, Failure, failure::Outcome, output::hex},
};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Check a key and its circuit, and make them known to the daemon under a name.
///
/// Writes DIR/NAME.toml, whole or not at all. `systemctl reload cuzk` then makes the circuit available.
#[derive(Args, Debug)]
pub struct Add {
    /// The circuit's name: letters, digits, '.', '_' and '-'.
    name: String,
    /// The proving key: bellman's .params or snarkjs' .zkey.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The circuit: .cuzk or .r1cs. A .zkey holds it already.
    #[arg(long, value_name = "FILE")]
    circuit: Option<PathBuf>,
    /// The daemon's directory of circuit definitions.
    #[arg(long, value_name = "DIR", default_value = definition::DEFAULT_DIRECTORY)]
    dir: PathBuf,
    /// Load the circuit with its first use, not when the daemon starts.
    #[arg(long)]
    no_preload: bool,
    /// Replace the definition where the name is taken.
    #[arg(long)]
    force: bool,
}

/// Runs the verb.
///
/// # Errors
/// A name that is none or is taken, files that cannot be used or do not belong together, a directory
/// that cannot be written to.
pub fn run(verb: &Add, output: Output) -> Outcome {
    check_name(&verb.name)?;
    let taken = definition::path_of(&verb.dir, &verb.name);
    if !verb.force && taken.exists() {
        // Before the checks, which may take long; `write` makes sure.
        return Err(Failure::new(
            Exit::No,
            "exists",
            format_args!("{} exists already; --force replaces it", taken.display()),
        ));
    }
    let definition = CircuitDefinition {
        key: absolute(&verb.key)?,
        circuit: verb.circuit.as_deref().map(absolute).transpose()?,
        preload: !verb.no_preload,
    };
    let Material { circuit, key } = Material::from_definition(&definition)?;
    validate(&key, &verb.key, None, output)?;
    let path = definition.write(&verb.dir, &verb.name, verb.force)?;
    output.answer(
        &json!({
            "name": verb.name, "definition": path, "key": definition.key, "circuit": definition.circuit,
            "preload": definition.preload, "circuit_id": hex(&circuit.id()), "key_id": hex(&key.id),
        }),
        || {
            format!(
                "{}: {} constraints, {} public inputs, key {}\nwritten to {}\n\
                 `systemctl reload cuzk` makes it available",
                verb.name,
                circuit.num_constraints(),
                circuit.num_inputs().saturating_sub(1),
                hex(&key.id),
                path.display(),
            )
        },
    )?;
    Ok(Exit::Ok)
}

/// The file's absolute path, as the daemon, which runs elsewhere, must find it.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize().map_err(Failure::at(path))
}
