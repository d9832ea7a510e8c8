//! What several of these tests need.
use cuzk::{
    algebra::{CancelToken, Canonical},
    groth16::{CpuProver, Proof, ProveError, ProvingKey, Randomness, Timeline},
    r1cs::Circuit,
};
use std::path::PathBuf;

pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A proof with fresh randomness, neither watched nor cancelled.
pub fn prove(circuit: &Circuit, key: &ProvingKey, z: &[Canonical]) -> Result<Proof, ProveError> {
    prove_with(circuit, key, z, Randomness::from_os().unwrap())
}

pub fn prove_with(
    circuit: &Circuit,
    key: &ProvingKey,
    z: &[Canonical],
    randomness: Randomness,
) -> Result<Proof, ProveError> {
    CpuProver::prove(circuit, key, z, randomness, &CancelToken::new(), &mut Timeline::new(), &mut |_| {})
}
