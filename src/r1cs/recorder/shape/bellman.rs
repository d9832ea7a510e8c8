//! bellman's `ConstraintSystem` for the shape recorder (crates bellman 0.15, ff 0.14).
use super::{ShapeRecorder, aux_key, coefficient, input_key};
use crate::r1cs::{
    Circuit,
    recorder::{RecordError, canonical_bytes, check_field},
};
use bellman::{Circuit as Synthesize, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use ff014::PrimeField;
use std::io;

/// Records a circuit's rows; its values are never asked for, so it may be blank.
///
/// # Errors
/// [`RecordError`]: another field than BLS12-381's, the circuit's own error, or more variables than
/// 32 bits number.
pub fn record_bellman<F, C>(circuit: C) -> Result<Circuit, RecordError>
where
    F: PrimeField,
    C: Synthesize<F>,
{
    check_field(F::MODULUS, F::ONE.to_repr().as_ref())?;
    let mut recorder = ShapeRecorder::new();
    circuit.synthesize(&mut recorder).map_err(|e| RecordError::Synthesis(Box::new(e)))?;
    recorder.finish()
}

impl<F: PrimeField> ConstraintSystem<F> for ShapeRecorder {
    type Root = Self;

    fn alloc<V, A, AR>(&mut self, _: A, _: V) -> Result<Variable, SynthesisError>
    where
        V: FnOnce() -> Result<F, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        Ok(Variable::new_unchecked(Index::Aux(self.alloc_aux().map_err(io::Error::other)?)))
    }

    fn alloc_input<V, A, AR>(&mut self, _: A, _: V) -> Result<Variable, SynthesisError>
    where
        V: FnOnce() -> Result<F, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        Ok(Variable::new_unchecked(Index::Input(self.alloc_input().map_err(io::Error::other)?)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<F>) -> LinearCombination<F>,
        LB: FnOnce(LinearCombination<F>) -> LinearCombination<F>,
        LC: FnOnce(LinearCombination<F>) -> LinearCombination<F>,
    {
        let zero = LinearCombination::zero;
        for (matrix, row) in [a(zero()), b(zero()), c(zero())].iter().enumerate() {
            let terms = row.as_ref().iter().map(|(variable, value)| {
                let key = match variable.get_unchecked() {
                    Index::Input(i) => input_key(i),
                    Index::Aux(i) => aux_key(i),
                };
                Ok((key, coefficient(*value, F::ONE, |v| canonical_bytes(v.to_repr().as_ref()))?))
            });
            self.push(matrix, terms);
        }
    }

    fn push_namespace<NR, N>(&mut self, _: N)
    where
        NR: Into<String>,
        N: FnOnce() -> NR,
    {
    }

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self {
        self
    }
}
