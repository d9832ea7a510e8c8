//! What several of these tests need.
use bls12_381::{Bls12, Scalar};
use cuzk::{
    algebra::{CancelToken, Canonical},
    formats::bellman::write_vk,
    groth16::{CpuProver, Proof, ProveError, ProvingKey, Randomness, Timeline, VerifyingKey},
    r1cs::{Circuit, WitnessRegion, recorder::write_bellman_witness},
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
    let inputs: Vec<Scalar> = inputs.iter().map(|v| Scalar::from_repr(v.to_le_bytes()).unwrap()).collect();
    groth16::verify_proof(&groth16::prepare_verifying_key(&vk), &proof, &inputs).is_ok()
}

/// The witness of a bellman circuit.
pub fn written(circuit: &Circuit, instance: impl bellman::Circuit<Scalar>) -> Vec<Canonical> {
    let mut memory = vec![0; 32 * circuit.num_variables()];
    let mut region = WitnessRegion::from_slice(&mut memory, circuit.num_inputs(), circuit.num_aux()).unwrap();
    write_bellman_witness(instance, &mut region).unwrap();
    memory.as_chunks::<32>().0.iter().map(|v| Canonical::from_le_bytes(v).unwrap()).collect()
}
