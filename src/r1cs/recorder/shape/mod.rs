//! Recording a circuit's rows, whatever library it is written for.
#[cfg(feature = "bellman")]
pub(super) mod bellman;
#[cfg(feature = "bellpepper")]
pub(super) mod bellpepper;

use super::RecordError;
use crate::{
    algebra::Fr,
    r1cs::{
        Circuit, CircuitError,
        builder::{Interner, MatrixBuf, assemble},
    },
};
use rayon::prelude::*;

/// A variable while rows are recorded: inputs are i, auxiliary variables 2^32 + i, so that keys sort
/// in the order of z.
type Key = u64;

const AUX: Key = 1 << 32;

fn input_key(i: usize) -> Key {
    // From 2^32 on there are no variables: such an index stays one that is refused.
    (i as Key).min(AUX - 1)
}

fn aux_key(i: usize) -> Key {
    AUX + input_key(i)
}

/// The column that stands for a key until the number of inputs is known: inputs count up from 0,
/// auxiliary variables down from 2^32 − 1. They cannot meet, as there are fewer than 2^32 variables.
fn provisional(key: Key) -> u32 {
    if key < AUX { key as u32 } else { !(key as u32) }
}

/// Records rows for bellman's or bellpepper-core's `ConstraintSystem`, both of which it implements
/// (with their features). It does not call the closures that compute values.
///
/// Input 0, ONE, is there from the start; [`Self::finish`] appends the input rows.
pub(super) struct ShapeRecorder {
    num_inputs: u32,
    num_aux: u32,
    interner: Interner,
    matrices: [MatrixBuf; 3],
    terms: Vec<(Key, Fr)>,
    /// The first thing that went wrong where the trait leaves no way to say so.
    error: Option<RecordError>,
}

impl ShapeRecorder {
    /// A system with ONE and no rows.
    fn new() -> Self {
        Self {
            num_inputs: 1,
            num_aux: 0,
            interner: Interner::new(),
            matrices: std::array::from_fn(|_| MatrixBuf::new()),
            terms: Vec::new(),
            error: None,
        }
    }

    /// A further input's index among the inputs.
    fn alloc_input(&mut self) -> Result<usize, CircuitError> {
        self.check_room()?;
        self.num_inputs += 1;
        Ok(self.num_inputs as usize - 1)
    }

    /// A further auxiliary variable's index among them.
    fn alloc_aux(&mut self) -> Result<usize, CircuitError> {
        self.check_room()?;
        self.num_aux += 1;
        Ok(self.num_aux as usize - 1)
    }

    fn check_room(&mut self) -> Result<(), CircuitError> {
        let next = u64::from(self.num_inputs) + u64::from(self.num_aux) + 1;
        if next > u32::MAX.into() {
            let error = CircuitError::Variables { found: next, wanted: u32::MAX.into() };
            self.error.get_or_insert(error.clone().into());
            return Err(error);
        }
        Ok(())
    }

    /// Appends a row of matrix 0, 1 or 2 (A, B, C); each constraint appends one to each.
    fn push(&mut self, matrix: usize, terms: impl Iterator<Item = Result<(Key, Fr), RecordError>>) {
        if let Err(error) = self.try_push(matrix, terms) {
            self.error.get_or_insert(error);
        }
    }

    fn try_push(
        &mut self,
        matrix: usize,
        terms: impl Iterator<Item = Result<(Key, Fr), RecordError>>,
    ) -> Result<(), RecordError> {
        self.terms.clear();
        for term in terms {
            self.terms.push(term?);
        }
        let (inputs, aux) = (Key::from(self.num_inputs), AUX + Key::from(self.num_aux));
        let known = |key: Key| key < inputs || (AUX..aux).contains(&key);
        let rows = &mut self.matrices[matrix];
        if let Some(&(key, _)) = self.terms.iter().find(|(key, _)| !known(*key)) {
            let found = if key < AUX { key } else { inputs + (key - AUX) };
            let (matrix, row) = (['A', 'B', 'C'][matrix], rows.offsets.rows() as u64);
            let wanted = inputs + Key::from(self.num_aux);
            return Err(CircuitError::Variable { matrix, row, found, wanted }.into());
        }
        Ok(rows.push_row(&mut self.terms, provisional, &mut self.interner)?)
    }

    /// Appends the input rows and makes the circuit.
    ///
    /// # Errors
    /// The first of: a row that named a variable never allocated, or more variables or distinct
    /// coefficients than 32 bits number.
    fn finish(self) -> Result<Circuit, RecordError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let num_inputs = self.num_inputs;
        let [mut a, mut b, mut c] = self.matrices;
        a.push_input_rows(num_inputs as usize, provisional);
        for matrix in [&mut a, &mut b, &mut c] {
            matrix.columns.par_iter_mut().with_min_len(1 << 14).for_each(|column| {
                if *column >= num_inputs {
                    *column = num_inputs + !*column;
                }
            });
        }
        Ok(assemble(num_inputs as usize, self.num_aux as usize, self.interner, a, b, Some(c))?)
    }
}

/// A coefficient in our field. Most are 1 or −1, which need no arithmetic.
fn coefficient<F>(value: F, one: F, bytes: impl FnOnce(F) -> [u8; 32]) -> Result<Fr, RecordError>
where
    F: Copy + PartialEq + std::ops::Neg<Output = F>,
{
    if value == one {
        Ok(Fr::ONE)
    } else if value == -one {
        Ok(-Fr::ONE)
    } else {
        Fr::from_le_bytes(&bytes(value)).ok_or(RecordError::Representation)
    }
}
