// Fp, the base field of BLS12-381, in Montgomery form with R = 2^384: 12 limbs of 32 bits, least
// significant first, always below the modulus p. In memory this is blst's `blst_fp`.
//
// Products run row by row (one limb of the second factor at a time), each row followed by one step
// of Montgomery's reduction. A 32x32-bit product takes two limbs, so a row is two carry chains: one
// over the even limbs of the first factor, one over the odd limbs, kept in two accumulators that
// change roles when the reduction drops a limb. No chain is broken by a carry that has to wait.
#pragma once
#include "carry.cuh"

namespace cuzk {

// -1/p mod 2^32.
constexpr uint32_t FP_NEG_INV = 0xfffcfffd;

// Limb i of p; folds to an immediate operand in unrolled code.
CUZK_FN constexpr uint32_t fp_modulus(int i) {
    constexpr uint32_t p[12] = {0xffffaaab, 0xb9feffff, 0xb153ffff, 0x1eabfffe, 0xf6b0f624, 0x6730d2a0,
                                0xf38512bf, 0x64774b84, 0x434bacd7, 0x4b1ba7b6, 0x397fe69a, 0x1a0111ea};
    return p[i];
}
// Limb i of R mod p, which is 1 in Montgomery form.
CUZK_FN constexpr uint32_t fp_one(int i) {
    constexpr uint32_t one[12] = {0x0002fffd, 0x76090000, 0xc40c0002, 0xebf4000b, 0x53c758ba, 0x5f489857,
                                  0x70525745, 0x77ce5853, 0xa256ec6d, 0x5c071a97, 0xfa80e493, 0x15f65ec3};
    return one[i];
}
// Limb i of R^2 mod p.
CUZK_FN constexpr uint32_t fp_r2(int i) {
    constexpr uint32_t r2[12] = {0x1c341746, 0xf4df1f34, 0x09d104f1, 0x0a76e6a6, 0x4c95b6d5, 0x8de5476c,
                                 0x939d83c0, 0x67eb88a9, 0xb519952d, 0x9a793e85, 0x92cae3aa, 0x11988fe5};
    return r2[i];
}

struct Fp {
    // Threads that hold one element together (Fp2 takes two).
    static constexpr int LANES = 1;
    uint32_t l[12];

    CUZK_FN static Fp zero() { return Fp{}; }
    CUZK_FN static Fp one() {
        Fp r;
#pragma unroll
        for (int i = 0; i < 12; i++) r.l[i] = fp_one(i);
        return r;
    }
    CUZK_FN static Fp modulus() {
        Fp r;
#pragma unroll
        for (int i = 0; i < 12; i++) r.l[i] = fp_modulus(i);
        return r;
    }
    CUZK_FN static Fp r_squared() {
        Fp r;
#pragma unroll
        for (int i = 0; i < 12; i++) r.l[i] = fp_r2(i);
        return r;
    }
    // Whether `c` holds for this element's threads; a branch on it may call any operation.
    CUZK_FN static bool any(bool c) { return c; }
    CUZK_FN static bool all(bool c) { return c; }
    // This thread's share of the element is zero.
    CUZK_FN bool share_is_zero() const {
        uint32_t t = 0;
#pragma unroll
        for (int i = 0; i < 12; i++) t |= l[i];
        return t == 0;
    }
    CUZK_FN bool is_zero() const { return share_is_zero(); }
};

CUZK_FN Fp select(bool c, const Fp& a, const Fp& b) {
    Fp r;
#pragma unroll
    for (int i = 0; i < 12; i++) r.l[i] = c ? a.l[i] : b.l[i];
    return r;
}

// t - p where t >= p, else t; for t < 2p.
CUZK_FN Fp fp_reduce_once(const Fp& t) {
    Carry cc;
    Fp d;
    d.l[0] = sub_cc(cc, t.l[0], fp_modulus(0));
#pragma unroll
    for (int i = 1; i < 12; i++) d.l[i] = subc_cc(cc, t.l[i], fp_modulus(i));
    uint32_t borrow = subc(cc, 0, 0);
    return select(borrow != 0, t, d);
}

CUZK_FN Fp operator+(const Fp& a, const Fp& b) {
    Carry cc;
    Fp t;
    t.l[0] = add_cc(cc, a.l[0], b.l[0]);
#pragma unroll
    for (int i = 1; i < 11; i++) t.l[i] = addc_cc(cc, a.l[i], b.l[i]);
    t.l[11] = addc(cc, a.l[11], b.l[11]);
    return fp_reduce_once(t);
}

CUZK_FN Fp operator-(const Fp& a, const Fp& b) {
    Carry cc;
    Fp t;
    t.l[0] = sub_cc(cc, a.l[0], b.l[0]);
#pragma unroll
    for (int i = 1; i < 12; i++) t.l[i] = subc_cc(cc, a.l[i], b.l[i]);
    uint32_t borrow = subc(cc, 0, 0);
    t.l[0] = add_cc(cc, t.l[0], borrow & fp_modulus(0));
#pragma unroll
    for (int i = 1; i < 11; i++) t.l[i] = addc_cc(cc, t.l[i], borrow & fp_modulus(i));
    t.l[11] = addc(cc, t.l[11], borrow & fp_modulus(11));
    return t;
}

CUZK_FN Fp operator-(const Fp& a) { return Fp::zero() - a; }
CUZK_FN Fp twice(const Fp& a) { return a + a; }

// The running sum of a product: even + odd * 2^32. The sum stays below 2^(32*13) and odd[11] takes
// its top, so no carry leaves the chains.
struct FpRows {
    uint32_t even[12], odd[12];

