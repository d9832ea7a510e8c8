//! `cuzk circuits`: what the daemon serves.
use super::{Exit, Failure, Output, daemon, failure::Outcome, output::table};
use crate::proto::CircuitInfo;
use clap::Args;
use serde_json::{Value, json};
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
    output.answer(&json!({ "circuits": circuits.iter().map(document).collect::<Vec<_>>() }), || {
        if circuits.is_empty() { "no circuits".into() } else { text(&circuits) }
    })?;
    Ok(Exit::Ok)
}

/// A circuit's JSON.
pub(super) fn document(circuit: &CircuitInfo) -> Value {
    let loaded = circuit.circuit_id.is_some();
    let known = |n: u64| loaded.then_some(n);
    json!({
        "name": circuit.name, "state": circuit.tier.name(),
        "problem": Some(&circuit.problem).filter(|p| !p.is_empty()),
        "circuit_id": circuit.circuit_id.map(|id| id.to_string()),
        "key_id": circuit.key_id.map(|id| id.to_string()),
        "constraints": known(circuit.constraints),
        "public_inputs": known(circuit.public_inputs),
        "auxiliary": known(circuit.auxiliary),
        "domain_log2": known(circuit.domain_log2.into()),
    })
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
