//! The Sapling circuits: their published numbers, and witnesses of real notes and paths.
use crate::bellman::Synthesized;
use bellman::Circuit as Synthesize;
use bls12_381::Scalar;
use cuzk::{
    algebra::{CancelToken, Canonical, Fr},
    r1cs::{
        Circuit, Matrix, PackedWriter, WitnessEncoding, decode_into, file, packed,
        recorder::{record_bellman, write_bellman_witness},
    },
};
use group::ff::Field;
use rand::{Rng, SeedableRng, rngs::StdRng};
use sapling_crypto::{
    Diversifier, Node, Note, PaymentAddress, Rseed,
    circuit::{Output, OutputParameters, Spend, SpendParameters},
    keys::{ExpandedSpendingKey, FullViewingKey},
    prover::{OutputProver, SpendProver},
    value::{NoteValue, ValueCommitTrapdoor},
};

const TREE_DEPTH: usize = 32;

fn blank_spend() -> Spend {
    Spend {
        value_commitment_opening: None,
        proof_generation_key: None,
        payment_address: None,
        commitment_randomness: None,
        ar: None,
        auth_path: vec![None; TREE_DEPTH],
        anchor: None,
    }
}

fn blank_output() -> Output {
    Output { value_commitment_opening: None, payment_address: None, commitment_randomness: None, esk: None }
}

fn key_and_address(rng: &mut StdRng) -> (ExpandedSpendingKey, Diversifier, PaymentAddress) {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    let key = ExpandedSpendingKey::from_spending_key(&seed).unwrap();
    let viewing = FullViewingKey::from_expanded_spending_key(&key);
    loop {
        let mut diversifier = Diversifier([0; 11]);
        rng.fill_bytes(&mut diversifier.0);
        if let Some(address) = viewing.vk.to_payment_address(diversifier) {
            return (key, diversifier, address);
        }
    }
}

/// Spends a random note under a random path, whose root is the anchor.
fn random_spend(rng: &mut StdRng) -> Spend {
    let (key, diversifier, address) = key_and_address(rng);
    let value = NoteValue::from_raw(rng.next_u64());
    let rseed = Rseed::BeforeZip212(jubjub::Fr::random(rng));
    let mut tree = sapling_crypto::CommitmentTree::empty();
    for _ in 0..1 + rng.next_u32() % 7 {
        tree.append(Node::from_scalar(Scalar::random(rng))).unwrap();
    }
    tree.append(Node::from_cmu(&Note::from_parts(address, value, rseed).cmu())).unwrap();
    let mut witness = sapling_crypto::IncrementalWitness::from_tree(tree).unwrap();
    for _ in 0..rng.next_u32() % 9 {
        witness.append(Node::from_scalar(Scalar::random(rng))).unwrap();
    }
    SpendParameters::prepare_circuit(
        key.proof_generation_key(),
        diversifier,
        rseed,
        value,
        jubjub::Fr::random(rng),
        ValueCommitTrapdoor::random(&mut *rng),
        witness.root().into(),
        witness.path().unwrap(),
    )
    .unwrap()
}

fn random_output(rng: &mut StdRng) -> Output {
    let (_, _, address) = key_and_address(rng);
    let value = NoteValue::from_raw(rng.next_u64());
    let note = Note::from_parts(address, value, Rseed::BeforeZip212(jubjub::Fr::random(rng)));
    let esk = note.generate_or_derive_esk(rng);
    OutputParameters::prepare_circuit(&esk, address, note.rcm(), value, ValueCommitTrapdoor::random(rng))
}

/// Numbers of a circuit: own rows, inputs with ONE, and how many inputs and auxiliary variables have
/// a point in bellman's a and b queries.
type Figures = (usize, usize, [usize; 4]);

fn figures(circuit: &Circuit) -> Figures {
    let (inputs, all) = (circuit.num_inputs(), circuit.num_variables());
    let counts = [circuit.a_density(), circuit.b_density()]
        .map(|density| [density.count_in(0..inputs), density.count_in(inputs..all)]);
    (circuit.num_constraints(), inputs, [counts[0][0], counts[0][1], counts[1][0], counts[1][1]])
}

/// The witness that the packing writer makes, unpacked, and its packed length in bytes.
fn packed(circuit: &Circuit, instance: impl Synthesize<Scalar>) -> (Vec<Canonical>, usize) {
    let (inputs, aux) = (circuit.num_inputs(), circuit.num_aux());
    let mut memory = vec![0; packed::max_bytes(inputs, aux).unwrap()];
    let mut writer = PackedWriter::from_slice(&mut memory, inputs, aux).unwrap();
    write_bellman_witness(instance, &mut writer).unwrap();
    let length = writer.finish().unwrap() as usize;
    let mut z = vec![Canonical::ZERO; inputs + aux];
    decode_into(WitnessEncoding::Packed, &&memory[..length], inputs, &mut z).unwrap();
    (z, length)
}

