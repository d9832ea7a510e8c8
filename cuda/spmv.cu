// The kernels that evaluate constraints, see spmv.cuh. `src/gpu/spmv.rs` lays the matrices out.
#include "spmv.cuh"

namespace cuzk {
namespace spmv {

// Rows of at most SHORT_ROW entries, and zeros up to the domain's size; one thread a row. Leaves longer
// rows alone.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_spmv_short_rows(const CUZK_GRID_CONSTANT Evaluation e) {
    const Matrix& m = e.matrix[blockIdx.y];
    uint64_t row = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (row >= e.domain) return;
    uint64_t begin = 0, end = 0;
    if (row < m.rows) {
        begin = offset(m, row);
        end = offset(m, row + 1);
    }
    if (end - begin > SHORT_ROW) return;
    Fr sum = fr::zero();
    for (uint64_t entry = begin; entry < end; entry++) sum = add_entry(sum, e, m, entry);
    fr::store(m.out + row, sum);
}

// Sums of segments, one warp each.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_spmv_segments(const CUZK_GRID_CONSTANT Evaluation e) {
    CUZK_DYNAMIC_SHARED(Fr, sums);
    const Matrix& m = e.matrix[blockIdx.y];
    const unsigned lane = threadIdx.x % WARP;
    const uint64_t s = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / WARP;
    Fr sum = fr::zero();
    if (s < m.num_segments) {
        const Segment segment = m.segments[s];
        for (uint32_t i = lane; i < segment.length; i += WARP) {
            sum = add_entry(sum, e, m, segment.begin - m.first_entry + i);
        }
    }
    for (unsigned half = WARP / 2; half > 0; half /= 2) {
        fr::store(sums + threadIdx.x, sum);
        CUZK_BARRIER();
        if (lane < half) sum = fr::add(sum, fr::load(sums + threadIdx.x + half));
        CUZK_BARRIER();
    }
    if (lane == 0 && s < m.num_segments) fr::store(m.segment_sums + s, sum);
}

// Rows of one or more segments; one thread a row.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_spmv_long_rows(const CUZK_GRID_CONSTANT Evaluation e) {
    const Matrix& m = e.matrix[blockIdx.y];
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= m.num_long_rows) return;
    const LongRow long_row = m.long_rows[i];
    Fr sum = fr::zero();
    for (uint32_t s = 0; s < long_row.segments; s++) {
        sum = fr::add(sum, fr::load(m.segment_sums + long_row.first_segment + s));
    }
    fr::store(m.out + long_row.row, sum);
}

}  // namespace spmv
}  // namespace cuzk
