// The scalar field of BLS12-381 on the device: r = x^4 - x^2 + 1 with x = -0xd201000000010000, 255 bits.
//
// An `Fr` is eight little-endian 32-bit limbs below r, either canonical (the integer itself) or in
// Montgomery form (value * 2^256 mod r). `mul` divides by 2^256, so Montgomery * canonical is canonical:
// the prover keeps all data canonical and all constants (coefficients, twiddles) in Montgomery form.
//
// The product takes r's shape into account. r = 1 mod 2^32, so the multiple of r that clears the lowest
// limb t0 is simply -t0 * r, and with s = 2^256 - r it is t0 * s - t0 * 2^256 where s = 2^32 - 1 mod 2^64:
// six of eight limb products remain in every step of the reduction, and the result lies in (-r, r).
#pragma once
#include "platform.cuh"

namespace cuzk {

struct alignas(16) Fr {
    uint32_t limb[8];
};

namespace fr {

// r, and s = 2^256 - r, by limb (constants after unrolling).
CUZK_FN constexpr uint32_t modulus(int i) {
    constexpr uint32_t r[8] = {0x00000001, 0xffffffff, 0xfffe5bfe, 0x53bda402,
                               0x09a1d805, 0x3339d808, 0x299d7d48, 0x73eda753};
    return r[i];
}

CUZK_FN Fr zero() {
    return Fr{{0, 0, 0, 0, 0, 0, 0, 0}};
}

CUZK_FN bool is_zero(const Fr& a) {
    uint32_t any = 0;
    for (int i = 0; i < 8; i++) any |= a.limb[i];
    return any == 0;
}

CUZK_FN bool equal(const Fr& a, const Fr& b) {
    uint32_t difference = 0;
    for (int i = 0; i < 8; i++) difference |= a.limb[i] ^ b.limb[i];
    return difference == 0;
}

// Whether the eight limbs are an integer below r.
CUZK_FN bool below_modulus(const Fr& a) {
    uint32_t borrow = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t d = (uint64_t)a.limb[i] - modulus(i) - borrow;
        borrow = (uint32_t)(d >> 63);
    }
    return borrow != 0;
}

// a + b mod r.
CUZK_FN Fr add(const Fr& a, const Fr& b) {
    Fr sum, reduced;
    uint32_t borrow;
#if CUZK_DEVICE_CODE
    // 2r < 2^256: the sum has no carry out.
    asm("add.cc.u32 %0, %8, %16; addc.cc.u32 %1, %9, %17; addc.cc.u32 %2, %10, %18;"
        "addc.cc.u32 %3, %11, %19; addc.cc.u32 %4, %12, %20; addc.cc.u32 %5, %13, %21;"
        "addc.cc.u32 %6, %14, %22; addc.u32 %7, %15, %23;"
        : "=r"(sum.limb[0]), "=r"(sum.limb[1]), "=r"(sum.limb[2]), "=r"(sum.limb[3]),
          "=r"(sum.limb[4]), "=r"(sum.limb[5]), "=r"(sum.limb[6]), "=r"(sum.limb[7])
        : "r"(a.limb[0]), "r"(a.limb[1]), "r"(a.limb[2]), "r"(a.limb[3]), "r"(a.limb[4]),
          "r"(a.limb[5]), "r"(a.limb[6]), "r"(a.limb[7]), "r"(b.limb[0]), "r"(b.limb[1]),
          "r"(b.limb[2]), "r"(b.limb[3]), "r"(b.limb[4]), "r"(b.limb[5]), "r"(b.limb[6]),
          "r"(b.limb[7]));
    asm("sub.cc.u32 %0, %9, %17; subc.cc.u32 %1, %10, %18; subc.cc.u32 %2, %11, %19;"
        "subc.cc.u32 %3, %12, %20; subc.cc.u32 %4, %13, %21; subc.cc.u32 %5, %14, %22;"
        "subc.cc.u32 %6, %15, %23; subc.cc.u32 %7, %16, %24; subc.u32 %8, 0, 0;"
        : "=r"(reduced.limb[0]), "=r"(reduced.limb[1]), "=r"(reduced.limb[2]), "=r"(reduced.limb[3]),
          "=r"(reduced.limb[4]), "=r"(reduced.limb[5]), "=r"(reduced.limb[6]), "=r"(reduced.limb[7]),
          "=r"(borrow)
        : "r"(sum.limb[0]), "r"(sum.limb[1]), "r"(sum.limb[2]), "r"(sum.limb[3]), "r"(sum.limb[4]),
          "r"(sum.limb[5]), "r"(sum.limb[6]), "r"(sum.limb[7]), "n"(modulus(0)), "n"(modulus(1)),
          "n"(modulus(2)), "n"(modulus(3)), "n"(modulus(4)), "n"(modulus(5)), "n"(modulus(6)),
          "n"(modulus(7)));
#else
    uint64_t carry = 0, d = 0;
    for (int i = 0; i < 8; i++) {
        carry += (uint64_t)a.limb[i] + b.limb[i];
        sum.limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    for (int i = 0; i < 8; i++) {
        d = (uint64_t)sum.limb[i] - modulus(i) - (d >> 63);
        reduced.limb[i] = (uint32_t)d;
    }
    borrow = (uint32_t)(d >> 63);
#endif
    for (int i = 0; i < 8; i++) sum.limb[i] = borrow ? sum.limb[i] : reduced.limb[i];
    return sum;
}

// x + r where `negative`, else x; x in (-r, r) in two's complement.
CUZK_FN Fr add_modulus_if(const Fr& x, bool negative) {
    uint32_t m[8];
    for (int i = 0; i < 8; i++) m[i] = negative ? modulus(i) : 0;
    Fr out;
#if CUZK_DEVICE_CODE
    asm("add.cc.u32 %0, %8, %16; addc.cc.u32 %1, %9, %17; addc.cc.u32 %2, %10, %18;"
        "addc.cc.u32 %3, %11, %19; addc.cc.u32 %4, %12, %20; addc.cc.u32 %5, %13, %21;"
        "addc.cc.u32 %6, %14, %22; addc.u32 %7, %15, %23;"
        : "=r"(out.limb[0]), "=r"(out.limb[1]), "=r"(out.limb[2]), "=r"(out.limb[3]),
          "=r"(out.limb[4]), "=r"(out.limb[5]), "=r"(out.limb[6]), "=r"(out.limb[7])
        : "r"(x.limb[0]), "r"(x.limb[1]), "r"(x.limb[2]), "r"(x.limb[3]), "r"(x.limb[4]),
          "r"(x.limb[5]), "r"(x.limb[6]), "r"(x.limb[7]), "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3]),
          "r"(m[4]), "r"(m[5]), "r"(m[6]), "r"(m[7]));
#else
    uint64_t carry = 0;
    for (int i = 0; i < 8; i++) {
        carry += (uint64_t)x.limb[i] + m[i];
        out.limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
#endif
    return out;
}

// a - b mod r.
CUZK_FN Fr sub(const Fr& a, const Fr& b) {
    Fr difference;
    uint32_t borrow;
#if CUZK_DEVICE_CODE
    asm("sub.cc.u32 %0, %9, %17; subc.cc.u32 %1, %10, %18; subc.cc.u32 %2, %11, %19;"
        "subc.cc.u32 %3, %12, %20; subc.cc.u32 %4, %13, %21; subc.cc.u32 %5, %14, %22;"
        "subc.cc.u32 %6, %15, %23; subc.cc.u32 %7, %16, %24; subc.u32 %8, 0, 0;"
        : "=r"(difference.limb[0]), "=r"(difference.limb[1]), "=r"(difference.limb[2]),
          "=r"(difference.limb[3]), "=r"(difference.limb[4]), "=r"(difference.limb[5]),
          "=r"(difference.limb[6]), "=r"(difference.limb[7]), "=r"(borrow)
        : "r"(a.limb[0]), "r"(a.limb[1]), "r"(a.limb[2]), "r"(a.limb[3]), "r"(a.limb[4]),
          "r"(a.limb[5]), "r"(a.limb[6]), "r"(a.limb[7]), "r"(b.limb[0]), "r"(b.limb[1]),
          "r"(b.limb[2]), "r"(b.limb[3]), "r"(b.limb[4]), "r"(b.limb[5]), "r"(b.limb[6]),
          "r"(b.limb[7]));
#else
    uint64_t d = 0;
    for (int i = 0; i < 8; i++) {
        d = (uint64_t)a.limb[i] - b.limb[i] - (d >> 63);
        difference.limb[i] = (uint32_t)d;
    }
    borrow = (uint32_t)(d >> 63);
#endif
    return add_modulus_if(difference, borrow != 0);
}

CUZK_FN Fr neg(const Fr& a) {
    return sub(zero(), a);
}

#if CUZK_DEVICE_CODE
// One step of the product, on accumulators of alternating offset: the value is
//   sum even[j] 2^(32 j) + sum odd[j] 2^(32 (j + 1))  modulo 2^288, in two's complement.
// Adds a * b, then q * (s - 2^256) with q = even[0], which clears even[0]. The next step sees the value
// divided by 2^32: `odd` becomes its even part, and even[2..8] its odd part, into which even[1] carries.
//
// `pair` products (lo, hi of one 32x32-bit product into two adjacent limbs) become single
// multiply-add-wide instructions with carry.
__device__ __forceinline__ void mul_step(uint32_t (&even)[8], uint32_t (&odd)[8], const Fr& a, uint32_t b,
                                         uint32_t e0_add, const uint32_t (&o_in)[6]) {
    // even[0] += what is left of the previous step; the carry enters odd[0].
    // The top limb of odd starts as the sign of the value.
    uint32_t sign = (uint32_t)((int32_t)even[7] >> 31);
    asm("add.cc.u32 %0, %0, %13;"
        "madc.lo.cc.u32 %1, %9, %22, %14; madc.hi.cc.u32 %2, %9, %22, %15;"
        "madc.lo.cc.u32 %3, %10, %22, %16; madc.hi.cc.u32 %4, %10, %22, %17;"
        "madc.lo.cc.u32 %5, %11, %22, %18; madc.hi.cc.u32 %6, %11, %22, %19;"
        "madc.lo.cc.u32 %7, %12, %22, %20; madc.hi.u32 %8, %12, %22, %21;"
        : "+r"(even[0]), "=&r"(odd[0]), "=&r"(odd[1]), "=&r"(odd[2]), "=&r"(odd[3]), "=&r"(odd[4]),
          "=&r"(odd[5]), "=&r"(odd[6]), "=&r"(odd[7])
        : "r"(a.limb[1]), "r"(a.limb[3]), "r"(a.limb[5]), "r"(a.limb[7]), "r"(e0_add), "r"(o_in[0]),
          "r"(o_in[1]), "r"(o_in[2]), "r"(o_in[3]), "r"(o_in[4]), "r"(o_in[5]), "r"(0u), "r"(sign), "r"(b));
    asm("mad.lo.cc.u32 %0, %9, %13, %0; madc.hi.cc.u32 %1, %9, %13, %1;"
        "madc.lo.cc.u32 %2, %10, %13, %2; madc.hi.cc.u32 %3, %10, %13, %3;"
        "madc.lo.cc.u32 %4, %11, %13, %4; madc.hi.cc.u32 %5, %11, %13, %5;"
        "madc.lo.cc.u32 %6, %12, %13, %6; madc.hi.cc.u32 %7, %12, %13, %7;"
        "addc.u32 %8, %8, 0;"
        : "+r"(even[0]), "+r"(even[1]), "+r"(even[2]), "+r"(even[3]), "+r"(even[4]), "+r"(even[5]),
          "+r"(even[6]), "+r"(even[7]), "+r"(odd[7])
        : "r"(a.limb[0]), "r"(a.limb[2]), "r"(a.limb[4]), "r"(a.limb[6]), "r"(b));
}

__device__ __forceinline__ void reduce_step(uint32_t (&even)[8], uint32_t (&odd)[8]) {
    uint32_t q = even[0];
    uint32_t minus_q = 0u - q;
    asm("mad.lo.cc.u32 %0, %7, %8, %0; madc.hi.cc.u32 %1, %7, %8, %1;"
        "madc.lo.cc.u32 %2, %7, %9, %2; madc.hi.cc.u32 %3, %7, %9, %3;"
        "madc.lo.cc.u32 %4, %7, %10, %4; madc.hi.cc.u32 %5, %7, %10, %5;"
        "addc.u32 %6, %6, %11;"
        : "+r"(even[2]), "+r"(even[3]), "+r"(even[4]), "+r"(even[5]), "+r"(even[6]), "+r"(even[7]),
          "+r"(odd[7])
        : "r"(q), "n"(~modulus(2)), "n"(~modulus(4)), "n"(~modulus(6)), "r"(minus_q));
    asm("add.cc.u32 %0, %0, %8; addc.cc.u32 %1, %1, 0;"
        "madc.lo.cc.u32 %2, %8, %9, %2; madc.hi.cc.u32 %3, %8, %9, %3;"
        "madc.lo.cc.u32 %4, %8, %10, %4; madc.hi.cc.u32 %5, %8, %10, %5;"
        "madc.lo.cc.u32 %6, %8, %11, %6; madc.hi.u32 %7, %8, %11, %7;"
        : "+r"(odd[0]), "+r"(odd[1]), "+r"(odd[2]), "+r"(odd[3]), "+r"(odd[4]), "+r"(odd[5]),
          "+r"(odd[6]), "+r"(odd[7])
        : "r"(q), "n"(~modulus(3)), "n"(~modulus(5)), "n"(~modulus(7)));
}
#endif

// a * b / 2^256 mod r, for a < r and any 256-bit b.
CUZK_FN Fr mul(const Fr& a, const Fr& b) {
    Fr out;
#if CUZK_DEVICE_CODE
    uint32_t x[8], y[8];
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        uint64_t p = (uint64_t)a.limb[j] * b.limb[0];
        x[j] = (uint32_t)p;
        x[j + 1] = (uint32_t)(p >> 32);
        p = (uint64_t)a.limb[j + 1] * b.limb[0];
        y[j] = (uint32_t)p;
        y[j + 1] = (uint32_t)(p >> 32);
    }
    reduce_step(x, y);
#pragma unroll
    for (int i = 1; i < 8; i++) {
        // The accumulators swap roles in every step.
        uint32_t(&even)[8] = i & 1 ? y : x;
        uint32_t(&odd)[8] = i & 1 ? x : y;
        uint32_t low = odd[1];
        uint32_t shifted[6] = {odd[2], odd[3], odd[4], odd[5], odd[6], odd[7]};
        mul_step(even, odd, a, b.limb[i], low, shifted);
        reduce_step(even, odd);
    }
    // The last step had y as its even part: the value is x + y / 2^32.
    asm("add.cc.u32 %0, %8, %16; addc.cc.u32 %1, %9, %17; addc.cc.u32 %2, %10, %18;"
        "addc.cc.u32 %3, %11, %19; addc.cc.u32 %4, %12, %20; addc.cc.u32 %5, %13, %21;"
        "addc.cc.u32 %6, %14, %22; addc.u32 %7, %15, 0;"
        : "=r"(out.limb[0]), "=r"(out.limb[1]), "=r"(out.limb[2]), "=r"(out.limb[3]), "=r"(out.limb[4]),
          "=r"(out.limb[5]), "=r"(out.limb[6]), "=r"(out.limb[7])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]),
          "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]));
#else
    // The same steps, t + a b_i - q r with q the lowest limb, as two sums of which the second is to be
    // subtracted: both stay below 2^256 after each division by 2^32.
    uint32_t t[8] = {0}, minus[8] = {0};
    for (int i = 0; i < 8; i++) {
        uint64_t carry = 0, borrow = 0;
        uint32_t q = t[0] - minus[0] + a.limb[0] * b.limb[i];
        for (int j = 0; j < 8; j++) {
            carry += (uint64_t)a.limb[j] * b.limb[i] + t[j];
            borrow += (uint64_t)q * modulus(j) + minus[j];
            // Of the lowest limbs both sums have the same: they cancel.
            if (j > 0) t[j - 1] = (uint32_t)carry, minus[j - 1] = (uint32_t)borrow;
            carry >>= 32;
            borrow >>= 32;
        }
        t[7] = (uint32_t)carry;
        minus[7] = (uint32_t)borrow;
    }
    int64_t d = 0;
    for (int i = 0; i < 8; i++) {
        d += (int64_t)t[i] - minus[i];
        out.limb[i] = (uint32_t)d;
        d >>= 32;
    }
#endif
    return add_modulus_if(out, (int32_t)out.limb[7] < 0);
}

// Reads and writes of memory that only this grid's earlier kernels wrote, 16 bytes at a time.
CUZK_FN Fr load(const Fr* p) {
#ifdef __CUDA_ARCH__
    const uint4* q = reinterpret_cast<const uint4*>(p);
    uint4 lo = q[0], hi = q[1];
    return Fr{{lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w}};
#else
    return *p;
#endif
}

// The same, of tables that no kernel in flight writes (cached in L1).
CUZK_FN Fr load_constant(const Fr* p) {
#ifdef __CUDA_ARCH__
    const uint4* q = reinterpret_cast<const uint4*>(p);
    uint4 lo = __ldg(q), hi = __ldg(q + 1);
    return Fr{{lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w}};
#else
    return *p;
#endif
}

CUZK_FN void store(Fr* p, const Fr& v) {
#ifdef __CUDA_ARCH__
    uint4* q = reinterpret_cast<uint4*>(p);
    q[0] = make_uint4(v.limb[0], v.limb[1], v.limb[2], v.limb[3]);
    q[1] = make_uint4(v.limb[4], v.limb[5], v.limb[6], v.limb[7]);
#else
    *p = v;
#endif
}

}  // namespace fr
}  // namespace cuzk
