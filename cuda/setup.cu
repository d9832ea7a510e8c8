// A trusted setup for tests, on the device: the columns of a circuit's matrices as polynomials at tau, and
// multiples of the generators by them. `src/gpu/setup.rs` launches the kernels and knows the trapdoor.
//
// u_i = sum over the rows of A[row][i] L_row(tau) goes through a matrix by rows and adds to columns, which
// no order of threads makes exclusive. Sums are therefore kept in eight 64-bit parts that each take 32-bit
// limbs by atomic additions, 2^32 of them without overflow, and are reduced once at the end.
#include "batch_affine.cuh"
#include "spmv.cuh"

namespace cuzk {
namespace setup {

constexpr unsigned THREADS = 256;
constexpr unsigned POINT_THREADS = 128;
// Domains have at most 2^28 points.
constexpr unsigned LOG_POWERS = 28;
constexpr unsigned LIMBS = 8;

CUZK_FN uint64_t element() { return uint64_t(blockIdx.x) * THREADS + threadIdx.x; }

CUZK_FN Fr one_limb(uint32_t v) {
    Fr x = fr::zero();
    x.limb[0] = v;
    return x;
}

// start * base^exponent, of the base's powers base^(2^k) in Montgomery form.
CUZK_FN Fr times_power(Fr start, const Fr* squares, uint64_t exponent) {
    for (unsigned k = 0; k < LOG_POWERS; k++) {
        if (exponent >> k & 1) start = fr::mul(squares[k], start);
    }
    return start;
}

struct Powers {
    Fr squares[LOG_POWERS];  // of the ratio
    Fr first;                // Montgomery
    Fr* out;
    uint64_t count;
};

// out[i] = first * ratio^i, canonical.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_setup_powers(const CUZK_GRID_CONSTANT Powers a) {
    uint64_t i = element();
    if (i >= a.count) return;
    fr::store(a.out + i, fr::mul(a.first, times_power(one_limb(1), a.squares, i)));
}

struct Lagrange {
    Fr squares[LOG_POWERS];  // of the domain's generator w
    Fr one;                  // Montgomery, as the others
    Fr tau;
    Fr factor;               // (tau^m - 1) / m
    Fr* out;
    uint64_t count;
};

// 1/a in Montgomery form, as a^(r - 2); one is 1 in Montgomery form.
CUZK_FN Fr inverse_of(const Fr& a, const Fr& one) {
    Fr result = one;
    for (int limb = LIMBS - 1; limb >= 0; limb--) {
        // r - 2 borrows from the second limb.
        uint32_t exponent = fr::modulus(limb);
        if (limb == 1) exponent -= 1;
        if (limb == 0) exponent -= 2;
        for (int bit = 31; bit >= 0; bit--) {
            result = fr::mul(result, result);
            if (exponent >> bit & 1) result = fr::mul(result, a);
        }
    }
    return result;
}

// out[i] = L_i(tau) = factor * w^i / (tau - w^i), canonical.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_setup_lagrange(const CUZK_GRID_CONSTANT Lagrange a) {
    uint64_t i = element();
    if (i >= a.count) return;
    Fr point = times_power(a.one, a.squares, i);
    Fr value = fr::mul(fr::mul(a.factor, point), inverse_of(fr::sub(a.tau, point), a.one));
    fr::store(a.out + i, fr::mul(value, one_limb(1)));
}

struct Columns {
    spmv::Matrix matrix;         // its offsets, columns and indices
    const Fr* coefficients;
    const Fr* lagrange;          // canonical, one for each row
    unsigned long long* sums;    // [column][LIMBS], zero before
};

// Adds a matrix's entries times the Lagrange values of their rows to their columns; one warp a row.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_setup_columns(const CUZK_GRID_CONSTANT Columns a) {
    uint64_t row = element() / WARP;
    if (row >= a.matrix.rows) return;
    uint64_t end = spmv::offset(a.matrix, row + 1);
    for (uint64_t entry = spmv::offset(a.matrix, row) + threadIdx.x % WARP; entry < end; entry += WARP) {
        uint32_t i = spmv::index(a.matrix, entry);
        Fr value = fr::load_constant(a.lagrange + row);
        if (i != spmv::ONE_INDEX) value = fr::mul(fr::load_constant(a.coefficients + i), value);
        unsigned long long* sum = a.sums + uint64_t(a.matrix.columns[entry]) * LIMBS;
#pragma unroll
        for (unsigned j = 0; j < LIMBS; j++) atomicAdd(sum + j, (unsigned long long)value.limb[j]);
    }
}