    // = a * b
    CUZK_FN void set(const Fp& a, uint32_t b) {
#pragma unroll
        for (int j = 0; j < 12; j += 2) {
            uint64_t e = uint64_t(a.l[j]) * b, o = uint64_t(a.l[j + 1]) * b;
            even[j] = uint32_t(e);
            even[j + 1] = uint32_t(e >> 32);
            odd[j] = uint32_t(o);
            odd[j + 1] = uint32_t(o >> 32);
        }
    }
    // += a * b
    CUZK_FN void add(const Fp& a, uint32_t b) {
        Carry cc;
        odd[0] = mad_lo_cc(cc, a.l[1], b, odd[0]);
        odd_chain(cc, a, b);
        even_chain(a, b);
    }
    // = this / 2^32 + a * b, for even[0] = 0.
    CUZK_FN void shift_add(const Fp& a, uint32_t b) {
        Carry cc;
        shift(cc);
        odd[0] = madc_lo_cc(cc, a.l[1], b, odd[0]);
        odd_chain(cc, a, b);
        even_chain(a, b);
    }
    // = this / 2^32, for even[0] = 0, plus the multiple of p that clears the new limb 0.
    CUZK_FN void shift_clear_limb() {
        Carry cc;
        Fp p = Fp::modulus();
        shift(cc);
        // A plain product leaves the carry alone.
        uint32_t m = even[0] * FP_NEG_INV;
        odd[0] = madc_lo_cc(cc, p.l[1], m, odd[0]);
        odd_chain(cc, p, m);
        even_chain(p, m);
    }
    // += the multiple of p that clears limb 0.
    CUZK_FN void clear_limb() {
        add(Fp::modulus(), even[0] * FP_NEG_INV);
    }
    // this / 2^32 for even[0] = 0; below 2p, reduced.
    CUZK_FN Fp finish() const {
        Carry cc;
        Fp r;
        r.l[0] = add_cc(cc, odd[0], even[1]);
#pragma unroll
        for (int j = 1; j < 11; j++) r.l[j] = addc_cc(cc, odd[j], even[j + 1]);
        r.l[11] = addc(cc, odd[11], 0);
        return fp_reduce_once(r);
    }

