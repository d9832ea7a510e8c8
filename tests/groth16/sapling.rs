//! Zcash's Sapling circuits under the parameters of their ceremony, with real notes.
use crate::{
    statements::{self, Check},
    support::{prove, prove_with, public, written},
};
use bellman::Circuit as Synthesize;
use bls12_381::{Bls12, Scalar};
use cuzk::{
    algebra::{CancelToken, Canonical, Fr},
    formats::{bellman as params, validated::validate_key},
    groth16::{PreparedVerifyingKey, Proof, ProvingKey, Randomness, VerifyError},
    r1cs::{Circuit, recorder::record_bellman},
};
use group::ff::Field;
use rand::{SeedableRng, rngs::StdRng};
use sapling_crypto::circuit::{OutputParameters, SpendParameters};
use std::{path::PathBuf, sync::LazyLock};

/// The parameter files' bytes, Spend and Output, and the same in files.
static PARAMETERS: LazyLock<(Vec<u8>, Vec<u8>)> =
    LazyLock::new(wagyu_zcash_parameters::load_sapling_parameters);

struct Setting {
    circuit: Circuit,
    key: ProvingKey,
    /// bellman's own reading of the same file.
    theirs: groth16::Parameters<Bls12>,
}

impl Setting {
    fn new(bytes: &[u8], blank: impl Synthesize<Scalar>) -> Self {
        let circuit = record_bellman(blank).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path: PathBuf = directory.path().join("sapling.params");
        std::fs::write(&path, bytes).unwrap();
        // The mapping outlives the file's name.
        let key = params::open_params(&path, &circuit).unwrap();
        key.check_circuit(&circuit).unwrap();
        assert_eq!(key.id, *blake3::hash(bytes).as_bytes());
        let theirs = groth16::Parameters::read(bytes, false).unwrap();
        Self { circuit, key, theirs }
    }

    /// Proves an instance; a Zcash node and our verifier accept the proof and no other inputs, and with
    /// fixed r, s it is bellman's own, byte for byte.
    fn check(&self, instance: impl Synthesize<Scalar> + Clone, node: &Check, seed: u64) {
        let z = written(&self.circuit, instance.clone());
        assert_eq!(self.circuit.first_unsatisfied(&z, &CancelToken::new()), Ok(None));
        let verifier = PreparedVerifyingKey::new(&self.key.vk);
        let inputs = public(&self.circuit, &z);

        let proof = prove(&self.circuit, &self.key, &z).unwrap();
        assert!(node(&proof.to_bytes()));
        assert_eq!(verifier.verify(&proof, &inputs).map(|v| *v.proof()), Ok(proof));
        for i in 0..inputs.len() {
            let mut wrong = inputs.clone();
            wrong[i] += Canonical::ONE;
            assert_eq!(verifier.verify(&proof, &wrong), Err(VerifyError::Rejected), "input {i}");
        }
        let again = prove(&self.circuit, &self.key, &z).unwrap();
        assert!(again.a != proof.a && again.b != proof.b && again.c != proof.c, "proofs are randomised");

        let rng = &mut StdRng::seed_from_u64(seed);
        let (r, s) = (Scalar::random(&mut *rng), Scalar::random(rng));
        let scalar = |v: Scalar| Fr::from_le_bytes(&v.to_bytes()).unwrap();
        let fixed = Randomness::fixed_for_tests(scalar(r), scalar(s));
        let ours = prove_with(&self.circuit, &self.key, &z, fixed).unwrap().to_bytes();
        let mut theirs = Vec::new();
        groth16::create_proof(instance, &self.theirs, r, s).unwrap().write(&mut theirs).unwrap();
        assert_eq!(ours[..], theirs[..]);
        verifier.verify(&Proof::from_bytes(&ours).unwrap(), &inputs).unwrap();
    }

    /// A witness that does not satisfy the circuit gives a proof that nobody accepts.
    fn check_unsatisfied(&self, instance: impl Synthesize<Scalar>, node: &Check) {
        let mut z = written(&self.circuit, instance);
        let last = z.len() - 1;
        z[last] += Canonical::ONE;
        assert!(self.circuit.first_unsatisfied(&z, &CancelToken::new()).unwrap().is_some());
        let proof = prove(&self.circuit, &self.key, &z).unwrap();
        let refused = PreparedVerifyingKey::new(&self.key.vk).verify(&proof, &public(&self.circuit, &z));
        assert_eq!(refused, Err(VerifyError::Rejected));
        assert!(!node(&proof.to_bytes()));
    }
}

#[test]
fn spend() {
    let bytes = &PARAMETERS.0;
    let setting = Setting::new(bytes, statements::blank_spend());
    let zcash = SpendParameters::read(&bytes[..], false).unwrap();
    let (instance, node) = statements::spend(&zcash, &mut StdRng::seed_from_u64(1));
    setting.check(instance.clone(), &node, 11);
    setting.check_unsatisfied(instance, &node);
    // Another note's check does not accept it.
    let (other, _) = statements::spend(&zcash, &mut StdRng::seed_from_u64(2));
    let proof = prove(&setting.circuit, &setting.key, &written(&setting.circuit, other)).unwrap();
    assert!(!node(&proof.to_bytes()));
}

#[test]
fn output() {
    let bytes = &PARAMETERS.1;
    let setting = Setting::new(bytes, statements::blank_output());
    let zcash = OutputParameters::read(&bytes[..], false).unwrap();
    for seed in 0..2 {
        let (instance, node) = statements::output(&zcash, &mut StdRng::seed_from_u64(seed));
        setting.check(instance.clone(), &node, 20 + seed);
        setting.check_unsatisfied(instance, &node);
    }
}

#[test]
fn every_point_of_the_real_parameters_is_valid() {
    let setting = Setting::new(&PARAMETERS.1, statements::blank_output());
    validate_key(&setting.key, None, &|_, _| {}).unwrap();
}
