//! bellpepper-core's `ConstraintSystem` for the witness writer (crates bellpepper-core 0.2, ff 0.13).
//!
//! It is a *witness generator*: gadgets that know such systems (neptune's Poseidon) ask for empty
//! slices and fill them with field elements, instead of allocating value by value. The elements are
//! not in the witness' encoding and the memory may be shared, so the slices are scratch space, which
//! is written out when the system is next used. It is *not extensible*: a circuit that sees an
//! extensible system makes further ones (with an input for ONE each, in the case of storage-proofs'
//! PoSt), which would change the witness.
use super::WitnessWriter;
use crate::r1cs::{
    WitnessError, WitnessSink,
    recorder::{RecordError, canonical_bytes, check_field},
};
use bellpepper_core::{
    Circuit as Synthesize, ConstraintSystem, Index, LinearCombination, SynthesisError, Variable,
};
use ff013::PrimeField;
use std::io;

/// Synthesises a circuit and writes its witness to `sink`: each value once, straight from the closure
/// that computes it.
///
/// # Errors
/// [`RecordError`]: another field than BLS12-381's, the circuit's own error, or values that do not
/// match the sink's numbers of variables. What has been written by then is no witness.
pub fn write_bellpepper_witness<F, C, S>(circuit: C, sink: &mut S) -> Result<(), RecordError>
where
    F: PrimeField,
    C: Synthesize<F>,
    S: WitnessSink,
{
    check_field(F::MODULUS, F::ONE.to_repr().as_ref())?;
    let mut writer = BellpepperWitnessWriter::new(sink)?;
    let synthesized = circuit.synthesize(&mut writer);
    writer.finish(synthesized)
}

/// Writes each allocated value to a sink; `enforce` does nothing.
struct BellpepperWitnessWriter<'a, F: PrimeField, S: WitnessSink> {
    writer: WitnessWriter<'a, S>,
    /// Slices handed out by `allocate_empty`, not yet written.
    scratch_inputs: Vec<F>,
    scratch_aux: Vec<F>,
}

impl<'a, F: PrimeField, S: WitnessSink> BellpepperWitnessWriter<'a, F, S> {
    /// Writes ONE.
    ///
    /// # Errors
    /// [`WitnessError::Count`] where the sink has no input at all.
    fn new(sink: &'a mut S) -> Result<Self, WitnessError> {
        let writer = WitnessWriter::new(sink)?;
        Ok(Self { writer, scratch_inputs: Vec::new(), scratch_aux: Vec::new() })
    }

    /// As [`WitnessWriter::finish`].
    ///
    /// # Errors
    /// As there.
    fn finish<E>(mut self, synthesized: Result<(), E>) -> Result<(), RecordError>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        // A refusal is remembered by the writer.
        let _ = self.flush();
        self.writer.finish(synthesized)
    }

    /// Writes what has been filled in since `allocate_empty`.
    fn flush(&mut self) -> Result<(), WitnessError> {
        for value in self.scratch_inputs.drain(..) {
            self.writer.input(&canonical_bytes(value.to_repr().as_ref()))?;
        }
        for value in self.scratch_aux.drain(..) {
            self.writer.aux(&canonical_bytes(value.to_repr().as_ref()))?;
        }
        Ok(())
    }
}

impl<F: PrimeField, S: WitnessSink> ConstraintSystem<F> for BellpepperWitnessWriter<'_, F, S> {
    type Root = Self;

    fn alloc<V, A, AR>(&mut self, _: A, value: V) -> Result<Variable, SynthesisError>
    where
        V: FnOnce() -> Result<F, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.flush().map_err(io::Error::other)?;
        let bytes = canonical_bytes(value()?.to_repr().as_ref());
        Ok(Variable::new_unchecked(Index::Aux(self.writer.aux(&bytes).map_err(io::Error::other)?)))
    }

    fn alloc_input<V, A, AR>(&mut self, _: A, value: V) -> Result<Variable, SynthesisError>
    where
        V: FnOnce() -> Result<F, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.flush().map_err(io::Error::other)?;
        let bytes = canonical_bytes(value()?.to_repr().as_ref());
        Ok(Variable::new_unchecked(Index::Input(self.writer.input(&bytes).map_err(io::Error::other)?)))
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

    fn is_witness_generator(&self) -> bool {
        true
    }

    fn extend_inputs(&mut self, values: &[F]) {
        let _ = self.flush();
        self.scratch_inputs.extend_from_slice(values);
    }

    fn extend_aux(&mut self, values: &[F]) {
        let _ = self.flush();
        self.scratch_aux.extend_from_slice(values);
    }

    fn allocate_empty(&mut self, aux: usize, inputs: usize) -> (&mut [F], &mut [F]) {
        // A refusal is remembered by the writer and comes out at the end, if not before.
        let _ = self.flush();
        self.scratch_aux.resize(aux, F::ZERO);
        self.scratch_inputs.resize(inputs, F::ZERO);
        (&mut self.scratch_aux, &mut self.scratch_inputs)
    }

    fn allocate_empty_inputs(&mut self, count: usize) -> &mut [F] {
        self.allocate_empty(0, count).1
    }

    fn allocate_empty_aux(&mut self, count: usize) -> &mut [F] {
        self.allocate_empty(count, 0).0
    }
}
