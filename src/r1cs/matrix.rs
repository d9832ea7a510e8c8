//! Sparse matrices in compressed rows (CSR) whose entries index a table of distinct coefficients.
//!
//! R1CS coefficients repeat massively, so an entry takes a column (4 bytes) and a table index
//! (2 bytes for tables up to 65,536) instead of 36 bytes.
use super::store::{Indices, Offsets, Store};
use crate::algebra::{CancelToken, Cancelled, Canonical, Fr};
use rayon::prelude::*;

/// Index of the coefficient 1 in every table.
pub(crate) const ONE_INDEX: u32 = 0;
/// Index of the coefficient −1 in every table.
pub(crate) const MINUS_ONE_INDEX: u32 = 1;

/// Rows of one parallel task, and how often cancellation is looked at.
pub(super) const ROWS_PER_TASK: usize = 1 << 10;
/// Rows with more entries than this are themselves split into parallel tasks.
const ENTRIES_PER_TASK: usize = 1 << 16;

/// CSR over the coefficient table that A, B and C of one circuit share; within a row the columns
/// ascend strictly. Rows past the end are empty.
pub struct Matrix {
    pub(crate) offsets: Offsets,
    pub(crate) columns: Store<u32>,
    pub(crate) indices: Indices,
    /// Number of columns: the circuit's variables.
    pub(crate) width: usize,
}

impl Matrix {
    /// Stored rows; all rows from this one on are empty.
    pub fn rows(&self) -> usize {
        self.offsets.rows()
    }

    /// Stored (nonzero) entries.
    pub fn entries(&self) -> u64 {
        self.columns.len() as u64
    }

    /// (column, index into the coefficient table) of row i, columns ascending. Index 0 is the
    /// coefficient 1, index 1 is −1.
    pub fn row(&self, i: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let range = self.range(i);
        let columns = self.columns[range.clone()].iter().copied();
        let (narrow, wide): (&[u16], &[u32]) = match &self.indices {
            Indices::U16(v) => (&v[range], &[]),
            Indices::U32(v) => (&[], &v[range]),
        };
        columns.zip(narrow.iter().map(|&i| i.into()).chain(wide.iter().copied()))
    }

    /// Where row i lies in `columns` and `indices`; empty past the end.
    pub(crate) fn range(&self, i: usize) -> std::ops::Range<usize> {
        if i < self.rows() { self.offsets.get(i) as usize..self.offsets.get(i + 1) as usize } else { 0..0 }
    }

    /// Number of entries in rows 0..=i, for i < `rows()`.
    pub fn row_end(&self, i: usize) -> u64 {
        self.offsets.get(i + 1)
    }

    /// Columns of all entries, row by row.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// Ends of the rows, preceded by 0: u32, or u64 where there are 2^32 entries or more; in the host's
    /// byte order.
    pub fn offset_bytes(&self) -> &[u8] {
        self.offsets.bytes()
    }

    /// Indices of all entries into the coefficient table, row by row: u16, or u32 where the table has
    /// more than 2^16 values; in the host's byte order.
    pub fn index_bytes(&self) -> &[u8] {
        self.indices.bytes()
    }

    /// `out[i] = Σ coefficient · z[column]` over row i; rows past the matrix's end are zero. In parallel.
    ///
    /// `coefficients` is the circuit's table, `z` its whole assignment, ONE included.
    ///
    /// # Panics
    /// Where `z` does not have one value per variable of the circuit.
    pub fn evaluate(
        &self,
        coefficients: &[Fr],
        z: &[Canonical],
        out: &mut [Canonical],
        cancel: &CancelToken,
    ) -> Result<(), Cancelled> {
        let table = Table::new(coefficients);
        out.par_chunks_mut(ROWS_PER_TASK).enumerate().try_for_each(|(task, out)| {
            cancel.check()?;
            for (k, out) in out.iter_mut().enumerate() {
                *out = self.row_value(&table, z, task * ROWS_PER_TASK + k);
            }
            Ok(())
        })
    }

    /// Row i times z.
    pub(crate) fn row_value(&self, table: &Table<'_>, z: &[Canonical], i: usize) -> Canonical {
        assert_eq!(z.len(), self.width, "an assignment has one value per variable");
        let range = self.range(i);
        let columns = &self.columns[range.clone()];
        match &self.indices {
            Indices::U16(indices) => table.inner_product(columns, &indices[range], z),
            Indices::U32(indices) => table.inner_product(columns, &indices[range], z),
        }
    }
}

/// A circuit's coefficients, in Montgomery form and, as far as that is worth it, canonical too: most
/// values of most witnesses are 0 or 1, where a product needs no multiplication.
pub(crate) struct Table<'a> {
    montgomery: &'a [Fr],
    canonical: Vec<Canonical>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(coefficients: &'a [Fr]) -> Self {
        let few = coefficients.len().min(1 << 12);
        Self {
            montgomery: coefficients,
            canonical: coefficients[..few].iter().map(|c| c.to_canonical()).collect(),
        }
    }

    fn inner_product<I>(&self, columns: &[u32], indices: &[I], z: &[Canonical]) -> Canonical
    where
        I: Copy + Into<u32> + Sync,
    {
        if columns.len() > ENTRIES_PER_TASK {
            return columns
                .par_chunks(ENTRIES_PER_TASK)
                .zip(indices.par_chunks(ENTRIES_PER_TASK))
                .map(|(columns, indices)| self.inner_product(columns, indices, z))
                .reduce(|| Canonical::ZERO, |x, y| x + y);
        }
        let mut sum = Canonical::ZERO;
        for (&column, &index) in columns.iter().zip(indices) {
            let (value, index) = (z[column as usize], index.into());
            sum = match index {
                _ if value == Canonical::ZERO => sum,
                ONE_INDEX => sum + value,
                MINUS_ONE_INDEX => sum - value,
                _ => sum + self.product(index as usize, value),
            };
        }
        sum
    }

    /// Montgomery coefficient × canonical value = canonical product.
    fn product(&self, index: usize, value: Canonical) -> Canonical {
        match self.canonical.get(index) {
            Some(&coefficient) if value == Canonical::ONE => coefficient,
            _ => self.montgomery[index] * value,
        }
    }
}
