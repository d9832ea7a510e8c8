//! bellman's `ConstraintSystem` for the witness writer (crates bellman 0.15, ff 0.14).
use super::WitnessWriter;
use crate::r1cs::{
    WitnessSink,
    recorder::{RecordError, canonical_bytes, check_field},
};
use bellman::{Circuit as Synthesize, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};
use ff014::PrimeField;
use std::io;

/// Synthesises a circuit and writes its witness to `sink`: each value once, straight from the closure
/// that computes it.
///
/// # Errors
/// [`RecordError`]: another field than BLS12-381's, the circuit's own error, or values that do not
/// match the sink's numbers of variables. What has been written by then is no witness.
pub fn write_bellman_witness<F, C, S>(circuit: C, sink: &mut S) -> Result<(), RecordError>
where
    F: PrimeField,
    C: Synthesize<F>,
    S: WitnessSink,
{
    check_field(F::MODULUS, F::ONE.to_repr().as_ref())?;
    let mut writer = WitnessWriter::new(sink)?;
    let synthesized = circuit.synthesize(&mut writer);
    writer.finish(synthesized)
}

impl<F: PrimeField, S: WitnessSink> ConstraintSystem<F> for WitnessWriter<'_, S> {
    type Root = Self;

    fn alloc<V, A, AR>(&mut self, _: A, value: V) -> Result<Variable, SynthesisError>
    where
        V: FnOnce() -> Result<F, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        let bytes = canonical_bytes(value()?.to_repr().as_ref());
        Ok(Variable::new_unchecked(Index::Aux(self.aux(&bytes).map_err(io::Error::other)?)))
    }

    fn alloc_input<V, A, AR>(&mut self, _: A, value: V) -> Result<Variable, SynthesisError>
    where
        V: FnOnce() -> Result<F, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        let bytes = canonical_bytes(value()?.to_repr().as_ref());
        Ok(Variable::new_unchecked(Index::Input(self.input(&bytes).map_err(io::Error::other)?)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, _: LA, _: LB, _: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<F>) -> LinearCombination<F>,
        LB: FnOnce(LinearCombination<F>) -> LinearCombination<F>,
        LC: FnOnce(LinearCombination<F>) -> LinearCombination<F>,
    {
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
