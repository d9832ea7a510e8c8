//! Writing a witness value by value in the order of allocation, whatever library the circuit is
//! written for.
#[cfg(feature = "bellman")]
pub(super) mod bellman;
#[cfg(feature = "bellpepper")]
pub(super) mod bellpepper;

use super::RecordError;
use crate::r1cs::{WitnessError, WitnessSink, witness::ONE_BYTES};

/// Writes each allocated value to a sink; `enforce` does nothing.
pub(super) struct WitnessWriter<'a, S: WitnessSink> {
    sink: &'a mut S,
    inputs: usize,
    aux: usize,
    /// The first refusal: a circuit may swallow the error that its `alloc` got.
    error: Option<WitnessError>,
}

impl<'a, S: WitnessSink> WitnessWriter<'a, S> {
    /// Writes ONE.
    ///
    /// # Errors
    /// [`WitnessError::Count`] where the sink has no input at all.
    fn new(sink: &'a mut S) -> Result<Self, WitnessError> {
        sink.set_input(0, &ONE_BYTES)?;
        Ok(Self { sink, inputs: 1, aux: 0, error: None })
    }

    /// Writes the next input; its index.
    fn input(&mut self, value: &[u8; 32]) -> Result<usize, WitnessError> {
        self.sink.set_input(self.inputs, value).map_err(|e| self.error.get_or_insert(e).clone())?;
        self.inputs += 1;
        Ok(self.inputs - 1)
    }

    /// Writes the next auxiliary variable; its index.
    fn aux(&mut self, value: &[u8; 32]) -> Result<usize, WitnessError> {
        self.sink.set_aux(self.aux, value).map_err(|e| self.error.get_or_insert(e).clone())?;
        self.aux += 1;
        Ok(self.aux - 1)
    }

    /// Checks that every variable has been written, once the circuit has been synthesised.
    ///
    /// # Errors
    /// The first refusal of a value (whatever became of the synthesis), then the synthesis' own error,
    /// then [`WitnessError::Count`] where the circuit allocated fewer variables than the sink has.
    fn finish<E>(self, synthesized: Result<(), E>) -> Result<(), RecordError>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        synthesized.map_err(|e| RecordError::Synthesis(Box::new(e)))?;
        let (num_inputs, num_aux) = (self.sink.num_inputs(), self.sink.num_aux());
        for (kind, found, wanted) in [("input", self.inputs, num_inputs), ("auxiliary", self.aux, num_aux)] {
            if found != wanted {
                let (found, wanted) = (found as u64, wanted as u64);
                return Err(WitnessError::Count { kind, found, wanted }.into());
            }
        }
        Ok(())
    }
}
