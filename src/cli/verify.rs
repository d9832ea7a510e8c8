//! `cuzk verify`: is this a proof?
use super::{Exit, Failure, Output, failure::Outcome, files};
use crate::groth16::{PreparedVerifyingKey, verifier::VerifyError};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Verify proofs against a verifying key and public inputs.
///
/// Exit status 0: every proof verifies. 1: one does not.
#[derive(Args, Debug)]
pub struct Verify {
    /// The verifying key: snarkjs' verification_key.json, bellman's .vk, or the .params or .zkey that holds it.
    #[arg(long, value_name = "FILE")]
    vk: PathBuf,
    /// The proof: snarkjs JSON, or 192 bytes; several proofs as a JSON array or one after the other.
    #[arg(long, value_name = "FILE")]
    proof: PathBuf,
    /// The public inputs, without the leading 1: a JSON array of decimal strings, or an array of those
    /// for several proofs.
    #[arg(long, value_name = "FILE")]
    public: PathBuf,
}

/// Runs the verb.
///
/// # Errors
/// A file that cannot be used, or inputs that are not the key's in number.
pub fn run(verb: &Verify, output: Output) -> Outcome {
    let vk = PreparedVerifyingKey::new(&files::read_vk(&verb.vk)?);
    let proofs = files::read_proofs(&verb.proof)?;
    let publics = files::read_publics(&verb.public)?;
    if proofs.len() != publics.len() {
        return Err(Failure::file(format_args!(
            "{}: public inputs of {} proofs, but {} holds {}",
            verb.public.display(),
            publics.len(),
            verb.proof.display(),
            proofs.len(),
        )));
    }
    let mut rejected = None;
    for (i, (proof, inputs)) in proofs.iter().zip(&publics).enumerate() {
        match vk.verify(proof, inputs) {
            Ok(_) => {}
            Err(VerifyError::Rejected | VerifyError::Subgroup { .. }) => {
                rejected = Some(i);
                break;
            }
            Err(error) => return Err(Failure::at(&verb.public)(error)),
        }
    }
    output.answer(
        &json!({ "verified": rejected.is_none(), "proofs": proofs.len(), "first_rejected": rejected }),
        || match rejected {
            None => "verified".into(),
            Some(_) if proofs.len() == 1 => "the proof does not verify".into(),
            Some(i) => format!("proof {i} of {} does not verify", proofs.len()),
        },
    )?;
    Ok(if rejected.is_none() { Exit::Ok } else { Exit::No })
}
