//! A circom circuit with snarkjs' own key, witness and proof.
use crate::support::{fixture, prove};
use cuzk::{
    algebra::{CancelToken, Canonical},
    formats::{iden3_r1cs, iden3_wtns, snarkjs_json, zkey},
    groth16::PreparedVerifyingKey,
    r1cs::{Circuit, Matrix},
};

fn text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap()
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
    let z = iden3_wtns::read(&fixture("circom/merkle.wtns")).unwrap();
    assert_eq!(z[1..circuit.num_inputs()], public);
    let proof = prove(&circuit, &key, &z).unwrap();
    PreparedVerifyingKey::new(&vk).verify(&proof, &public).unwrap();
}

#[test]
fn the_zkey_holds_the_circuit_of_the_r1cs_without_c() {
    let r1cs = iden3_r1cs::read(&fixture("circom/merkle.r1cs")).unwrap();
    let (key, circuit) = zkey::open(&fixture("circom/merkle.zkey")).unwrap();
    key.check_circuit(&r1cs).unwrap();
    assert_eq!(circuit.num_constraints(), 1_677);
    for (ours, theirs) in [(circuit.a(), r1cs.a()), (circuit.b(), r1cs.b())] {
        assert_eq!(ours.rows(), theirs.rows());
        for row in 0..ours.rows() {
            let with_values = |matrix: &Matrix, circuit: &Circuit| -> Vec<_> {
                matrix.row(row).map(|(column, i)| (column, circuit.coefficients()[i as usize])).collect()
            };
            assert_eq!(with_values(ours, &circuit), with_values(theirs, &r1cs), "row {row}");
        }
    }

    let mut z = iden3_wtns::read(&fixture("circom/merkle.wtns")).unwrap();
    assert_eq!(r1cs.first_unsatisfied(&z, &CancelToken::new()), Ok(None));
    let proof = prove(&r1cs, &key, &z).unwrap();
    PreparedVerifyingKey::new(&key.vk).verify(&proof, &z[1..r1cs.num_inputs()]).unwrap();
    z[1_000] += Canonical::ONE;
    assert!(r1cs.first_unsatisfied(&z, &CancelToken::new()).unwrap().is_some());
    let proof = prove(&circuit, &key, &z).unwrap();
    assert!(PreparedVerifyingKey::new(&key.vk).verify(&proof, &z[1..circuit.num_inputs()]).is_err());
}
