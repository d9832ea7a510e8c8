//! Circuits of every shape under keys of our own setup, judged by our verifier and by bellman's.
use crate::support::{bellman_accepts, prove, public};
use cuzk::{
    algebra::{CancelToken, Canonical, Fr},
    groth16::{KeyError, PreparedVerifyingKey, VerifyError, setup::insecure_setup},
    r1cs::{Circuit, CircuitBuilder},
};
use proptest::prelude::*;

type Row = Vec<(u32, Fr)>;

/// Rows A and B; C is made to fit the assignment.
struct Shape {
    num_inputs: usize,
    rows: Vec<(Row, Row)>,
    /// The whole assignment, ONE included.
    z: Vec<Fr>,
}

impl Shape {
    /// C of row i holds auxiliary variables i, i + rows, …, so that none is unconstrained, and makes
    /// up the rest with ONE.
    fn circuit(&self) -> (Circuit, Vec<Canonical>) {
        let num_aux = self.z.len() - self.num_inputs;
        let mut builder = CircuitBuilder::new(self.num_inputs, num_aux);
        let value = |row: &Row| row.iter().fold(Fr::ZERO, |sum, (i, c)| sum + *c * self.z[*i as usize]);
        for (i, (a, b)) in self.rows.iter().enumerate() {
            let mut c: Row = (i..num_aux)
                .step_by(self.rows.len())
                .map(|aux| ((self.num_inputs + aux) as u32, Fr::from_u64(3 + aux as u64)))
                .collect();
            c.push((0, value(a) * value(b) - value(&c)));
            builder.constraint(a, b, &c).unwrap();
        }
        let z: Vec<Canonical> = self.z.iter().map(|v| v.to_canonical()).collect();
        let circuit = builder.finish().unwrap();
        assert_eq!(circuit.first_unsatisfied(&z, &CancelToken::new()), Ok(None));
        (circuit, z)
    }

    /// Proves, and expects both verifiers to accept the proof for these inputs and for no others.
    fn check(&self) {
        let (circuit, z) = self.circuit();
        let key = insecure_setup(&circuit, [7; 32]).unwrap();
        key.check_circuit(&circuit).unwrap();
        let proof = prove(&circuit, &key, &z).unwrap();
        let verifier = PreparedVerifyingKey::new(&key.vk);
        let mut inputs = public(&circuit, &z);
        assert_eq!(verifier.verify(&proof, &inputs).map(|v| *v.proof()), Ok(proof));
        assert!(bellman_accepts(&key.vk, &proof, &inputs));
        if let Some(last) = inputs.last_mut() {
            *last += Canonical::ONE;
            assert_eq!(verifier.verify(&proof, &inputs), Err(VerifyError::Rejected));
            assert!(!bellman_accepts(&key.vk, &proof, &inputs));
            inputs.pop();
            let (found, wanted) = (inputs.len(), inputs.len() + 1);
            assert_eq!(verifier.verify(&proof, &inputs), Err(VerifyError::Inputs { found, wanted }));
        }
    }
}

/// x → x² + i, from a public x₀: one constraint a step.
fn squares(num_inputs: usize, num_constraints: usize, start: u64) -> Shape {
    let mut z = vec![Fr::ONE; num_inputs];
    z.push(Fr::from_u64(start));
    let mut rows = Vec::new();
    for i in 0..num_constraints {
        let last = (z.len() - 1) as u32;
        let a = vec![(last, Fr::ONE), (0, Fr::from_u64(i as u64))];
        rows.push((a, vec![(last, Fr::ONE)]));
        let x = z[z.len() - 1];
        z.push((x + Fr::from_u64(i as u64)) * x);
    }
    Shape { num_inputs, rows, z }
}

#[test]
fn rows_around_powers_of_two() {
    for log in [2, 3, 5, 8] {
        for rows in [(1 << log) - 1, 1 << log, (1 << log) + 1] {
            for num_inputs in [1, 2] {
                squares(num_inputs, rows - num_inputs, 5).check();
            }
        }
    }
}

