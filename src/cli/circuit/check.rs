//! `cuzk circuit check`: do these files stand up, and belong together?
use super::{Output, counts, is_definition, validate};
use crate::{
    algebra::CancelToken,
    catalog::{CircuitDefinition, FileKind, Material, open_circuit},
    cli::{Exit, Failure, failure::Outcome, output::hex},
    formats::iden3_wtns,
    groth16::ProvingKey,
    r1cs::Circuit,
};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Check a key, a circuit and witnesses, each fully and against each other.
///
/// Exit status 0: all is well. 1: a key is another circuit's, or a witness does not satisfy the circuit; the
/// first unsatisfied constraint is named. 6: a file is damaged.
#[derive(Args, Debug)]
pub struct Check {
    /// Circuit (.cuzk, .r1cs), key (.params, .zkey) or definition (.toml), in any order.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// A witness (.wtns) to check against the circuit.
    #[arg(long, value_name = "FILE")]
    witness: Vec<PathBuf>,
}

/// Runs the verb.
///
/// # Errors
/// A file that is damaged, or files that make no sense together.
pub fn run(verb: &Check, output: Output) -> Outcome {
    let (circuit, key) = open(&verb.files)?;
    let key_id = match &key {
        Some((path, key)) => {
            validate(key, path, None, output)?;
            Some(hex(&key.id))
        }
        None => None,
    };
    let mut witnesses = Vec::new();
    for path in &verb.witness {
        witnesses.push(check_witness(&circuit, path)?);
    }
    let satisfied = witnesses.iter().all(|w| w["satisfied"] != false);
    let document = json!({
        "ok": satisfied,
        "circuit": counts(&circuit),
        "key_id": key_id,
        "witnesses": witnesses,
    });
    output.answer(&document, || text(&document))?;
    Ok(if satisfied { Exit::Ok } else { Exit::No })
}

/// Opens what the files are, told apart by their content.
fn open(files: &[PathBuf]) -> Result<(Circuit, Option<(PathBuf, ProvingKey)>), Failure> {
    let (mut circuit, mut key): (Option<&Path>, Option<&Path>) = (None, None);
    for path in files {
        if is_definition(path) {
            if files.len() > 1 {
                return Err(Failure::usage(format_args!(
                    "{}: a definition names its files; leave out the others",
                    path.display()
                )));
            }
            let definition = CircuitDefinition::read(path)?;
            let Material { circuit, key } = Material::from_definition(&definition)?;
            return Ok((circuit, Some((definition.key, key))));
        }
        let (place, role) = match FileKind::of(path)? {
            FileKind::Zkey | FileKind::Params => (&mut key, "key"),
            FileKind::R1cs | FileKind::Cuzk => (&mut circuit, "circuit"),
            FileKind::Wtns => {
                return Err(Failure::usage(format_args!(
                    "{}: a witness goes after --witness",
                    path.display()
                )));
            }
        };
        if let Some(first) = place.replace(path) {
            return Err(Failure::usage(format_args!(
                "{} and {}: two files are a {role}, wanted one",
                first.display(),
                path.display()
            )));
        }
    }
    match (key, circuit) {
        (Some(path), circuit) => {
            let Material { circuit, key } = Material::open(path, circuit)?;
            Ok((circuit, Some((path.to_owned(), key))))
        }
        (None, Some(circuit)) => Ok((open_circuit(circuit)?, None)),
        (None, None) => Err(Failure::usage("no circuit among the files")),
    }
}

/// A wrong length is a witness of another circuit, hence an answer and no error.
fn check_witness(circuit: &Circuit, path: &Path) -> Result<Value, Failure> {
    let z = iden3_wtns::read(path)?;
    let (found, wanted) = (z.len(), circuit.num_variables());
    let (satisfied, problem, row) = if found != wanted {
        (Some(false), Some(format!("{found} values, the circuit wants {wanted}")), None)
    } else if circuit.c().is_none() {
        let problem = "not checked: a .zkey stores no matrix C; name the .r1cs, too";
        (None, Some(problem.to_owned()), None)
    } else {
        match circuit.first_unsatisfied(&z, &CancelToken::new()).map_err(Failure::internal)? {
            Some(row) => (Some(false), Some(format!("constraint {row} is not satisfied")), Some(row)),
            None => (Some(true), None, None),
        }
    };
    Ok(json!({ "file": path, "satisfied": satisfied, "problem": problem, "first_unsatisfied": row }))
}

fn text(document: &Value) -> String {
    let string = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut lines = vec![format!("circuit {}: good", string(&document["circuit"]["id"]))];
    if let Some(id) = document["key_id"].as_str() {
        lines.push(format!("key {id}: good, and the circuit's"));
    }
    for witness in document["witnesses"].as_array().into_iter().flatten() {
        let verdict = witness["problem"].as_str().unwrap_or("satisfies the circuit");
        lines.push(format!("{}: {verdict}", string(&witness["file"])));
    }
    lines.join("\n")
}
