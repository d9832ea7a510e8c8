//! A key that arkworks generated: converted, it is ours, and each side accepts the other's proofs.
use crate::{
    ark,
    mimc::Mimc,
    support::{prove, public, written},
};
use ark_bls12_381::{Bls12_381, Fr as ArkFr};
use ark_ff::PrimeField;
use ark_groth16::Groth16;
use ark_snark::SNARK;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use cuzk::{
    formats::bellman::open_params,
    groth16::{PreparedVerifyingKey, Proof},
    r1cs::recorder::record_bellman,
};

#[test]
fn one_key_for_both() {
    let blank = Mimc { start: None, rounds: 60 };
    let instance = Mimc { start: Some(3), ..blank };
    let rng = &mut StdRng::seed_from_u64(1);
    let (theirs, their_vk) = Groth16::<Bls12_381>::circuit_specific_setup(blank.clone(), rng).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arkworks.params");
    std::fs::write(&path, ark::params(&theirs)).unwrap();

    let circuit = record_bellman(blank).unwrap();
    let key = open_params(&path, &circuit).unwrap();
    let z = written(&circuit, instance.clone());
    let inputs = public(&circuit, &z);
    let their_inputs: Vec<ArkFr> =
        inputs.iter().map(|v| ArkFr::from_le_bytes_mod_order(&v.to_le_bytes())).collect();

    let proof = prove(&circuit, &key, &z).unwrap();
    assert!(Groth16::<Bls12_381>::verify(&their_vk, &their_inputs, &ark::proof(&proof.to_bytes())).unwrap());
    let proof = Groth16::<Bls12_381>::prove(&theirs, instance, rng).unwrap();
    let proof = Proof::from_bytes(&ark::bytes(&proof)).unwrap();
    PreparedVerifyingKey::new(&key.vk).verify(&proof, &inputs).unwrap();
}