#[test]
fn one_constraint_and_no_public_inputs() {
    squares(1, 1, 0).check();
    squares(1, 1, 1).check();
    // Nothing but inputs.
    let row = (vec![(0, Fr::ONE)], vec![(1, Fr::ONE)]);
    Shape { num_inputs: 2, rows: vec![row], z: vec![Fr::ONE, Fr::from_u64(9)] }.check();
}

#[test]
fn all_zero_and_all_one_assignments() {
    for value in [Fr::ZERO, Fr::ONE] {
        let row =
            |i: u32| (vec![(1 + i % 40, Fr::from_u64(2))], vec![(1 + (i * 7) % 40, Fr::ONE), (0, Fr::ONE)]);
        let mut z = vec![value; 41];
        z[0] = Fr::ONE;
        Shape { num_inputs: 3, rows: (0..50).map(row).collect(), z }.check();
    }
}

#[test]
fn empty_densities() {
    let z: Vec<Fr> = (1..=6).map(Fr::from_u64).collect();
    let some = || vec![(4, Fr::ONE), (5, Fr::from_u64(11))];
    // B is empty; A touches no auxiliary variable; both.
    for (a, b) in [(some(), vec![]), (vec![], some()), (vec![], vec![])] {
        let shape = Shape { num_inputs: 2, rows: vec![(a, b); 4], z: z.clone() };
        let (circuit, _) = shape.circuit();
        let key = insecure_setup(&circuit, [1; 32]).unwrap();
        assert_eq!(key.a.points().len(), 2 + circuit.a_density().count_in(2..6));
        assert_eq!(key.b_g1.points().len(), circuit.b_density().count());
        assert_eq!(key.b_g2.points().len(), circuit.b_density().count());
        shape.check();
    }
}

#[test]
fn the_setup_is_deterministic_and_refuses_unconstrained_variables() {
    let (circuit, _) = squares(2, 5, 3).circuit();
    let (key, again) =
        (insecure_setup(&circuit, [1; 32]).unwrap(), insecure_setup(&circuit, [1; 32]).unwrap());
    let other = insecure_setup(&circuit, [2; 32]).unwrap();
    assert!(key.vk == again.vk && key.id == again.id);
    assert!(key.vk != other.vk && key.id != other.id);

    let mut builder = CircuitBuilder::new(1, 3);
    builder.constraint(&[(1, Fr::ONE)], &[(3, Fr::ONE)], &[(0, Fr::ONE)]).unwrap();
    let refused = insecure_setup(&builder.finish().unwrap(), [1; 32]).err();
    assert_eq!(refused, Some(KeyError::Unconstrained { index: 1 }));

    let mut builder = CircuitBuilder::new(1, 1);
    builder.constraint(&[(1, Fr::ONE)], &[(1, Fr::ONE)], &[]).unwrap();
    let refused = insecure_setup(&builder.finish_without_c().unwrap(), [1; 32]).err();
    assert_eq!(refused, Some(KeyError::NoC));
}

fn scalar() -> impl Strategy<Value = Fr> {
    prop_oneof![
        Just(Fr::ZERO),
        Just(Fr::ONE),
        Just(-Fr::ONE),
        any::<u64>().prop_map(Fr::from_u64),
        any::<[u8; 32]>().prop_map(|half| {
            let mut wide = [0; 64];
            wide[..32].copy_from_slice(&half);
            wide[16..48].copy_from_slice(&half);
            Fr::from_wide_le_bytes(&wide)
        }),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    (1usize..4, 0usize..40).prop_flat_map(|(num_inputs, num_aux)| {
        let width = num_inputs + num_aux;
        let row = || prop::collection::vec((0..width as u32, scalar()), 0..4);
        let rows = prop::collection::vec((row(), row()), 1..40);
        (rows, prop::collection::vec(scalar(), width)).prop_map(move |(rows, mut z)| {
            z[0] = Fr::ONE;
            Shape { num_inputs, rows, z }
        })
    })
}

impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} inputs, rows {:?}, z {:?}", self.num_inputs, self.rows, self.z)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_satisfied_circuit_is_proved(shape in shape()) {
        shape.check();
    }
}
