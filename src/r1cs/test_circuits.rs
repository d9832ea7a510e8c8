//! Small random circuits for this room's property tests.
use super::{Circuit, CircuitBuilder};
use crate::algebra::{Canonical, Fr};
use proptest::prelude::*;

/// Terms of A, B and C of one constraint.
pub(crate) type Constraint = [Vec<(u32, Fr)>; 3];

/// A circuit before it is compiled.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) num_inputs: usize,
    pub(crate) num_aux: usize,
    pub(crate) constraints: Vec<Constraint>,
}

/// Coefficients as circuits have them, and any others.
pub(crate) fn coefficients() -> impl Strategy<Value = Fr> {
    prop_oneof![
        3 => Just(Fr::ONE),
        3 => Just(-Fr::ONE),
        1 => Just(Fr::ZERO),
        2 => (0u32..40).prop_map(|k| Fr::from_u64(1 << k)),
        1 => any::<[u8; 32]>().prop_map(|b| {
            let mut wide = [0; 64];
            wide[..32].copy_from_slice(&b);
            Fr::from_wide_le_bytes(&wide)
        }),
    ]
}

/// A circuit with repeated columns and zero coefficients, and an assignment that need not satisfy it.
pub(crate) fn circuits() -> impl Strategy<Value = (Rows, Vec<Canonical>)> {
    (1usize..5, 0usize..12).prop_flat_map(|(num_inputs, num_aux)| {
        let width = (num_inputs + num_aux) as u32;
        let terms = || prop::collection::vec((0..width, coefficients()), 0..8);
        let constraint = [terms(), terms(), terms()];
        let rows = prop::collection::vec(constraint, 0..20);
        let values = prop::collection::vec(coefficients(), width as usize);
        (rows, values).prop_map(move |(constraints, values)| {
            let mut z: Vec<Canonical> = values.iter().map(|v| v.to_canonical()).collect();
            z[0] = Canonical::ONE;
            (Rows { num_inputs, num_aux, constraints }, z)
        })
    })
}

/// The compiled circuit.
pub(crate) fn circuit(rows: &Rows) -> Circuit {
    let mut builder = CircuitBuilder::new(rows.num_inputs, rows.num_aux);
    for [a, b, c] in &rows.constraints {
        builder.constraint(a, b, c).unwrap();
    }
    builder.finish().unwrap()
}

/// Matrix 0, 1 or 2 (A, B, C) times z, input rows included, straight from the terms; `len` rows.
pub(crate) fn dense_product(rows: &Rows, which: usize, z: &[Canonical], len: usize) -> Vec<Canonical> {
    let own = rows.constraints.iter().map(|constraint| {
        constraint[which].iter().fold(Canonical::ZERO, |sum, &(i, c)| sum + c * z[i as usize])
    });
    let inputs = (0..rows.num_inputs).map(|i| if which == 0 { z[i] } else { Canonical::ZERO });
    own.chain(inputs).chain(std::iter::repeat(Canonical::ZERO)).take(len).collect()
}
