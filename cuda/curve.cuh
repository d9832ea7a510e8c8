// Points of y^2 = x^3 + b over a field F (Fp for G1, Fp2 for G2; b is never needed): affine, as keys
// hold them, and XYZZ (x = X/ZZ, y = Y/ZZZ, ZZ^3 = ZZZ^2), which adds without inversions. Formulas:
// Explicit-Formulas Database, "XYZZ coordinates for short Weierstrass curves", madd-2008-s, add-2008-s,
// dbl-2008-s-1. All additions are complete: infinity, equal and opposite points give right sums.
//
// The affine infinity is x = y = 0, as in blst; the XYZZ one is ZZ = 0.
#pragma once
#include "fp2.cuh"

namespace cuzk {

template <class F>
struct Affine {
    F x, y;
    CUZK_WARP_FN static Affine infinity() { return {F::zero(), F::zero()}; }
    CUZK_WARP_FN bool is_infinity() const {
        bool x_zero = x.is_zero(), y_zero = y.is_zero();
        return x_zero && y_zero;
    }
};

template <class F>
CUZK_WARP_FN Affine<F> select(bool c, const Affine<F>& a, const Affine<F>& b) {
    return {select(c, a.x, b.x), select(c, a.y, b.y)};
}

// Points in memory: x then y, each coordinate 48 bytes a share, so 16-byte words 6 (G1) or 12 (G2).
template <class F>
struct PointMemory {
    static constexpr uint32_t WORDS = 6 * F::LANES;
    // First word of this thread's share of x, and of y.
    CUZK_WARP_FN static uint32_t x_word() { return F::LANES == 2 ? 3 * (threadIdx.x & 1) : 0; }
    CUZK_WARP_FN static uint32_t y_word() { return 3 * F::LANES + x_word(); }
};

CUZK_WARP_FN Fp load_share(const uint4* w) {
    Fp r;
#pragma unroll
    for (int i = 0; i < 3; i++) {
        uint4 v = w[i];
        r.l[4 * i] = v.x;
        r.l[4 * i + 1] = v.y;
        r.l[4 * i + 2] = v.z;
        r.l[4 * i + 3] = v.w;
    }
    return r;
}
CUZK_WARP_FN void store_share(uint4* w, const Fp& a) {
#pragma unroll
    for (int i = 0; i < 3; i++) w[i] = {a.l[4 * i], a.l[4 * i + 1], a.l[4 * i + 2], a.l[4 * i + 3]};
}
CUZK_WARP_FN Fp& share_of(Fp& a) { return a; }
CUZK_WARP_FN Fp& share_of(Fp2& a) { return a.share; }
CUZK_WARP_FN const Fp& share_of(const Fp& a) { return a; }
CUZK_WARP_FN const Fp& share_of(const Fp2& a) { return a.share; }

template <class F>
CUZK_WARP_FN F load_x(const uint4* points, uint64_t i) {
    F r;
    share_of(r) = load_share(points + i * PointMemory<F>::WORDS + PointMemory<F>::x_word());
    return r;
}
template <class F>
CUZK_WARP_FN F load_y(const uint4* points, uint64_t i) {
    F r;
    share_of(r) = load_share(points + i * PointMemory<F>::WORDS + PointMemory<F>::y_word());
    return r;
}
template <class F>
CUZK_WARP_FN Affine<F> load_affine(const uint4* points, uint64_t i) {
    return {load_x<F>(points, i), load_y<F>(points, i)};
}
template <class F>
CUZK_WARP_FN void store_affine(uint4* points, uint64_t i, const Affine<F>& p) {
    uint4* w = points + i * PointMemory<F>::WORDS;
    store_share(w + PointMemory<F>::x_word(), share_of(p.x));
    store_share(w + PointMemory<F>::y_word(), share_of(p.y));
}

template <class F>
struct Xyzz {
    F x, y, zz, zzz;
    CUZK_WARP_FN static Xyzz infinity() { return {F::zero(), F::zero(), F::zero(), F::zero()}; }
    CUZK_WARP_FN bool is_infinity() const { return zz.is_zero(); }
};

template <class F>
CUZK_WARP_FN Xyzz<F> select(bool c, const Xyzz<F>& a, const Xyzz<F>& b) {
    return {select(c, a.x, b.x), select(c, a.y, b.y), select(c, a.zz, b.zz), select(c, a.zzz, b.zzz)};
}

template <class F>
CUZK_WARP_FN Xyzz<F> to_xyzz(const Affine<F>& p) {
    bool infinity = p.is_infinity();
    F one = select(infinity, F::zero(), F::one());
    return {p.x, p.y, one, one};
}

// XYZZ sums are rare next to affine ones, and many products each: they call, which keeps the code small.
template <class F>
CUZK_CALLED F product(const F a, const F b) {
    return a * b;
}
template <class F>
CUZK_CALLED F squared(const F a) {
    return square(a);
}

// The double of (x : y : zz : zzz); infinity gives infinity.
template <class F>
CUZK_WARP_FN Xyzz<F> twice(const Xyzz<F>& p) {
    F u = twice(p.y);
    F v = squared(u);
    F w = product(u, v);
    F s = product(p.x, v);
    F xx = squared(p.x);
    F m = twice(xx) + xx;
    F x = squared(m) - twice(s);
    F y = product(m, s - x) - product(w, p.y);
    return {x, y, product(v, p.zz), product(w, p.zzz)};
}

// What the sums below share: p1 + p2 for points whose coordinates over a common denominator
// are (u1, s1), (u1 + dx, s1 + dy), with zz, zzz the product of their denominators.
template <class F>
CUZK_WARP_FN Xyzz<F> add_on_common(const F& u1, const F& s1, const F& dx, const F& dy, const F& zz,
                                   const F& zzz) {
    F pp = squared(dx);
    F ppp = product(dx, pp);
    F q = product(u1, pp);
    F x = squared(dy) - ppp - twice(q);
    F y = product(dy, q - x) - product(s1, ppp);
    return {x, y, product(zz, pp), product(zzz, ppp)};
}

template <class F>
CUZK_WARP_FN Xyzz<F> operator+(const Xyzz<F>& p, const Affine<F>& q) {
    bool p_infinite = p.is_infinity(), q_infinite = q.is_infinity();
    F dx = product(q.x, p.zz) - p.x, dy = product(q.y, p.zzz) - p.y;
    Xyzz<F> sum = add_on_common(p.x, p.y, dx, dy, p.zz, p.zzz);
    // Equal points; opposite ones come out with ZZ = 0.
    bool dx_zero = dx.is_zero(), dy_zero = dy.is_zero();
    bool equal = dx_zero && dy_zero && !p_infinite && !q_infinite;
    if (F::any(equal)) sum = select(equal, twice(to_xyzz(q)), sum);
    if (F::any(p_infinite)) sum = select(p_infinite, to_xyzz(q), sum);
    return select(q_infinite, p, sum);
}

template <class F>
CUZK_WARP_FN Xyzz<F> operator+(const Xyzz<F>& p, const Xyzz<F>& q) {
    bool p_infinite = p.is_infinity(), q_infinite = q.is_infinity();
    F u1 = product(p.x, q.zz), s1 = product(p.y, q.zzz);
    F dx = product(q.x, p.zz) - u1, dy = product(q.y, p.zzz) - s1;
    Xyzz<F> sum = add_on_common(u1, s1, dx, dy, product(p.zz, q.zz), product(p.zzz, q.zzz));
    bool dx_zero = dx.is_zero(), dy_zero = dy.is_zero();
    bool equal = dx_zero && dy_zero && !p_infinite && !q_infinite;
    if (F::any(equal)) sum = select(equal, twice(q), sum);
    sum = select(p_infinite, q, sum);
    return select(q_infinite, p, sum);
}

// Jacobian points in memory, as blst's `blst_p1` and `blst_p2`: x, y, z with x/z^2, y/z^3 affine.
template <class F>
constexpr uint32_t JACOBIAN_WORDS = 9 * F::LANES;

// Writes point i where `write`; the whole warp, in Fp2.
template <class F>
CUZK_WARP_FN void store_jacobian(uint4* points, uint64_t i, const Xyzz<F>& p, bool write) {
    // z = ZZ: x = X ZZ / ZZ^2 and y = Y ZZZ / ZZ^3, as ZZ^3 = ZZZ^2.
    F x = product(p.x, p.zz), y = product(p.y, p.zzz);
    if (!write) return;
    uint4* w = points + i * JACOBIAN_WORDS<F> + PointMemory<F>::x_word();
    store_share(w, share_of(x));
    store_share(w + 3 * F::LANES, share_of(y));
    store_share(w + 6 * F::LANES, share_of(p.zz));
}

}  // namespace cuzk