struct Reduce {
    const unsigned long long* sums;
    Fr* out;
    Fr one;         // 2^256 mod r
    Fr radix;       // 2^512 mod r
    uint64_t count;
};

// The column sums mod r, canonical.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_setup_reduce(const CUZK_GRID_CONSTANT Reduce a) {
    uint64_t i = element();
    if (i >= a.count) return;
    Fr low;
    uint64_t carry = 0;
#pragma unroll
    for (unsigned j = 0; j < LIMBS; j++) {
        carry += a.sums[i * LIMBS + j];
        low.limb[j] = uint32_t(carry);
        carry >>= 32;
    }
    // A sum of at most 2^32 values below 2^256.
    Fr high = fr::mul(a.radix, one_limb(uint32_t(carry)));
    fr::store(a.out + i, fr::add(fr::mul(a.one, low), high));
}

struct Combine {
    const Fr* u;
    const Fr* v;
    Fr* w;               // in and out
    Fr alpha;
    Fr beta;
    Fr over_gamma;       // of the inputs
    Fr over_delta;       // of the auxiliary variables
    uint64_t num_inputs;
    uint64_t count;
};

// w = (beta u + alpha v + w) / gamma for inputs, / delta for the others.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_setup_combine(const CUZK_GRID_CONSTANT Combine a) {
    uint64_t i = element();
    if (i >= a.count) return;
    Fr sum = fr::add(fr::mul(a.beta, fr::load(a.u + i)), fr::mul(a.alpha, fr::load(a.v + i)));
    sum = fr::add(sum, fr::load(a.w + i));
    fr::store(a.w + i, fr::mul(i < a.num_inputs ? a.over_gamma : a.over_delta, sum));
}

struct Multiples {
    const uint4* table;          // [window][2^width]: d * 2^(width * window) * G
    const uint32_t* scalars;     // LIMBS each
    const uint32_t* index;       // the scalar of each point; null: its own number
    uint4* out;
    uint4* scratch;
    unsigned long long* bad;     // becomes the least i whose point is infinity
    uint64_t count;
    uint64_t first;              // added to i there
    uint32_t width;              // at most 16
    uint32_t windows;
    uint32_t batch;
};

template <class F>
struct Multiple {
    const Multiples& a;

    CUZK_WARP_FN Xyzz<F> operator()(uint64_t i) const {
        const uint32_t* scalar = a.scalars + LIMBS * (a.index ? a.index[i] : i);
        Xyzz<F> sum = Xyzz<F>::infinity();
        for (uint32_t window = 0; window < a.windows; window++) {
            uint32_t bit = window * a.width, limb = bit / 32;
            uint64_t two = limb + 1 < LIMBS ? uint64_t(scalar[limb + 1]) << 32 : 0;
            uint32_t digit = uint32_t((two | scalar[limb]) >> (bit % 32)) & ((1u << a.width) - 1);
            sum = sum + load_affine<F>(a.table, (uint64_t(window) << a.width) + digit);
        }
        return sum;
    }
    CUZK_WARP_FN void infinite(uint64_t i) const { atomicMin(a.bad, (unsigned long long)(a.first + i)); }
};

// out[i] = scalar * G.
template <class F>
CUZK_WARP_FN void multiples(const Multiples& a) {
    store_in_batches<F>(Multiple<F>{a}, a.out, a.scratch, a.count, a.batch);
}

CUZK_KERNEL void CUZK_BOUNDS(POINT_THREADS, 4) cuzk_setup_multiples_g1(const CUZK_GRID_CONSTANT Multiples a) { multiples<Fp>(a); }
CUZK_KERNEL void CUZK_BOUNDS(POINT_THREADS, 4) cuzk_setup_multiples_g2(const CUZK_GRID_CONSTANT Multiples a) { multiples<Fp2>(a); }

}  // namespace setup
}  // namespace cuzk
