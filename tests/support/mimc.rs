//! A MiMC chain, x → (x + c)³ in two constraints a round, from a private start to a public result: the
//! same circuit for bellman and for arkworks. Apart from the start no value is small.
use ark_relations::{
    gr1cs::{self, ConstraintSynthesizer, ConstraintSystemRef, Variable},
    lc,
};
use bellman::{Circuit, ConstraintSystem, SynthesisError};
use bls12_381::Scalar;

/// Without a start it is the circuit's shape alone.
#[derive(Clone)]
pub struct Mimc {
    pub start: Option<u64>,
    pub rounds: u64,
}

fn given<F: Copy>(v: Option<F>) -> impl FnOnce() -> Result<F, SynthesisError> {
    move || v.ok_or(SynthesisError::AssignmentMissing)
}

impl Circuit<Scalar> for Mimc {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let mut value = self.start.map(Scalar::from);
        let mut x = cs.alloc(|| "x", given(value))?;
        for round in 0..self.rounds {
            let constant = Scalar::from(round);
            let sum = value.map(|v| v + constant);
            let square = sum.map(|v| v.square());
            let cube = sum.zip(square).map(|(a, b)| a * b);
            let y = cs.alloc(|| "square", given(square))?;
            let next = match round + 1 == self.rounds {
                true => cs.alloc_input(|| "result", given(cube))?,
                false => cs.alloc(|| "cube", given(cube))?,
            };
            let sum = |lc| lc + x + (constant, CS::one());
            cs.enforce(|| "square", sum, sum, |lc| lc + y);
            cs.enforce(|| "cube", sum, |lc| lc + y, |lc| lc + next);
            (x, value) = (next, cube);
        }
        Ok(())
    }
}

impl ConstraintSynthesizer<ark_bls12_381::Fr> for Mimc {
    fn generate_constraints(self, cs: ConstraintSystemRef<ark_bls12_381::Fr>) -> gr1cs::Result<()> {
        use ark_bls12_381::Fr;
        let given = |v: Option<Fr>| move || v.ok_or(gr1cs::SynthesisError::AssignmentMissing);
        let mut value = self.start.map(Fr::from);
        let mut x = cs.new_witness_variable(given(value))?;
        for round in 0..self.rounds {
            let constant = Fr::from(round);
            let sum = value.map(|v| v + constant);
            let square = sum.map(|v| v * v);
            let cube = sum.zip(square).map(|(a, b)| a * b);
            let y = cs.new_witness_variable(given(square))?;
            let next = match round + 1 == self.rounds {
                true => cs.new_input_variable(given(cube))?,
                false => cs.new_witness_variable(given(cube))?,
            };
            let sum = || lc!() + x + (constant, Variable::One);
            cs.enforce_r1cs_constraint(sum, sum, || lc!() + y)?;
            cs.enforce_r1cs_constraint(sum, || lc!() + y, || lc!() + next)?;
            (x, value) = (next, cube);
        }
        Ok(())
    }
}
