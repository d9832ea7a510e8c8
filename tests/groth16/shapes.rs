//! The circuits that stand in for Filecoin's have the counts that they are made for, and witnesses that satisfy
//! them.
use crate::{
    support::{prove, public},
    synthetic::{POREP_32G, Shape, Synthetic, WINDOW_POST_32G, values},
};
use cuzk::{
    algebra::{CancelToken, Canonical},
    groth16::{PreparedVerifyingKey, setup::insecure_setup},
    r1cs::Circuit,
};

fn make(shape: Shape, seed: u64) -> (Circuit, Vec<Canonical>) {
    let synthetic = Synthetic::new(shape).unwrap();
    let mut witness = vec![0; synthetic.witness_bytes()];
    synthetic.write_witness(seed, &mut witness);
    (synthetic.circuit().unwrap(), values(&witness).unwrap())
}

#[test]
fn circuits_have_the_counts_of_their_shape() {
    for shape in [POREP_32G, WINDOW_POST_32G] {
        assert!(Synthetic::new(shape).is_some());
        for log_domain in [12, 18] {
            let shape = shape.scaled(log_domain);
            let (circuit, z) = make(shape, 5);
            let inputs = shape.inputs as usize;
            assert_eq!(circuit.num_rows() as u64, shape.rows);
            assert_eq!((circuit.num_inputs(), circuit.num_aux() as u64), (inputs, shape.aux));
            assert_eq!(circuit.a_density().count() as u64, shape.inputs + shape.a_aux);
            assert_eq!(circuit.b_density().count() as u64, 1 + shape.b_aux);
            assert!(circuit.b_density().get(0));
            assert_eq!(circuit.a().entries(), shape.a_entries);
            assert_eq!(circuit.coefficients().len() as u64, shape.coefficients);
            assert_eq!(circuit.first_unsatisfied(&z, &CancelToken::new()), Ok(None));
            let bits = z[inputs..].iter().filter(|v| v.is_zero() || **v == Canonical::ONE).count() as u64;
            assert_eq!(bits, shape.bits);
            let (_, other) = make(shape, 6);
            assert_ne!(z, other);
            assert_eq!(circuit.first_unsatisfied(&other, &CancelToken::new()), Ok(None));
        }
    }
}

#[test]
fn circuits_have_keys_and_proofs() {
    for shape in [POREP_32G, WINDOW_POST_32G] {
        let (circuit, z) = make(shape.scaled(12), 1);
        let key = insecure_setup(&circuit, [1; 32]).unwrap();
        key.check_circuit(&circuit).unwrap();
        let proof = prove(&circuit, &key, &z).unwrap();
        PreparedVerifyingKey::new(&key.vk).verify(&proof, &public(&circuit, &z)).unwrap();
    }
}
