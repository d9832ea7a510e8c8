//! Real statements of Zcash's Sapling protocol: a note that is spent and a note that is made, each with
//! its circuit's witness and with a check of its proof as a Zcash node makes it (which computes the
//! public inputs from the transaction's own data, and verifies with bellman's verifier).
use bls12_381::{Bls12, Scalar};
use groth16::Proof;
use group::ff::Field;
use rand_core::{CryptoRng, Rng};
use sapling_crypto::{
    CommitmentTree, Diversifier, IncrementalWitness, Node, Note, PaymentAddress, Rseed,
    SaplingVerificationContext,
    circuit::{Output, OutputParameters, Spend, SpendParameters},
    keys::{ExpandedSpendingKey, FullViewingKey},
    prover::{OutputProver, SpendProver},
    value::{NoteValue, ValueCommitTrapdoor, ValueCommitment},
};

/// Depth of the tree of note commitments.
const TREE_DEPTH: usize = 32;
/// What the spender signs; in a transaction, its hash.
const SIGHASH: [u8; 32] = *b"the hash of a Zcash transaction!";

/// The Spend circuit without any values: its shape.
pub fn blank_spend() -> Spend {
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

/// The Output circuit without any values: its shape.
pub fn blank_output() -> Output {
    Output { value_commitment_opening: None, payment_address: None, commitment_randomness: None, esk: None }
}

/// Checks a proof of 192 bytes as a Zcash node does, under the parameters' verifying key.
pub type Check = Box<dyn Fn(&[u8; 192]) -> bool>;

fn proof(bytes: &[u8; 192]) -> Option<Proof<Bls12>> {
    Proof::read(&bytes[..]).ok()
}

fn spending_key(rng: &mut impl Rng) -> ExpandedSpendingKey {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    ExpandedSpendingKey::from_spending_key(&seed).expect("a random seed gives a nonzero key")
}

/// An address of the key's owner, and its diversifier.
fn address(key: &FullViewingKey, rng: &mut impl Rng) -> (Diversifier, PaymentAddress) {
    loop {
        let mut diversifier = Diversifier([0; 11]);
        rng.fill_bytes(&mut diversifier.0);
        if let Some(address) = key.vk.to_payment_address(diversifier) {
            return (diversifier, address);
        }
    }
}

/// A note among other notes is spent: the circuit with all its values, and the check of its proof.
pub fn spend(parameters: &SpendParameters, rng: &mut impl CryptoRng) -> (Spend, Check) {
    let key = spending_key(rng);
    let viewing = FullViewingKey::from_expanded_spending_key(&key);
    let (diversifier, address) = address(&viewing, rng);
    let value = NoteValue::from_raw(rng.next_u64() >> 16);
    let rseed = Rseed::BeforeZip212(jubjub::Fr::random(rng));
    let note = Note::from_parts(address, value, rseed);

    let mut tree = CommitmentTree::empty();
    tree.append(Node::from_scalar(Scalar::random(rng))).expect("the tree has room");
    tree.append(Node::from_cmu(&note.cmu())).expect("the tree has room");
    let mut witness = IncrementalWitness::from_tree(tree).expect("the tree has a last leaf");
    for _ in 0..5 {
        witness.append(Node::from_scalar(Scalar::random(rng))).expect("the tree has room");
    }
    let path = witness.path().expect("the witness has a path");
    let anchor: Scalar = witness.root().into();
    let nullifier = note.nf(viewing.vk.nk(), path.position().into());

    let alpha = jubjub::Fr::random(rng);
    let trapdoor = ValueCommitTrapdoor::random(&mut *rng);
    let cv = ValueCommitment::derive(value, trapdoor.clone());
    let randomized = viewing.vk.rk(alpha);
    let signature = key.ask().randomize(&alpha).sign(rng, &SIGHASH);

    let circuit = SpendParameters::prepare_circuit(
        key.proof_generation_key(),
        diversifier,
        rseed,
        value,
        alpha,
        trapdoor,
        anchor,
        path,
    )
    .expect("the diversifier gave an address");
    let verifying_key = parameters.prepared_verifying_key();
    let check = move |bytes: &[u8; 192]| {
        let context = &mut SaplingVerificationContext::new();
        proof(bytes).is_some_and(|proof| {
            context.check_spend(
                &cv,
                anchor,
                &nullifier.0,
                randomized,
                &SIGHASH,
                signature,
                proof,
                &verifying_key,
            )
        })
    };
    (circuit, Box::new(check))
}

/// A note is made for somebody: the circuit with all its values, and the check of its proof.
pub fn output(parameters: &OutputParameters, rng: &mut impl CryptoRng) -> (Output, Check) {
    let recipient = FullViewingKey::from_expanded_spending_key(&spending_key(rng));
    let (diversifier, address) = address(&recipient, rng);
    let value = NoteValue::from_raw(rng.next_u64() >> 16);
    let note = Note::from_parts(address, value, Rseed::BeforeZip212(jubjub::Fr::random(rng)));
    let trapdoor = ValueCommitTrapdoor::random(&mut *rng);
    let cv = ValueCommitment::derive(value, trapdoor.clone());
    let cmu = note.cmu();

    let ephemeral = note.generate_or_derive_esk(rng);
    let circuit = OutputParameters::prepare_circuit(&ephemeral, address, note.rcm(), value, trapdoor);
    let base = diversifier.g_d().expect("the diversifier gave an address");
    let esk = circuit.esk.expect("a prepared circuit has all its values");
    let epk = jubjub::ExtendedPoint::from(base * esk);
    let verifying_key = parameters.prepared_verifying_key();
    let check = move |bytes: &[u8; 192]| {
        let context = &mut SaplingVerificationContext::new();
        proof(bytes).is_some_and(|proof| context.check_output(&cv, cmu, epk, proof, &verifying_key))
    };
    (circuit, Box::new(check))
}
