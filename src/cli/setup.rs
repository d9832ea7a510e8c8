//! `cuzk setup`: a trusted setup for tests, by one party that nobody should trust.
use super::{Exit, Failure, Output, failure::Outcome, files, output};
use crate::{catalog::open_circuit, formats::bellman, groth16::setup::insecure_setup};
use clap::Args;
use serde_json::json;
use std::{iter, path::PathBuf};

/// Said on standard error, and in the JSON document.
const WARNING: &str = "INSECURE: this key is for tests. Whoever made it can forge proofs, and so can anyone \
who learns its seed. Never accept a proof under it as evidence of anything.";

/// Make an INSECURE proving key for tests.
///
/// A real key comes from a ceremony of many parties, who each destroy their part of the secret. This verb
/// is one party, and the secret lies in its memory.
#[derive(Args, Debug)]
pub struct Setup {
    /// The circuit: .cuzk or .r1cs.
    #[arg(long, value_name = "FILE")]
    circuit: PathBuf,
    /// Where to write the proving key, in bellman's .params format.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where to write the verifying key: *.json for snarkjs JSON, else bellman's encoding.
    #[arg(long, value_name = "FILE")]
    vk_out: Option<PathBuf>,
    /// Make the same key every time: 64 hexadecimal digits. By default the seed is random and forgotten.
    #[arg(long, value_name = "HEX", value_parser = parse_seed)]
    seed: Option<[u8; 32]>,
    /// Says that you know that the key is insecure.
    #[arg(long, required = true)]
    insecure: bool,
}

fn parse_seed(text: &str) -> Result<[u8; 32], String> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(format!("{} characters, wanted 64 hexadecimal digits", text.chars().count()));
    }
    let mut seed = [0; 32];
    for (byte, pair) in seed.iter_mut().zip(digits.chunks(2)) {
        *byte = pair.iter().fold(0, |n, d| n * 16 + (*d as char).to_digit(16).unwrap_or(0) as u8);
    }
    Ok(seed)
}

/// Runs the verb.
///
/// # Errors
/// A circuit that cannot be read or has no key, or a file that cannot be written.
pub fn run(verb: &Setup, output: Output) -> Outcome {
    files::check_outputs(iter::once(&verb.out).chain(&verb.vk_out), [&verb.circuit])?;
    output.note(WARNING);
    let circuit = open_circuit(&verb.circuit)?;
    let seed = match verb.seed {
        Some(seed) => seed,
        None => {
            let mut seed = [0; 32];
            getrandom::fill(&mut seed).map_err(Failure::internal)?;
            seed
        }
    };
    let progress = output.spinner("making an insecure key");
    let key = insecure_setup(&circuit, seed).map_err(Failure::at(&verb.circuit))?;
    bellman::write_params(&key, &verb.out)?;
    if let Some(path) = &verb.vk_out {
        files::write_vk(path, &key.vk)?;
    }
    progress.finish_and_clear();
    let circuit_id = output::hex(&circuit.id());
    output.answer(
        &json!({
            "insecure": true, "warning": WARNING, "circuit_id": circuit_id,
            "key": verb.out, "verifying_key": verb.vk_out,
        }),
        || format!("insecure key of circuit {circuit_id}: {}", verb.out.display()),
    )?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds() {
        let seed = parse_seed(&format!("{}Ff10", "00".repeat(30))).unwrap();
        assert_eq!(seed[30..], [0xff, 0x10]);
        for bad in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"ä".repeat(32)] {
            assert!(parse_seed(bad).is_err(), "{bad}");
        }
    }
}
