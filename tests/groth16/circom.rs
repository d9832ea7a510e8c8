//! A circom circuit with snarkjs' own key, witness and proof.
use crate::support::{fixture, prove};
use cuzk::{
    algebra::Canonical,
    formats::{snarkjs_json, zkey},
    groth16::PreparedVerifyingKey,
};

fn text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap()
}

fn witness() -> Vec<Canonical> {
    let b = std::fs::read(fixture("circom/merkle.wtns")).unwrap();
    b[b.len() - 1682 * 32..]
        .as_chunks::<32>()
        .0
        .iter()
        .map(|v| Canonical::from_le_bytes(v).unwrap())
        .collect()
}

#[test]
fn snarkjs_own_proof_verifies() {
    let vk = snarkjs_json::vk_from_json(&text("circom/merkle.verification_key.json")).unwrap();
    let proof = snarkjs_json::proof_from_json(&text("circom/merkle.proof.json")).unwrap();
    let public = snarkjs_json::public_from_json(&text("circom/merkle.public.json")).unwrap();
    PreparedVerifyingKey::new(&vk).verify(&proof, &public).unwrap();
}

#[test]
fn a_zkey_and_a_witness_make_a_proof() {
    let (key, circuit) = zkey::open(&fixture("circom/merkle.zkey")).unwrap();
    key.check_circuit(&circuit).unwrap();
    assert!(zkey::open_vk(&fixture("circom/merkle.zkey")).unwrap() == key.vk);
    let vk = snarkjs_json::vk_from_json(&text("circom/merkle.verification_key.json")).unwrap();
    let public = snarkjs_json::public_from_json(&text("circom/merkle.public.json")).unwrap();
    let z = witness();
    let proof = prove(&circuit, &key, &z).unwrap();
    PreparedVerifyingKey::new(&vk).verify(&proof, &public).unwrap();
}