  private:
    // The odd accumulator becomes the even one; what the even one holds above its second limb becomes
    // the odd one; the second limb is added to limb 0, and the carry belongs to odd[0].
    CUZK_FN void shift(Carry& cc) {
        uint32_t e[12];
        e[0] = add_cc(cc, odd[0], even[1]);
#pragma unroll
        for (int j = 1; j < 12; j++) e[j] = odd[j];
#pragma unroll
        for (int j = 0; j < 10; j++) odd[j] = even[j + 2];
        odd[10] = odd[11] = 0;
#pragma unroll
        for (int j = 0; j < 12; j++) even[j] = e[j];
    }
    CUZK_FN void odd_chain(Carry& cc, const Fp& a, uint32_t b) {
#pragma unroll
        for (int j = 2; j < 12; j += 2) {
            odd[j - 1] = madc_hi_cc(cc, a.l[j - 1], b, odd[j - 1]);
            odd[j] = madc_lo_cc(cc, a.l[j + 1], b, odd[j]);
        }
        odd[11] = madc_hi(cc, a.l[11], b, odd[11]);
    }
    CUZK_FN void even_chain(const Fp& a, uint32_t b) {
        Carry cc;
        even[0] = mad_lo_cc(cc, a.l[0], b, even[0]);
#pragma unroll
        for (int j = 2; j < 12; j += 2) {
            even[j - 1] = madc_hi_cc(cc, a.l[j - 2], b, even[j - 1]);
            even[j] = madc_lo_cc(cc, a.l[j], b, even[j]);
        }
        even[11] = madc_hi_cc(cc, a.l[10], b, even[11]);
        odd[11] = addc(cc, odd[11], 0);
    }
};

// a * b / R
CUZK_FN Fp operator*(const Fp& a, const Fp& b) {
    FpRows t;
    t.set(a, b.l[0]);
    t.clear_limb();
#pragma unroll
    for (int i = 1; i < 12; i++) {
        t.shift_add(a, b.l[i]);
        t.clear_limb();
    }
    return t.finish();
}

// (a * b + c * d) / R with one reduction: half the reduction's work saved.
CUZK_FN Fp sum_of_products(const Fp& a, const Fp& b, const Fp& c, const Fp& d) {
    FpRows t;
    t.set(a, b.l[0]);
    t.add(c, d.l[0]);
    t.clear_limb();
#pragma unroll
    for (int i = 1; i < 12; i++) {
        t.shift_add(a, b.l[i]);
        t.add(c, d.l[i]);
        t.clear_limb();
    }
    return t.finish();
}

// a * a / R. The products of different limbs are formed once and doubled (78 instead of 144), then
// the lower half of the square is reduced by itself and the upper half added.
CUZK_FN Fp square(const Fp& a) {
    Carry cc;
    // w[s]: products a_i a_j, i < j, with i + j even (s = 0) or odd (s = 1), in limbs i + j.
    uint32_t even[24] = {}, odd[24] = {};
#pragma unroll
    for (int i = 0; i < 11; i++) {
        // j = i + 1, i + 3, ...: odd sums; limbs 2i + 1 upwards, one chain.
        {
            int j = i + 1;
            odd[i + j] = mad_lo_cc(cc, a.l[i], a.l[j], odd[i + j]);
#pragma unroll
            for (; j + 2 < 12; j += 2) {
                odd[i + j + 1] = madc_hi_cc(cc, a.l[i], a.l[j], odd[i + j + 1]);
                odd[i + j + 2] = madc_lo_cc(cc, a.l[i], a.l[j + 2], odd[i + j + 2]);
            }
            odd[i + j + 1] = madc_hi_cc(cc, a.l[i], a.l[j], odd[i + j + 1]);
            if (i + j + 2 < 24) odd[i + j + 2] = addc(cc, odd[i + j + 2], 0);
        }
        // j = i + 2, i + 4, ...: even sums; limbs 2i + 2 upwards.
        if (i + 2 < 12) {
            int j = i + 2;
            even[i + j] = mad_lo_cc(cc, a.l[i], a.l[j], even[i + j]);
#pragma unroll
            for (; j + 2 < 12; j += 2) {
                even[i + j + 1] = madc_hi_cc(cc, a.l[i], a.l[j], even[i + j + 1]);
                even[i + j + 2] = madc_lo_cc(cc, a.l[i], a.l[j + 2], even[i + j + 2]);
            }
            even[i + j + 1] = madc_hi_cc(cc, a.l[i], a.l[j], even[i + j + 1]);
            if (i + j + 2 < 24) even[i + j + 2] = addc(cc, even[i + j + 2], 0);
        }
    }
    // even += odd, doubled, plus the squares of the limbs.
    uint32_t w[24];
    w[0] = 0;
    w[1] = add_cc(cc, even[1], odd[1]);
#pragma unroll
    for (int i = 2; i < 24; i++) w[i] = addc_cc(cc, even[i], odd[i]);
    w[1] = add_cc(cc, w[1], w[1]);
#pragma unroll
    for (int i = 2; i < 24; i++) w[i] = addc_cc(cc, w[i], w[i]);
    w[0] = mad_lo_cc(cc, a.l[0], a.l[0], 0);
    w[1] = madc_hi_cc(cc, a.l[0], a.l[0], w[1]);
#pragma unroll
    for (int i = 1; i < 12; i++) {
        w[2 * i] = madc_lo_cc(cc, a.l[i], a.l[i], w[2 * i]);
        w[2 * i + 1] = madc_hi_cc(cc, a.l[i], a.l[i], w[2 * i + 1]);
    }
    FpRows t;
#pragma unroll
    for (int i = 0; i < 12; i++) {
        t.even[i] = w[i];
        t.odd[i] = 0;
    }
    t.clear_limb();
#pragma unroll
    for (int i = 1; i < 12; i++) t.shift_clear_limb();
    Fp r;
    r.l[0] = add_cc(cc, t.odd[0], t.even[1]);
#pragma unroll
    for (int j = 1; j < 11; j++) r.l[j] = addc_cc(cc, t.odd[j], t.even[j + 1]);
    r.l[11] = addc(cc, t.odd[11], 0);
    r.l[0] = add_cc(cc, r.l[0], w[12]);
#pragma unroll
    for (int j = 1; j < 11; j++) r.l[j] = addc_cc(cc, r.l[j], w[12 + j]);
    r.l[11] = addc(cc, r.l[11], w[23]);
    return fp_reduce_once(r);
}

}  // namespace cuzk
