//! A·z and B·z on the device: how a circuit's matrices are laid out there. See `cuda/spmv.cuh`.
use super::{
    DeviceSlice, GpuError, Grid, Launcher,
    launch::{KernelArgs, launch},
};
use crate::{
    algebra::{Canonical, Fr},
    r1cs::Matrix,
};
use std::ops::Range;

/// Rows with more entries than this are cut into segments.
const SHORT_ROW: u64 = 16;
/// Entries of a segment, at most.
const SEGMENT: u64 = 1 << 10;
const THREADS: u32 = 256;
const WARP: u32 = 32;

/// Consecutive entries of one long row; mirrors `spmv::Segment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    begin: u64,
    row: u32,
    length: u32,
}

/// A row of one or more segments; mirrors `spmv::LongRow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct LongRow {
    first_segment: u64,
    row: u32,
    segments: u32,
}

/// The long rows of a matrix and their segments, found once for each circuit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LongRows {
    /// All segments, in order.
    pub segments: Vec<Segment>,
    /// The rows they make up.
    pub rows: Vec<LongRow>,
}

impl LongRows {
    /// Of a matrix; it has at most 2^28 rows.
    pub fn of(matrix: &Matrix) -> Result<Self, GpuError> {
        let found = matrix.rows() as u64;
        let wanted = 1 << super::ntt::MAX_LOG_SIZE;
        if found > wanted {
            return Err(GpuError::TooLarge { what: "rows of a matrix", found, wanted });
        }
        let mut long = Self::default();
        let mut begin = 0;
        for row in 0..matrix.rows() {
            let end = matrix.row_end(row);
            if end - begin > SHORT_ROW {
                long.push(row as u32, begin, end);
            }
            begin = end;
        }
        Ok(long)
    }

    fn push(&mut self, row: u32, begin: u64, end: u64) {
        let first_segment = self.segments.len() as u64;
        let mut at = begin;
        while at < end {
            let length = (end - at).min(SEGMENT);
            self.segments.push(Segment { begin: at, row, length: length as u32 });
            at += length;
        }
        // A row names each of at most 2^32 columns once: fewer than 2^32 segments.
        let segments = (self.segments.len() as u64 - first_segment) as u32;
        self.rows.push(LongRow { first_segment, row, segments });
    }
}

/// Consecutive rows of a matrix, with what belongs to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPiece {
    /// The rows.
    pub rows: Range<u64>,
    /// Their entries.
    pub entries: Range<u64>,
    /// Their long rows' segments.
    pub segments: Range<usize>,
    /// Their long rows.
    pub long_rows: Range<usize>,
}

/// Pieces that a matrix is cut into.
const PIECES: u64 = 64;

/// Rows of each piece but the last of a matrix of so many rows.
pub fn piece_rows(rows: u64) -> u64 {
    rows.div_ceil(PIECES).max(1)
}

/// A matrix in pieces of as many rows.
pub fn pieces(matrix: &Matrix, long: &LongRows) -> Vec<RowPiece> {
    let rows = matrix.rows() as u64;
    let first_entry = |row: u64| if row == 0 { 0 } else { matrix.row_end(row as usize - 1) };
    let mut pieces = Vec::new();
    let mut first = 0;
    while first < rows {
        let end = rows.min(first + piece_rows(rows));
        let segment = |row: u64| long.segments.partition_point(|segment| u64::from(segment.row) < row);
        let long_row = |row: u64| long.rows.partition_point(|long| u64::from(long.row) < row);
        pieces.push(RowPiece {
            rows: first..end,
            entries: first_entry(first)..first_entry(end),
            segments: segment(first)..segment(end),
            long_rows: long_row(first)..long_row(end),
        });
        first = end;
    }
    pieces
}

/// Where a matrix lies in device memory.
#[derive(Clone, Copy)]
pub struct DeviceMatrix {
    /// `Matrix::offset_bytes`.
    pub offsets: DeviceSlice<u8>,
    /// Columns of the entries.
    pub columns: DeviceSlice<u32>,
    /// `Matrix::index_bytes`.
    pub indices: DeviceSlice<u8>,
    /// `LongRows::segments`.
    pub segments: DeviceSlice<Segment>,
    /// `LongRows::rows`.
    pub long_rows: DeviceSlice<LongRow>,
    /// Scratch memory, a value per segment.
    pub segment_sums: DeviceSlice<Canonical>,
    /// Rows stored.
    pub rows: u64,
    /// Entries of the rows before these: 0, but in a piece of a matrix.
    pub first_entry: u64,
}

