//! Sparse matrices in compressed rows whose entries index a table of distinct coefficients.
use crate::algebra::{CancelToken, Cancelled, Canonical, Fr};

/// CSR over a coefficient table shared by A, B and C of one circuit. Rows past the end are empty.
pub struct Matrix {/* row offsets u64, columns u32, coefficient indices u32 (or narrower) ; owned or mapped */}

impl Matrix {
    pub fn rows(&self) -> usize {
        todo!()
    }
    pub fn entries(&self) -> u64 {
        todo!()
    }
    /// (column, index into the coefficient table) of row i.
    pub fn row(&self, _i: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        std::iter::empty()
    }
    /// out[i] = Σ coefficient · z[column]; rows past the matrix's end are zero. In parallel.
    pub fn evaluate(
        &self,
        _coefficients: &[Fr],
        _z: &[Canonical],
        _out: &mut [Canonical],
        _cancel: &CancelToken,
    ) -> Result<(), Cancelled> {
        todo!()
    }
}
