//! What a proof's memory on a device depends on: counts of a circuit and its key, nothing of their content.
use crate::{
    algebra::{Curve, PointEncoding, PointStore},
    gpu::{
        GpuError,
        ntt::MAX_LOG_SIZE,
        spmv::{LongRows, piece_rows},
    },
    groth16::{HBasis, KeyError, ProvingKey, Query},
    r1cs::{Circuit, Matrix},
};

/// A matrix in compressed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    /// Rows stored.
    pub rows: u64,
    /// Nonzero entries.
    pub entries: u64,
    /// Bytes of an offset, 4 or 8.
    pub offset_bytes: u64,
    /// Bytes of a coefficient's index, 2 or 4.
    pub index_bytes: u64,
    /// Rows that are evaluated in segments.
    pub long_rows: u64,
    /// Their segments.
    pub segments: u64,
    /// Entries of a piece of the matrix, at most.
    pub piece_entries: u64,
}

impl MatrixShape {
    fn of(matrix: &Matrix, long: &LongRows) -> Self {
        let (rows, entries) = (matrix.rows() as u64, matrix.entries());
        Self {
            rows,
            entries,
            offset_bytes: matrix.offset_bytes().len() as u64 / (rows + 1),
            index_bytes: (matrix.index_bytes().len() as u64).checked_div(entries).unwrap_or(2),
            long_rows: long.rows.len() as u64,
            segments: long.segments.len() as u64,
            piece_entries: piece_entries(matrix),
        }
    }
}

/// Entries of a matrix's fullest piece.
fn piece_entries(matrix: &Matrix) -> u64 {
    let rows = matrix.rows();
    let mut before = 0;
    let mut most = 0;
    for first in (0..rows).step_by(piece_rows(rows as u64) as usize) {
        let last = rows.min(first + piece_rows(rows as u64) as usize) - 1;
        most = most.max(matrix.row_end(last) - before);
        before = matrix.row_end(last);
    }
    most
}

/// One of a key's point vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryShape {
    /// Points.
    pub points: u64,
    /// Stored big-endian and to be decoded on the device; else in the device's own form.
    pub encoded: bool,
    /// Points belong to some of the variables, which a vector of indices names.
    pub filtered: bool,
}

impl QueryShape {
    fn of_points<C: Curve>(points: &PointStore<C>) -> Self {
        let encoded = matches!(points, PointStore::Mapped { encoding: PointEncoding::ZcashUncompressed, .. });
        Self { points: points.len() as u64, encoded, filtered: false }
    }

    fn of<C: Curve>(query: &Query<C>) -> Self {
        Self { filtered: query.variables().is_some(), ..Self::of_points(query.points()) }
    }
}

/// A circuit under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofShape {
    /// Public inputs with ONE.
    pub inputs: u64,
    /// All variables.
    pub variables: u64,
    /// log2 of the domain's size, at most 28.
    pub log_domain: u32,
    /// The basis of the quotient.
    pub h_basis: HBasis,
    /// Distinct coefficients.
    pub coefficients: u64,
    /// A and B.
    pub matrices: [MatrixShape; 2],
    /// The key's h.
    pub h: QueryShape,
    /// The key's l.
    pub l: QueryShape,
    /// The key's a.
    pub a: QueryShape,
    /// The key's b in G1.
    pub b_g1: QueryShape,
    /// The key's b in G2.
    pub b_g2: QueryShape,
}

/// A circuit and a key for which no plan can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The key is not one of this circuit.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The circuit is larger than what the kernels address.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl ProofShape {
    /// Of a circuit, its long rows, A's and B's, and its key.
    pub fn of(circuit: &Circuit, long: &[LongRows; 2], key: &ProvingKey) -> Result<Self, ShapeError> {
        key.check_shape(circuit)?;
        let log_domain = key.domain(circuit)?.log_size();
        if log_domain > MAX_LOG_SIZE {
            let (found, wanted) = (log_domain.into(), MAX_LOG_SIZE.into());
            return Err(GpuError::TooLarge { what: "log2 of the domain", found, wanted }.into());
        }
        Ok(Self {
            inputs: circuit.num_inputs() as u64,
            variables: circuit.num_variables() as u64,
            log_domain,
            h_basis: key.h_basis,
            coefficients: circuit.coefficients().len() as u64,
            matrices: [MatrixShape::of(circuit.a(), &long[0]), MatrixShape::of(circuit.b(), &long[1])],
            h: QueryShape::of_points(&key.h),
            l: QueryShape::of_points(&key.l),
            a: QueryShape::of(&key.a),
            b_g1: QueryShape::of(&key.b_g1),
            b_g2: QueryShape::of(&key.b_g2),
        })
    }

    /// Points of the domain.
    pub fn domain(&self) -> u64 {
        1 << self.log_domain
    }
}

/// Shapes for tests of plans.
#[cfg(test)]
pub(super) mod samples {
    use super::*;

    pub(in crate::gpu::prover) fn query(points: u64, filtered: bool) -> QueryShape {
        QueryShape { points, encoded: true, filtered }
    }

    pub(in crate::gpu::prover) fn matrix(rows: u64, entries: u64) -> MatrixShape {
        let piece_entries = entries.div_ceil(50);
        MatrixShape {
            rows,
            entries,
            offset_bytes: 4,
            index_bytes: 2,
            long_rows: 1000,
            segments: 5000,
            piece_entries,
        }
    }

    /// Filecoin's PoRep over 32 GiB sectors: 130,278,869 constraints.
    pub(in crate::gpu::prover) fn porep() -> ProofShape {
        ProofShape {
            inputs: 328,
            variables: 328 + 130_169_893,
            log_domain: 27,
            h_basis: HBasis::Monomial,
            coefficients: 2466,
            matrices: [matrix(130_278_869, 309_000_000), matrix(130_278_541, 130_000_000)],
            h: query((1 << 27) - 1, false),
            l: query(130_169_893, false),
            a: query(129_753_292 + 328, true),
            b_g1: query(33_112_282, true),
            b_g2: query(33_112_282, true),
        }
    }
}
