//! Zcash's Sapling circuits under the parameters of their ceremony: the device's proofs are the CPU prover's,
//! byte for byte, and a Zcash node accepts them.
#[path = "../support/sapling.rs"]
mod statements;

use crate::{Device, proofs::Case, size};
use bellman::Circuit as Synthesize;
use bls12_381::Scalar;
use cuzk::{
    algebra::Canonical,
    formats::bellman::open_params,
    r1cs::{
        WitnessRegion,
        recorder::{record_bellman, write_bellman_witness},
    },
};
use rand::{SeedableRng, rngs::StdRng};
use sapling_crypto::circuit::{OutputParameters, SpendParameters};
use statements::Check;
use std::sync::LazyLock;

/// The parameter files' bytes, Spend and Output.
static PARAMETERS: LazyLock<(Vec<u8>, Vec<u8>)> =
    LazyLock::new(wagyu_zcash_parameters::load_sapling_parameters);

fn check(parameters: &[u8], blank: impl Synthesize<Scalar>, instance: impl Synthesize<Scalar>, node: &Check) {
    let circuit = record_bellman(blank).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sapling.params");
    std::fs::write(&path, parameters).unwrap();
    let key = open_params(&path, &circuit).unwrap();
    let mut memory = vec![0; 32 * circuit.num_variables()];
    let mut region = WitnessRegion::from_slice(&mut memory, circuit.num_inputs(), circuit.num_aux()).unwrap();
    write_bellman_witness(instance, &mut region).unwrap();
    let z = memory.as_chunks::<32>().0.iter().map(|v| Canonical::from_le_bytes(v).unwrap()).collect();

    let case = Case::new(circuit, key, z);
    case.check_verifies();
    assert!(node(&case.cpu_proof().to_bytes()));
    case.check(&Device::new(), size(2 << 30), "Sapling");
}

#[test]
fn sapling_spend() {
    let bytes = &PARAMETERS.0;
    let zcash = SpendParameters::read(&bytes[..], false).unwrap();
    let (instance, node) = statements::spend(&zcash, &mut StdRng::seed_from_u64(1));
    check(bytes, statements::blank_spend(), instance, &node);
}

#[test]
fn sapling_output() {
    let bytes = &PARAMETERS.1;
    let zcash = OutputParameters::read(&bytes[..], false).unwrap();
    let (instance, node) = statements::output(&zcash, &mut StdRng::seed_from_u64(2));
    check(bytes, statements::blank_output(), instance, &node);
}