/// Mirrors `spmv::Matrix`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct MatrixArg {
    offsets: u64,
    columns: u64,
    indices: u64,
    segments: u64,
    long_rows: u64,
    segment_sums: u64,
    out: u64,
    rows: u64,
    first_entry: u64,
    num_segments: u64,
    num_long_rows: u64,
    wide_offsets: u32,
    wide_indices: u32,
}

/// Mirrors `spmv::Evaluation`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Evaluation {
    matrix: [MatrixArg; 2],
    coefficients: u64,
    z: u64,
    domain: u64,
}
// SAFETY: integers in C layout, as in the kernels.
unsafe impl KernelArgs for Evaluation {}

impl DeviceMatrix {
    /// The kernels' view of it, with `out` for the rows' values.
    pub(super) fn arg(&self, out: DeviceSlice<Canonical>) -> Result<MatrixArg, GpuError> {
        let entries = self.columns.len() as u64;
        Ok(MatrixArg {
            offsets: self.offsets.address(),
            columns: self.columns.address(),
            indices: self.indices.address(),
            segments: self.segments.address(),
            long_rows: self.long_rows.address(),
            segment_sums: self.segment_sums.address(),
            out: out.address(),
            rows: self.rows,
            first_entry: self.first_entry,
            num_segments: self.segments.len() as u64,
            num_long_rows: self.long_rows.len() as u64,
            wide_offsets: wide("row offsets", self.offsets, self.rows + 1, 4, 8)?,
            wide_indices: wide("coefficient indices", self.indices, entries, 2, 4)?,
        })
    }
}

/// Whether `count` values in `bytes` have the larger of two sizes; an error where they have neither.
fn wide(
    what: &'static str,
    bytes: DeviceSlice<u8>,
    count: u64,
    narrow: u64,
    wide: u64,
) -> Result<u32, GpuError> {
    let found = bytes.len() as u64;
    match found {
        _ if found == count * narrow => Ok(0),
        _ if found == count * wide => Ok(1),
        _ => Err(GpuError::Length { what, found, wanted: count * narrow }),
    }
}

/// a = A·z and b = B·z over the domain, whose size is a's and b's; rows past a matrix's end are zero.
///
/// # Safety
/// All memory named is valid until the launches have run, and it holds what its names say: columns below
/// z's length, indices below the table's.
pub unsafe fn evaluate(
    launcher: &impl Launcher,
    matrices: [&DeviceMatrix; 2],
    coefficients: DeviceSlice<Fr>,
    z: DeviceSlice<Canonical>,
    [a, b]: [DeviceSlice<Canonical>; 2],
) -> Result<(), GpuError> {
    let domain = a.len() as u64;
    for (found, wanted) in [
        (b.len() as u64, domain),
        (domain.min(matrices[0].rows), matrices[0].rows),
        (domain.min(matrices[1].rows), matrices[1].rows),
    ] {
        if found != wanted {
            return Err(GpuError::Length { what: "the domain", found, wanted });
        }
    }
    let args = Evaluation {
        matrix: [matrices[0].arg(a)?, matrices[1].arg(b)?],
        coefficients: coefficients.address(),
        z: z.address(),
        domain,
    };
    let most = |f: fn(&DeviceMatrix) -> usize| f(matrices[0]).max(f(matrices[1])) as u64;
    let segments = most(|m| m.segments.len());
    let long_rows = most(|m| m.long_rows.len());
    let mut by_warp = Grid::covering(segments * u64::from(WARP), THREADS, 2)?;
    by_warp.shared_bytes = THREADS * size_of::<Canonical>() as u32;
    // SAFETY: the caller's promise; rows fit the domain, and widths agree with the lengths.
    unsafe {
        launch(launcher, "cuzk_spmv_short_rows", Grid::covering(domain, THREADS, 2)?, &args)?;
        launch(launcher, "cuzk_spmv_segments", by_warp, &args)?;
        launch(launcher, "cuzk_spmv_long_rows", Grid::covering(long_rows, THREADS, 2)?, &args)
    }
}

