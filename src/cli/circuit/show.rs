//! `cuzk circuit show`: what a circuit and its key consist of.
use super::{Output, counts, open};
use crate::{
    algebra::{Curve, PointStore},
    cli::{
        Exit,
        failure::Outcome,
        output::{bytes, hex},
    },
    groth16::ProvingKey,
    r1cs::{Circuit, Matrix},
};
use clap::Args;
use serde_json::{Value, json};
use std::{fmt::Write, path::PathBuf};

/// Show a circuit: counts, densities, sizes and ids.
#[derive(Args, Debug)]
pub struct Show {
    /// The circuit: .cuzk, .r1cs, .zkey, or a definition (.toml) that names it and its key.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A proving key to show with the circuit.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// Runs the verb.
///
/// # Errors
/// Files that cannot be used or do not belong together.
pub fn run(verb: &Show, output: Output) -> Outcome {
    let (circuit, key) = open(&verb.file, verb.key.as_deref())?;
    let document = json!({
        "file": verb.file,
        "circuit": describe(&circuit),
        "key": key.as_ref().map(describe_key),
    });
    output.answer(&document, || text(&document))?;
    Ok(Exit::Ok)
}

fn describe(circuit: &Circuit) -> Value {
    let mut description = counts(circuit);
    let (a, b) = (circuit.a_density(), circuit.b_density());
    let matrix = |m: &Matrix| json!({ "entries": m.entries() });
    let with_columns = |m: &Matrix, used: usize| json!({ "entries": m.entries(), "columns": used });
    description["coefficients"] = circuit.coefficients().len().into();
    description["a"] = with_columns(circuit.a(), a.count());
    description["b"] = with_columns(circuit.b(), b.count());
    description["c"] = circuit.c().map(matrix).into();
    description
}

fn describe_key(key: &ProvingKey) -> Value {
    fn size<C: Curve>(points: &PointStore<C>) -> (u64, u64) {
        (points.len() as u64, (points.len() as u64).saturating_mul(C::UNCOMPRESSED as u64))
    }
    let queries = [
        ("h", size(&key.h)),
        ("l", size(&key.l)),
        ("a", size(key.a.points())),
        ("b_g1", size(key.b_g1.points())),
        ("b_g2", size(key.b_g2.points())),
    ];
    let total: u64 = queries.iter().map(|(_, (_, bytes))| bytes).sum();
    let points: serde_json::Map<String, Value> =
        queries.iter().map(|(name, (count, _))| ((*name).to_owned(), (*count).into())).collect();
    json!({ "id": hex(&key.id), "bytes": total, "points": points })
}

/// The same document for people.
fn text(document: &Value) -> String {
    let mut out = String::new();
    let circuit = &document["circuit"];
    let variables = circuit["witness_bytes"].as_u64().unwrap_or(0) / 32;
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<15} {value}");
    };
    let plain = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    line("circuit", plain(&circuit["id"]));
    line("constraints", format!("{} ({} rows with the inputs')", circuit["constraints"], circuit["rows"]));
    line("public inputs", plain(&circuit["public_inputs"]));
    line("auxiliary", plain(&circuit["auxiliary"]));
    line("coefficients", format!("{} distinct", circuit["coefficients"]));
    for name in ["a", "b"] {
        let matrix = &circuit[name];
        let used = matrix["columns"].as_u64().unwrap_or(0);
        let percent = 100.0 * used as f64 / variables.max(1) as f64;
        let value = format!("{} entries in {used} columns ({percent:.1} %)", matrix["entries"]);
        line(&format!("matrix {}", name.to_uppercase()), value);
    }
    line(
        "matrix C",
        match circuit["c"]["entries"].as_u64() {
            Some(entries) => format!("{entries} entries"),
            None => "not stored".into(),
        },
    );
    line("witness", bytes(circuit["witness_bytes"].as_u64().unwrap_or(0)));
    if let Some(key) = document["key"].as_object() {
        line("key", plain(&key["id"]));
        line("points", bytes(key["bytes"].as_u64().unwrap_or(0)));
        for (name, count) in key["points"].as_object().into_iter().flatten() {
            line(&format!("  {name}"), plain(count));
        }
    }
    out
}
