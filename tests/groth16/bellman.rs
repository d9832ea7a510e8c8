//! Keys of our setup in bellman's hands: what we write it reads, and its prover makes the same proofs.
use crate::{
    mimc::Mimc,
    support::{bellman_accepts, prove, prove_with, public, written},
};
use bls12_381::{Bls12, Scalar};
use cuzk::{
    algebra::Fr,
    formats::bellman as params,
    groth16::{Randomness, setup::insecure_setup},
    r1cs::recorder::record_bellman,
};
use group::ff::Field;
use rand::{SeedableRng, rngs::StdRng};

#[test]
fn bellman_proves_with_our_parameters_as_we_do() {
    let blank = Mimc { start: None, rounds: 100 };
    let circuit = record_bellman(blank.clone()).unwrap();
    let key = insecure_setup(&circuit, [5; 32]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mimc.params");
    params::write_params(&key, &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let theirs = groth16::Parameters::<Bls12>::read(&bytes[..], true).unwrap();
    let mut written_again = Vec::new();
    theirs.write(&mut written_again).unwrap();
    assert!(written_again == bytes);
    let mut vk = Vec::new();
    theirs.vk.write(&mut vk).unwrap();
    assert!(params::read_vk(&vk).unwrap() == key.vk);
    assert!(params::write_vk(&key.vk).unwrap() == vk);

    let mapped = params::open_params(&path, &circuit).unwrap();
    let rng = &mut StdRng::seed_from_u64(6);
    let instance = Mimc { start: Some(8), ..blank };
    let z = written(&circuit, instance.clone());
    let (r, s) = (Scalar::random(&mut *rng), Scalar::random(rng));
    let scalar = |v: Scalar| Fr::from_le_bytes(&v.to_bytes()).unwrap();
    let randomness = || Randomness::fixed_for_tests(scalar(r), scalar(s));
    let mut proof = Vec::new();
    groth16::create_proof(instance, &theirs, r, s).unwrap().write(&mut proof).unwrap();
    for key in [&key, &mapped] {
        assert_eq!(prove_with(&circuit, key, &z, randomness()).unwrap().to_bytes()[..], proof[..]);
    }
}

#[test]
fn parameters_that_bellman_generates_are_ours_to_use() {
    let blank = Mimc { start: None, rounds: 20 };
    let rng = &mut StdRng::seed_from_u64(7);
    let theirs = groth16::generate_random_parameters::<Bls12, _, _>(blank.clone(), &mut *rng).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("theirs.params");
    theirs.write(std::fs::File::create(&path).unwrap()).unwrap();
    let circuit = record_bellman(blank.clone()).unwrap();
    let key = params::open_params(&path, &circuit).unwrap();
    let z = written(&circuit, Mimc { start: Some(u64::MAX), ..blank });
    let proof = prove(&circuit, &key, &z).unwrap();
    assert!(bellman_accepts(&key.vk, &proof, &public(&circuit, &z)));
}
