// The inverse in Fp, by the division steps of Bernstein and Yang ("Fast constant-time gcd computation
// and modular inversion", 2019) with half-integer delta: 30 steps on the low words give a 2x2 matrix,
// which is then applied to the long numbers f, g (shrinking to +-gcd, 0) and d, e (with d*x = f and
// e*x = g mod p). Long numbers are 13 signed limbs of 30 bits. About 25 products' time, where
// Fermat's x^(p-2) takes 450.
#pragma once
#include "fp.cuh"

namespace cuzk {

// For a 381-bit modulus 879 steps always suffice: 30 rounds of 30.
constexpr int INVERSE_ROUNDS = 30;
constexpr int32_t MASK_30 = 0x3fffffff;
// 1/p mod 2^30.
constexpr uint32_t FP_INV_30 = 0x30003;

struct Signed30 {
    int32_t l[13];
};

// Bits 30i .. 30i+29 of a 384-bit number.
CUZK_FN constexpr int32_t window_30(const uint32_t* l, int i) {
    int low = 30 * i / 32, shift = 30 * i % 32;
    uint32_t v = l[low] >> shift;
    if (shift > 2 && low + 1 < 12) v |= l[low + 1] << (32 - shift);
    return int32_t(v & MASK_30);
}
CUZK_FN Signed30 to_signed_30(const Fp& a) {
    Signed30 r;
#pragma unroll
    for (int i = 0; i < 13; i++) r.l[i] = window_30(a.l, i);
    return r;
}
// Limbs must be in [0, 2^30).
CUZK_FN Fp from_signed_30(const Signed30& a) {
    Fp r;
#pragma unroll
    for (int i = 0; i < 12; i++) {
        int low = 32 * i / 30, shift = 32 * i % 30;
        uint32_t v = uint32_t(a.l[low]) >> shift;
        v |= uint32_t(a.l[low + 1]) << (30 - shift);
        r.l[i] = v;
    }
    return r;
}

struct StepMatrix {
    int32_t u, v, q, r;
};

// 30 division steps on the low words of f and g; returns the new zeta = -(delta + 1/2).
CUZK_FN int32_t division_steps(int32_t zeta, uint32_t f, uint32_t g, StepMatrix& t) {
    uint32_t u = 1, v = 0, q = 0, r = 1;
#pragma unroll 6
    for (int i = 0; i < 30; i++) {
        bool odd = g & 1;
        bool swap = odd && zeta < 0;
        // Where swapping, (f, g) -> (g, (g - f) / 2), else g -> (g + f) / 2 or g / 2.
        uint32_t fs = swap ? 0 - f : f, us = swap ? 0 - u : u, vs = swap ? 0 - v : v;
        f = swap ? g : f;
        u = swap ? q : u;
        v = swap ? r : v;
        zeta = swap ? -zeta - 2 : zeta - 1;
        g = (odd ? g + fs : g) >> 1;
        q = odd ? q + us : q;
        r = odd ? r + vs : r;
        u <<= 1;
        v <<= 1;
    }
    t = {int32_t(u), int32_t(v), int32_t(q), int32_t(r)};
    return zeta;
}

CUZK_FN int64_t mul_wide(int32_t a, int32_t b) { return int64_t(a) * b; }

// (f, g) -> t (f, g) / 2^30; the division is exact.
CUZK_FN void apply_to_fg(Signed30& f, Signed30& g, const StepMatrix& t) {
    int64_t cf = mul_wide(t.u, f.l[0]) + mul_wide(t.v, g.l[0]);
    int64_t cg = mul_wide(t.q, f.l[0]) + mul_wide(t.r, g.l[0]);
    cf >>= 30;
    cg >>= 30;
#pragma unroll
    for (int i = 1; i < 13; i++) {
        int32_t fi = f.l[i], gi = g.l[i];
        cf += mul_wide(t.u, fi) + mul_wide(t.v, gi);
        cg += mul_wide(t.q, fi) + mul_wide(t.r, gi);
        f.l[i - 1] = int32_t(cf) & MASK_30;
        g.l[i - 1] = int32_t(cg) & MASK_30;
        cf >>= 30;
        cg >>= 30;
    }
    f.l[12] = int32_t(cf);
    g.l[12] = int32_t(cg);
}

// (d, e) -> t (d, e) / 2^30 mod p; both stay in (-2p, p).
CUZK_FN void apply_to_de(Signed30& d, Signed30& e, const StepMatrix& t) {
    const Signed30 p = to_signed_30(Fp::modulus());
    int32_t sd = d.l[12] >> 31, se = e.l[12] >> 31;
    // Multiples of p that first make d, e non-negative, then clear the low 30 bits.
    int32_t md = (t.u & sd) + (t.v & se), me = (t.q & sd) + (t.r & se);
    int64_t cd = mul_wide(t.u, d.l[0]) + mul_wide(t.v, e.l[0]);
    int64_t ce = mul_wide(t.q, d.l[0]) + mul_wide(t.r, e.l[0]);
    md -= int32_t((FP_INV_30 * uint32_t(cd) + uint32_t(md)) & MASK_30);
    me -= int32_t((FP_INV_30 * uint32_t(ce) + uint32_t(me)) & MASK_30);
    cd += mul_wide(p.l[0], md);
    ce += mul_wide(p.l[0], me);
    cd >>= 30;
    ce >>= 30;
#pragma unroll
    for (int i = 1; i < 13; i++) {
        int32_t di = d.l[i], ei = e.l[i];
        cd += mul_wide(t.u, di) + mul_wide(t.v, ei) + mul_wide(p.l[i], md);
        ce += mul_wide(t.q, di) + mul_wide(t.r, ei) + mul_wide(p.l[i], me);
        d.l[i - 1] = int32_t(cd) & MASK_30;
        e.l[i - 1] = int32_t(ce) & MASK_30;
        cd >>= 30;
        ce >>= 30;
    }
    d.l[12] = int32_t(cd);
    e.l[12] = int32_t(ce);
}

// d + p where d < 0; then negated where `negative`, and + p where that is < 0. For d in (-2p, p).
CUZK_FN Signed30 normalise(Signed30 d, bool negative) {
    const Signed30 p = to_signed_30(Fp::modulus());
#pragma unroll
    for (int pass = 0; pass < 2; pass++) {
        int32_t below = d.l[12] >> 31, carry = 0;
        int32_t flip = pass == 0 && negative ? -1 : 0;
#pragma unroll
        for (int i = 0; i < 13; i++) {
            int32_t v = d.l[i] + (p.l[i] & below);
            v = ((v ^ flip) - flip) + carry;
            carry = v >> 30;
            d.l[i] = i < 12 ? v & MASK_30 : v;
        }
    }
    return d;
}

// 1/a in Montgomery form; 0 for 0.
CUZK_CALLED Fp inverse(const Fp a) {
    // x = aR; e starts as R^2, so the end is R^2 / (aR) = R/a.
    Signed30 f = to_signed_30(Fp::modulus()), g = to_signed_30(a);
    Signed30 d = {}, e = to_signed_30(Fp::r_squared());
    int32_t zeta = -1;
#pragma unroll 1
    for (int i = 0; i < INVERSE_ROUNDS; i++) {
        StepMatrix t;
        zeta = division_steps(zeta, uint32_t(f.l[0]) | uint32_t(f.l[1]) << 30,
                              uint32_t(g.l[0]) | uint32_t(g.l[1]) << 30, t);
        apply_to_de(d, e, t);
        apply_to_fg(f, g, t);
        int32_t rest = 0;
#pragma unroll
        for (int j = 0; j < 13; j++) rest |= g.l[j];
        if (rest == 0) break;
    }
    return from_signed_30(normalise(d, f.l[12] < 0));
}

}  // namespace cuzk
