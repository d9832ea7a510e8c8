// Points of keys: from the encoding of files to the form that kernels read, and their multiples. Also the
// arithmetic of fields and curves, value by value, for tests and for a device's known answer.
#include "batch_affine.cuh"

namespace cuzk {
namespace points {

constexpr uint32_t THREADS = 128;

CUZK_WARP_FN uint64_t thread_of_grid() { return uint64_t(blockIdx.x) * THREADS + threadIdx.x; }

struct DecodeArgs {
    const uint4* encoded;      // Zcash's uncompressed encoding
    uint4* points;             // affine, Montgomery, little-endian
    unsigned long long* bad;   // becomes the least index of a point that is not a valid encoding
    uint64_t count;
};

CUZK_FN bool below_modulus(const Fp& a) {
    Carry cc;
    sub_cc(cc, a.l[0], fp_modulus(0));
#pragma unroll
    for (int i = 1; i < 12; i++) subc_cc(cc, a.l[i], fp_modulus(i));
    return subc(cc, 0, 0) != 0;
}

// Coordinates are 48 bytes, big-endian; those of G2 come with the coefficient of u first. The first byte's
// upper three bits are flags: compressed (never here), infinity, and a sign (never here). That
// coordinates satisfy the curve's equation is not checked.
template <class F>
CUZK_WARP_FN void decode(const DecodeArgs& a) {
    uint64_t i = thread_of_grid();
    if (i >= a.count) return;
    const uint4* from = a.encoded + i * PointMemory<F>::WORDS;
    uint4* to = a.points + i * PointMemory<F>::WORDS;
    bool good = true, infinity = false, zero = true;
    for (int s = 0; s < 2 * F::LANES; s++) {
        Fp big = load_share(from + 3 * s), v;
#pragma unroll
        for (int j = 0; j < 12; j++) v.l[j] = __byte_perm(big.l[11 - j], 0, 0x0123);
        if (s == 0) {
            infinity = v.l[11] >> 30 & 1;
            if (infinity) v.l[11] &= ~(1u << 30);
        }
        // A flag that is left makes the number too large.
        good &= below_modulus(v);
        zero &= v.is_zero();
        int place = F::LANES == 2 ? s ^ 1 : s;
        store_share(to + 3 * place, v * Fp::r_squared());
    }
    // Only zeros with the flag, and never without: (0, 0) is on neither curve.
    if (!good || zero != infinity) atomicMin(a.bad, (unsigned long long)i);
}

struct MultiplesArgs {
    const uint4* in;
    uint4* out;
    uint4* scratch;      // [batch][BATCH_WORDS][threads of the grid]
    uint64_t count;
    uint32_t doublings;
    uint32_t batch;      // points that share an inversion
};

template <class F>
struct Doubled {
    const uint4* points;
    uint32_t doublings;

    CUZK_WARP_FN Xyzz<F> operator()(uint64_t i) const {
        Xyzz<F> p = to_xyzz(load_affine<F>(points, i));
        for (uint32_t d = 0; d < doublings; d++) p = twice(p);
        return p;
    }
    CUZK_WARP_FN void infinite(uint64_t) const {}
};

// out[i] = 2^doublings * in[i].
template <class F>
CUZK_WARP_FN void multiples(const MultiplesArgs& a) {
    store_in_batches<F>(Doubled<F>{a.in, a.doublings}, a.out, a.scratch, a.count, a.batch);
}

struct FieldArgs {
    const uint4* left;   // three words a share
    const uint4* right;
    uint4* out;          // [5][count]: sums, differences, products, squares of left, inverses of left
    uint64_t count;      // elements; a multiple of the warp
};

template <class F>
CUZK_WARP_FN F load_element(const uint4* values, uint64_t i) {
    F v;
    share_of(v) = load_share(values + 3 * (i * F::LANES + threadIdx.x % F::LANES));
    return v;
}
template <class F>
CUZK_WARP_FN void store_element(uint4* values, uint64_t i, const F& v) {
    store_share(values + 3 * (i * F::LANES + threadIdx.x % F::LANES), share_of(v));
}

template <class F>
CUZK_WARP_FN void field_arithmetic(const FieldArgs& a) {
    uint64_t i = thread_of_grid() / F::LANES;
    // Counts are in whole warps: a warp ends together.
    if (i >= a.count) return;
    F l = load_element<F>(a.left, i), r = load_element<F>(a.right, i);
    store_element(a.out, i, l + r);
    store_element(a.out, a.count + i, l - r);
    store_element(a.out, 2 * a.count + i, l * r);
    store_element(a.out, 3 * a.count + i, square(l));
    store_element(a.out, 4 * a.count + i, inverse(l));
}

struct CurveArgs {
    const uint4* left;   // affine
    const uint4* right;
    uint4* out;          // [4][count] Jacobian: l + r; 2(l + r); (l + r) + (r + l); (l + r) + 2l
    uint64_t count;      // a multiple of the warp
};

template <class F>
CUZK_WARP_FN void curve_arithmetic(const CurveArgs& a) {
    uint64_t i = thread_of_grid() / F::LANES;
    if (i >= a.count) return;
    Affine<F> l = load_affine<F>(a.left, i), r = load_affine<F>(a.right, i);
    Xyzz<F> lr = to_xyzz(l) + r, rl = to_xyzz(r) + l;
    store_jacobian(a.out, i, lr, true);
    store_jacobian(a.out, a.count + i, twice(lr), true);
    store_jacobian(a.out, 2 * a.count + i, lr + rl, true);
    store_jacobian(a.out, 3 * a.count + i, lr + twice(to_xyzz(l)), true);
}

CUZK_KERNEL void CUZK_BOUNDS(THREADS, 4) cuzk_points_decode_g1(const CUZK_GRID_CONSTANT DecodeArgs a) { decode<Fp>(a); }
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 4) cuzk_points_decode_g2(const CUZK_GRID_CONSTANT DecodeArgs a) { decode<Fp2>(a); }
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 4) cuzk_points_multiples_g1(const CUZK_GRID_CONSTANT MultiplesArgs a) { multiples<Fp>(a); }
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 4) cuzk_points_multiples_g2(const CUZK_GRID_CONSTANT MultiplesArgs a) { multiples<Fp2>(a); }
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_fp_arithmetic(const CUZK_GRID_CONSTANT FieldArgs a) { field_arithmetic<Fp>(a); }
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_fp2_arithmetic(const CUZK_GRID_CONSTANT FieldArgs a) { field_arithmetic<Fp2>(a); }
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_curve_arithmetic_g1(const CUZK_GRID_CONSTANT CurveArgs a) { curve_arithmetic<Fp>(a); }
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 2) cuzk_curve_arithmetic_g2(const CUZK_GRID_CONSTANT CurveArgs a) { curve_arithmetic<Fp2>(a); }

}  // namespace points
}  // namespace cuzk
