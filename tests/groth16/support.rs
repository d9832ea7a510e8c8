//! What several of these tests need.
use bls12_381::{Bls12, Scalar};
use cuzk::{
    algebra::{CancelToken, Canonical},
    formats::bellman::write_vk,
    groth16::{CpuProver, Proof, ProveError, ProvingKey, Randomness, Timeline, VerifyingKey},
    r1cs::Circuit,
};
use group::ff::PrimeField;
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

/// The public inputs of an assignment, without ONE.
pub fn public(circuit: &Circuit, z: &[Canonical]) -> Vec<Canonical> {
    z[1..circuit.num_inputs()].to_vec()
}

/// What bellman's verifier says, from the bytes that it would get.
pub fn bellman_accepts(vk: &VerifyingKey, proof: &Proof, inputs: &[Canonical]) -> bool {
    let vk = groth16::VerifyingKey::<Bls12>::read(&write_vk(vk).unwrap()[..]).unwrap();
    let proof = groth16::Proof::<Bls12>::read(&proof.to_bytes()[..]).unwrap();
    let inputs: Vec<Scalar> =
        inputs.iter().map(|v| Scalar::from_repr(v.to_le_bytes().into()).unwrap()).collect();
    groth16::verify_proof(&groth16::prepare_verifying_key(&vk), &proof, &inputs).is_ok()
}