/// A matrix times z, rows `piece` of it, into that part of `out`, whose size is the domain's. `matrix` has the
/// piece's offsets (one more than it has rows), columns, indices, segments and long rows, the scratch memory of
/// all segments and, as `first_entry`, the piece's.
///
/// # Safety
/// As for [`evaluate`].
pub unsafe fn evaluate_piece(
    launcher: &impl Launcher,
    matrix: &DeviceMatrix,
    piece: &RowPiece,
    coefficients: DeviceSlice<Fr>,
    z: DeviceSlice<Canonical>,
    out: DeviceSlice<Canonical>,
) -> Result<(), GpuError> {
    let (rows, segments) = (&piece.rows, &piece.segments);
    let lacks = |what, slice: usize, wanted| GpuError::Length { what, found: slice as u64, wanted };
    let of_rows = out
        .slice(rows.start as usize..rows.end as usize)
        .ok_or_else(|| lacks("the domain", out.len(), rows.end))?;
    let sums = matrix
        .segment_sums
        .slice(segments.clone())
        .ok_or_else(|| lacks("sums of segments", matrix.segment_sums.len(), segments.end as u64))?;
    let evaluation = |arg: MatrixArg| Evaluation {
        matrix: [arg; 2],
        coefficients: coefficients.address(),
        z: z.address(),
        domain: matrix.rows,
    };
    // Short rows and segments are numbered within the piece, what long rows name is not.
    let within = evaluation(DeviceMatrix { segment_sums: sums, ..*matrix }.arg(of_rows)?);
    let all = evaluation(matrix.arg(out)?);
    let mut by_warp = Grid::covering(segments.len() as u64 * u64::from(WARP), THREADS, 1)?;
    by_warp.shared_bytes = THREADS * size_of::<Canonical>() as u32;
    let long_rows = Grid::covering(piece.long_rows.len() as u64, THREADS, 1)?;
    // SAFETY: the caller's promise; widths agree with the lengths.
    unsafe {
        launch(launcher, "cuzk_spmv_short_rows", Grid::covering(matrix.rows, THREADS, 1)?, &within)?;
        launch(launcher, "cuzk_spmv_segments", by_warp, &within)?;
        launch(launcher, "cuzk_spmv_long_rows", long_rows, &all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::r1cs::CircuitBuilder;

    #[test]
    fn pieces_cover_a_matrix() {
        let one = Fr::from_u64(1);
        for (rows, wanted) in [(0, 1), (5, 6), (63, 64), (64, 33), (200, 51)] {
            let mut builder = CircuitBuilder::new(1, 2000);
            for row in 0..rows {
                let entries = if row % 7 == 3 { 17 + 600 * (row % 3) } else { row % 4 };
                let terms: Vec<(u32, Fr)> = (0..entries).map(|i| (i, one)).collect();
                builder.constraint(&terms, &[], &[]).unwrap();
            }
            let circuit = builder.finish().unwrap();
            let long = LongRows::of(circuit.a()).unwrap();
            let pieces = pieces(circuit.a(), &long);
            assert_eq!(pieces.len(), wanted);
            let mut end = RowPiece { rows: 0..0, entries: 0..0, segments: 0..0, long_rows: 0..0 };
            for piece in pieces {
                assert_eq!((piece.rows.start, piece.entries.start), (end.rows.end, end.entries.end));
                assert_eq!(piece.segments.start, end.segments.end);
                assert_eq!(piece.long_rows.start, end.long_rows.end);
                let rows = piece.rows.clone();
                assert!(long.segments[piece.segments.clone()].iter().all(|s| rows.contains(&s.row.into())));
                assert!(long.rows[piece.long_rows.clone()].iter().all(|l| rows.contains(&l.row.into())));
                assert_eq!(piece.entries.end, circuit.a().row_end(rows.end as usize - 1));
                end = piece;
            }
            assert_eq!((end.rows.end, end.entries.end), (u64::from(rows) + 1, circuit.a().entries()));
            assert_eq!((end.segments.end, end.long_rows.end), (long.segments.len(), long.rows.len()));
        }
    }

    #[test]
    fn long_rows_are_cut_into_segments() {
        let mut long = LongRows::default();
        long.push(5, 100, 100 + 2 * SEGMENT + 1);
        long.push(9, 5000, 5017);
        let lengths: Vec<_> = long.segments.iter().map(|s| (s.begin, s.row, s.length)).collect();
        assert_eq!(lengths, [(100, 5, 1024), (1124, 5, 1024), (2148, 5, 1), (5000, 9, 17)]);
        assert_eq!(
            long.rows,
            [
                LongRow { first_segment: 0, row: 5, segments: 3 },
                LongRow { first_segment: 3, row: 9, segments: 1 }
            ]
        );
    }
}