fn check<C: Synthesize<Scalar> + Clone>(
    blank: C,
    wanted: Figures,
    mut random: impl FnMut(&mut StdRng) -> C,
    seed: u64,
) {
    let circuit = record_bellman(blank).unwrap();
    assert_eq!(figures(&circuit), wanted);
    let rng = &mut StdRng::seed_from_u64(seed);
    for round in 0..2 {
        let instance = random(rng);
        assert_eq!(record_bellman(instance.clone()).unwrap().id(), circuit.id(), "values change no row");
        let synthesized = Synthesized::of(instance.clone());
        let z = synthesized.assignment();
        assert_eq!(crate::bellman::written(&circuit, instance.clone()), z, "round {round}");
        assert_eq!(circuit.first_unsatisfied(&z, &CancelToken::new()), Ok(None));
        assert_eq!(packed(&circuit, instance).0, z, "packed, round {round}");

        // Every row that a changed value falsifies is known to the full synthesis; ours is the first.
        for _ in 0..3 {
            let changed = rng.next_u64() as usize % circuit.num_variables();
            let mut wrong = z.clone();
            wrong[changed] = (Fr::from_canonical(z[changed]) + Fr::random().unwrap()).to_canonical();
            assert_eq!(
                circuit.first_unsatisfied(&wrong, &CancelToken::new()),
                Ok(synthesized.first_unsatisfied(&wrong)),
                "{changed}"
            );
        }
    }
}

#[test]
fn spend() {
    check(blank_spend(), (98_777, 8, [8, 85_382, 1, 61_299]), random_spend, 1);
}

#[test]
fn output() {
    check(blank_output(), (7_827, 6, [6, 6_292, 1, 4_849]), random_output, 2);
}

/// The figures that docs/circuit-file.md and docs/packed-witness.md state.
#[test]
fn sizes_are_the_documented_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("circuit.cuzk");
    // Entries of A, B and C, coefficients, and the file in hundredths of a MiB.
    let compiled = |circuit: &Circuit| {
        file::write(circuit, &path).unwrap();
        let entries = [circuit.a().entries(), circuit.b().entries(), circuit.c().unwrap().entries()];
        let hundredths = std::fs::metadata(&path).unwrap().len() as f64 * 100.0 / f64::from(1 << 20);
        (entries, circuit.coefficients().len(), hundredths.round() as u64)
    };
    let (spend, output) = (record_bellman(blank_spend()).unwrap(), record_bellman(blank_output()).unwrap());
    assert_eq!(compiled(&spend), ([258_359, 99_918, 205_741], 9_252, 464));
    assert_eq!(compiled(&output), ([14_986, 8_522, 12_269], 6_160, 48));
    // Of the canonical encoding, in percent; notes differ by one.
    let rng = &mut StdRng::seed_from_u64(5);
    let percent = |circuit: &Circuit, length: usize| {
        (length as f64 * 100.0 / (32 * circuit.num_variables()) as f64).round() as u64
    };
    assert!(percent(&spend, packed(&spend, random_spend(rng)).1).abs_diff(30) <= 1);
    assert!(percent(&output, packed(&output, random_output(rng)).1).abs_diff(65) <= 1);
}

#[test]
fn a_wrong_anchor_falsifies_a_row_that_reads_it() {
    let circuit = record_bellman(blank_spend()).unwrap();
    let mut instance = random_spend(&mut StdRng::seed_from_u64(3));
    let right = crate::bellman::written(&circuit, instance.clone());
    instance.anchor = Some(instance.anchor.unwrap() + Scalar::ONE);
    let wrong = crate::bellman::written(&circuit, instance);
    // The anchor's variable and input 5, which repeats it.
    let differing: Vec<u32> = (0..right.len()).filter(|&i| right[i] != wrong[i]).map(|i| i as u32).collect();
    assert!(differing.len() == 2 && differing[0] == 5, "{differing:?}");
    let row = circuit.first_unsatisfied(&wrong, &CancelToken::new()).unwrap().unwrap();
    let matrices = [circuit.a(), circuit.b(), circuit.c().unwrap()];
    let reads = |m: &Matrix| m.row(row).any(|(column, _)| column == differing[1]);
    assert!(matrices.into_iter().any(reads));
}

#[test]
fn a_circuit_of_another_shape_does_not_fit() {
    let mut memory = vec![0; 32 * (8 + 100)];
    let mut region = cuzk::r1cs::WitnessRegion::from_slice(&mut memory, 8, 100).unwrap();
    let error = write_bellman_witness(random_output(&mut StdRng::seed_from_u64(4)), &mut region).unwrap_err();
    assert_eq!(error.to_string(), "the circuit allocates 101 auxiliary variables, wanted 100");
}
