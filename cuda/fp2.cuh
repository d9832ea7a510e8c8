// Fp2 = Fp(u), u^2 = -1, one element over two neighbouring threads: the even thread holds the
// coefficient of 1, the odd one that of u. Each thread needs the registers of one Fp, so G2 runs at
// G1's occupancy, and a product costs each thread two products of limbs and one reduction: together
// about what Karatsuba's three products and three reductions cost one thread.
//
// Products, inverses, `is_zero`, `any` and `all` let threads exchange shares: the whole warp must call
// them together.
#pragma once
#include "fp_inverse.cuh"
#include "warp.cuh"

namespace cuzk {

// The neighbouring thread's value.
CUZK_WARP_FN Fp partner(const Fp& a) {
    Fp r;
#if CUZK_DEVICE_CODE
#pragma unroll
    for (int i = 0; i < 12; i++) r.l[i] = __shfl_xor_sync(WHOLE_WARP, a.l[i], 1);
#elif !defined(__CUDACC__)
    host::exchange(&a, &r, sizeof a, lane() ^ 1);
#else
    r = a;  // nvcc's pass over host code, which never runs
#endif
    return r;
}

struct Fp2 {
    static constexpr int LANES = 2;
    Fp share;

    CUZK_WARP_FN static bool odd() { return threadIdx.x & 1; }
    CUZK_WARP_FN static Fp2 zero() { return {Fp::zero()}; }
    CUZK_WARP_FN static Fp2 one() { return {select(odd(), Fp::zero(), Fp::one())}; }
    CUZK_WARP_FN static bool any(bool c) { return __any_sync(WHOLE_WARP, c); }
    CUZK_WARP_FN static bool all(bool c) { return __all_sync(WHOLE_WARP, c); }
    CUZK_WARP_FN bool share_is_zero() const { return share.is_zero(); }
    CUZK_WARP_FN bool is_zero() const {
        uint32_t zero = __ballot_sync(WHOLE_WARP, share.is_zero());
        return ((zero & (zero >> 1)) >> (lane() & ~1u)) & 1;
    }
};

CUZK_WARP_FN Fp2 select(bool c, const Fp2& a, const Fp2& b) { return {select(c, a.share, b.share)}; }
CUZK_WARP_FN Fp2 operator+(const Fp2& a, const Fp2& b) { return {a.share + b.share}; }
CUZK_WARP_FN Fp2 operator-(const Fp2& a, const Fp2& b) { return {a.share - b.share}; }
CUZK_WARP_FN Fp2 operator-(const Fp2& a) { return {-a.share}; }
CUZK_WARP_FN Fp2 twice(const Fp2& a) { return {twice(a.share)}; }

// p - a, in [0, p]: a factor of a product need not be reduced to below p.
CUZK_FN Fp complement(const Fp& a) {
    Carry cc;
    Fp r;
    r.l[0] = sub_cc(cc, fp_modulus(0), a.l[0]);
#pragma unroll
    for (int i = 1; i < 11; i++) r.l[i] = subc_cc(cc, fp_modulus(i), a.l[i]);
    r.l[11] = subc(cc, fp_modulus(11), a.l[11]);
    return r;
}

// Even: a0 b0 - a1 b1. Odd: a1 b0 + a0 b1.
CUZK_WARP_FN Fp2 operator*(const Fp2& a, const Fp2& b) {
    bool odd = Fp2::odd();
    Fp other_a = partner(a.share), other_b = partner(b.share);
    Fp b0 = select(odd, other_b, b.share), b1 = select(odd, b.share, other_b);
    return {sum_of_products(a.share, b0, select(odd, other_a, complement(other_a)), b1)};
}

// Even: (a0 + a1)(a0 - a1). Odd: 2 a0 a1.
CUZK_WARP_FN Fp2 square(const Fp2& a) {
    bool odd = Fp2::odd();
    Fp other = partner(a.share);
    Fp s = select(odd, other, a.share) + other;
    Fp d = a.share - select(odd, Fp::zero(), other);
    return {s * d};
}

// (a0 - a1 u) / (a0^2 + a1^2); 0 for 0.
CUZK_WARP_FN Fp2 inverse(const Fp2& a) {
    Fp s = square(a.share);
    Fp norm = s + partner(s);
    Fp i = inverse(norm);
    return {i * select(Fp2::odd(), complement(a.share), a.share)};
}

}  // namespace cuzk
