//! A compiled circuit: the matrices, their shared coefficient table, and who allocates what.
use super::Matrix;
use crate::algebra::{Canonical, Fr};

/// Bit per variable z_i: its column in the matrix has a nonzero entry.
pub struct Density(pub(crate) Vec<u64>, pub(crate) usize);
impl Density {
    pub fn len(&self) -> usize {
        self.1
    }
    pub fn get(&self, _i: usize) -> bool {
        todo!()
    }
    pub fn count(&self) -> usize {
        todo!()
    }
    pub fn count_in(&self, _range: std::ops::Range<usize>) -> usize {
        todo!()
    }
    /// Indices of the set bits, ascending.
    pub fn indices(&self) -> Vec<u32> {
        todo!()
    }
}

/// Rows: the circuit's own constraints, then one row z_i · 0 = 0 per input (ONE included), stored
/// explicitly in A: bellman, bellperson, arkworks and snarkjs all agree on this.
pub struct Circuit {/* fields */}

impl Circuit {
    /// Public inputs with ONE.
    pub fn num_inputs(&self) -> usize {
        todo!()
    }
    pub fn num_aux(&self) -> usize {
        todo!()
    }
    pub fn num_variables(&self) -> usize {
        self.num_inputs() + self.num_aux()
    }
    /// All rows, input rows included: what the domain must hold.
    pub fn num_rows(&self) -> usize {
        todo!()
    }
    /// The circuit's own constraints, without the input rows.
    pub fn num_constraints(&self) -> usize {
        todo!()
    }
    pub fn a(&self) -> &Matrix {
        todo!()
    }
    pub fn b(&self) -> &Matrix {
        todo!()
    }
    /// None for circuits read from a zkey, which stores none.
    pub fn c(&self) -> Option<&Matrix> {
        todo!()
    }
    pub fn coefficients(&self) -> &[Fr] {
        todo!()
    }
    pub fn a_density(&self) -> Density {
        todo!()
    }
    pub fn b_density(&self) -> Density {
        todo!()
    }
    /// BLAKE3 over the canonical serialisation (counts, table, matrices): the circuit's id.
    pub fn id(&self) -> [u8; 32] {
        todo!()
    }
    /// The first row with A·z ∘ B·z ≠ C·z, or None; None too where C is unknown (see `c`).
    pub fn first_unsatisfied(&self, _z: &[Canonical]) -> Option<usize> {
        todo!()
    }
}

/// Collects rows and makes a [`Circuit`]: sums repeated columns, drops zero coefficients, interns the
/// coefficients, appends the input rows.
pub struct CircuitBuilder {/* fields */}
impl CircuitBuilder {
    pub fn new(_num_inputs: usize, _num_aux: usize) -> Self {
        todo!()
    }
    /// One constraint; terms are (variable index in z, coefficient).
    pub fn constraint(
        &mut self,
        _a: &[(u32, Fr)],
        _b: &[(u32, Fr)],
        _c: &[(u32, Fr)],
    ) -> Result<(), CircuitError> {
        todo!()
    }
    pub fn finish(self) -> Result<Circuit, CircuitError> {
        todo!()
    }
}
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CircuitError {
    #[error("row {row} of {matrix} names variable {found}, wanted one below {wanted}")]
    Variable { matrix: char, row: u64, found: u64, wanted: u64 },
}
