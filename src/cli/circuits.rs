//! `cuzk circuits`: what the daemon serves.
use super::{Exit, Failure, Output, daemon, failure::Outcome, output::table};
use crate::documents;
use crate::proto::CircuitInfo;
use clap::Args;
use serde_json::json;
use std::path::Path;

/// List the circuits that the daemon serves.
#[derive(Args, Debug)]
pub struct Circuits {}

/// Runs the verb.
///
/// # Errors
/// No daemon, or its refusal.
pub fn run(socket: &Path, output: Output) -> Outcome {
    let circuits = daemon::ask(socket)?.circuits().map_err(Failure::from)?;
    output.answer(
        &json!({ "circuits": circuits.iter().map(documents::circuit).collect::<Vec<_>>() }),
        || {
            if circuits.is_empty() { "no circuits".into() } else { text(&circuits) }
        },
    )?;
    Ok(Exit::Ok)
}

/// The circuits for people.
pub(super) fn text(circuits: &[CircuitInfo]) -> String {
    let mut rows = vec![["CIRCUIT", "STATE", "CONSTRAINTS", "INPUTS", "DOMAIN"].map(String::from).to_vec()];
    for circuit in circuits {
        let mut row = vec![circuit.name.clone(), circuit.tier.name().to_owned()];
        if !circuit.problem.is_empty() {
            row.push(circuit.problem.clone());
        } else if circuit.circuit_id.is_some() {
            row.push(circuit.constraints.to_string());
            row.push(circuit.public_inputs.to_string());
            row.push(format!("2^{}", circuit.domain_log2));
        }
        rows.push(row);
    }
    table(&rows)
}
