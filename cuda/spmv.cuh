// Rows of a rank-1 constraint system times the assignment: sparse matrices in compressed rows whose
// entries index a table of distinct coefficients (mirrors src/r1cs/matrix.rs).
//
// Coefficients are in Montgomery form and z is canonical, so products and sums are canonical. Rows with
// few entries take one thread each. The others were cut into segments beforehand, one warp each, so that
// a row of a million entries costs no more time than a million entries in short rows.
#pragma once
#include "fr.cuh"

namespace cuzk {
namespace spmv {

// Rows with more entries than this are cut into segments.
constexpr uint32_t SHORT_ROW = 16;
constexpr unsigned THREADS = 256;
constexpr unsigned WARP = 32;
// Positions of the coefficients 1 and -1 in every table.
constexpr uint32_t ONE_INDEX = 0;
constexpr uint32_t MINUS_ONE_INDEX = 1;

// Consecutive entries of one long row.
struct Segment {
    uint64_t begin;
    uint32_t row;
    uint32_t length;
};

// A row of several segments, whose sums are added up at the end.
struct LongRow {
    uint64_t first_segment;
    uint32_t row;
    uint32_t segments;
};

struct Matrix {
    const void* offsets;      // ends of rows, preceded by 0: uint64_t where wide_offsets, else uint32_t
    const uint32_t* columns;
    const void* indices;      // into the table: uint32_t where wide_indices, else uint16_t
    const Segment* segments;
    const LongRow* long_rows;
    Fr* segment_sums;         // one per segment
    Fr* out;                  // `domain` values
    uint64_t rows;            // stored rows; all from this one on are empty
    uint64_t first_entry;     // entries that precede those at `columns` and `indices`
    uint64_t num_segments;
    uint64_t num_long_rows;
    uint32_t wide_offsets;
    uint32_t wide_indices;
};

// Both matrices of a circuit (blockIdx.y chooses).
struct Evaluation {
    Matrix matrix[2];
    const Fr* coefficients;
    const Fr* z;
    uint64_t domain;
};

// Where a row begins in `columns` and `indices`.
CUZK_FN uint64_t offset(const Matrix& m, uint64_t row) {
    uint64_t entry = m.wide_offsets ? static_cast<const uint64_t*>(m.offsets)[row]
                                    : static_cast<const uint32_t*>(m.offsets)[row];
    return entry - m.first_entry;
}

CUZK_FN uint32_t index(const Matrix& m, uint64_t entry) {
    return m.wide_indices ? static_cast<const uint32_t*>(m.indices)[entry]
                          : static_cast<const uint16_t*>(m.indices)[entry];
}

// sum + coefficient * z[column] of one entry.
CUZK_FN Fr add_entry(const Fr& sum, const Evaluation& e, const Matrix& m, uint64_t entry) {
    uint32_t i = index(m, entry);
    Fr value = fr::load_constant(e.z + m.columns[entry]);
    if (i == ONE_INDEX) return fr::add(sum, value);
    if (i == MINUS_ONE_INDEX) return fr::sub(sum, value);
    return fr::add(sum, fr::mul(fr::load_constant(e.coefficients + i), value));
}

}  // namespace spmv
}  // namespace cuzk
