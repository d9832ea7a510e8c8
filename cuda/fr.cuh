// The scalar field of BLS12-381 on the device: r = x^4 - x^2 + 1 with x = -0xd201000000010000, 255 bits.
//
// An `Fr` is eight little-endian 32-bit limbs below r, either canonical (the integer itself) or in
// Montgomery form (value * 2^256 mod r). `mul` divides by 2^256, so Montgomery * canonical is canonical:
// the prover keeps all data canonical and all constants (coefficients, twiddles) in Montgomery form.
//
// The product takes r's shape into account. As r = 1 mod 2^32, subtracting q * r clears the lowest limb q
// of a sum. That is adding q * s, s = 2^256 - r, and subtracting q * 2^256; and as s = 2^32 - 1 mod 2^64,
// only six of eight limb products remain in every step. The eight q are subtracted together at the end.
//
// Sums of the transforms stay "loose", below r + 2^240, which saves the exact comparison with r: whether
// to subtract r is decided by the highest limb alone. Products are exact whatever their second factor.
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

// s = 2^256 - r: r's limbs inverted, plus 1.
CUZK_FN constexpr uint32_t complement(int i) {
    return i > 0 ? ~modulus(i) : 0u - modulus(0);
}

CUZK_FN constexpr uint32_t twice_modulus(int i) {
    return modulus(i) << 1 | (i > 0 ? modulus(i - 1) >> 31 : 0);
}

CUZK_FN Fr zero() {
    return Fr{{0, 0, 0, 0, 0, 0, 0, 0}};
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

#if CUZK_DEVICE_CODE
// Eight limbs as outputs and inputs of assembly.
#define CUZK_OUT(x)                                                                                     \
    "=r"((x).limb[0]), "=r"((x).limb[1]), "=r"((x).limb[2]), "=r"((x).limb[3]), "=r"((x).limb[4]),      \
        "=r"((x).limb[5]), "=r"((x).limb[6]), "=r"((x).limb[7])
#define CUZK_INOUT(x)                                                                                   \
    "+r"((x).limb[0]), "+r"((x).limb[1]), "+r"((x).limb[2]), "+r"((x).limb[3]), "+r"((x).limb[4]),      \
        "+r"((x).limb[5]), "+r"((x).limb[6]), "+r"((x).limb[7])
#define CUZK_IN(x)                                                                                      \
    "r"((x).limb[0]), "r"((x).limb[1]), "r"((x).limb[2]), "r"((x).limb[3]), "r"((x).limb[4]),           \
        "r"((x).limb[5]), "r"((x).limb[6]), "r"((x).limb[7])
#define CUZK_CONSTANT(f)                                                                                \
    "n"(f(0)), "n"(f(1)), "n"(f(2)), "n"(f(3)), "n"(f(4)), "n"(f(5)), "n"(f(6)), "n"(f(7))
#endif

// a + b, which has no carry out of 256 bits.
CUZK_FN Fr plain_add(const Fr& a, const Fr& b) {
    Fr sum;
#if CUZK_DEVICE_CODE
    asm("add.cc.u32 %0, %8, %16; addc.cc.u32 %1, %9, %17; addc.cc.u32 %2, %10, %18;"
        "addc.cc.u32 %3, %11, %19; addc.cc.u32 %4, %12, %20; addc.cc.u32 %5, %13, %21;"
        "addc.cc.u32 %6, %14, %22; addc.u32 %7, %15, %23;"
        : CUZK_OUT(sum)
        : CUZK_IN(a), CUZK_IN(b));
#else
    uint64_t carry = 0;
    for (int i = 0; i < 8; i++) {
        carry += (uint64_t)a.limb[i] + b.limb[i];
        sum.limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
#endif
    return sum;
}

// a - b mod 2^256, and in `borrow` whether b > a.
CUZK_FN Fr plain_sub(const Fr& a, const Fr& b, uint32_t& borrow) {
    Fr difference;
#if CUZK_DEVICE_CODE
    asm("sub.cc.u32 %0, %9, %17; subc.cc.u32 %1, %10, %18; subc.cc.u32 %2, %11, %19;"
        "subc.cc.u32 %3, %12, %20; subc.cc.u32 %4, %13, %21; subc.cc.u32 %5, %14, %22;"
        "subc.cc.u32 %6, %15, %23; subc.cc.u32 %7, %16, %24; subc.u32 %8, 0, 0;"
        : CUZK_OUT(difference), "=r"(borrow)
        : CUZK_IN(a), CUZK_IN(b));
#else
    uint64_t d = 0;
    for (int i = 0; i < 8; i++) {
        d = (uint64_t)a.limb[i] - b.limb[i] - (d >> 63);
        difference.limb[i] = (uint32_t)d;
    }
    borrow = (uint32_t)(d >> 63);
#endif
    return difference;
}

// x + r mod 2^256 where the condition holds, else x.
CUZK_FN Fr add_modulus_if(Fr x, bool condition) {
#if CUZK_DEVICE_CODE
    asm("{.reg .pred p; setp.ne.u32 p, %8, 0;"
        "@p add.cc.u32 %0, %0, %9; @p addc.cc.u32 %1, %1, %10; @p addc.cc.u32 %2, %2, %11;"
        "@p addc.cc.u32 %3, %3, %12; @p addc.cc.u32 %4, %4, %13; @p addc.cc.u32 %5, %5, %14;"
        "@p addc.cc.u32 %6, %6, %15; @p addc.u32 %7, %7, %16;}"
        : CUZK_INOUT(x)
        : "r"((uint32_t)condition), CUZK_CONSTANT(modulus));
    return x;
#else
    Fr m = zero();
    for (int i = 0; i < 8; i++) m.limb[i] = condition ? modulus(i) : 0;
    return plain_add(x, m);
#endif
}

// x + 2 r mod 2^256 where the condition holds, else x.
CUZK_FN Fr add_twice_modulus_if(Fr x, bool condition) {
#if CUZK_DEVICE_CODE
    asm("{.reg .pred p; setp.ne.u32 p, %8, 0;"
        "@p add.cc.u32 %0, %0, %9; @p addc.cc.u32 %1, %1, %10; @p addc.cc.u32 %2, %2, %11;"
        "@p addc.cc.u32 %3, %3, %12; @p addc.cc.u32 %4, %4, %13; @p addc.cc.u32 %5, %5, %14;"
        "@p addc.cc.u32 %6, %6, %15; @p addc.u32 %7, %7, %16;}"
        : CUZK_INOUT(x)
        : "r"((uint32_t)condition), CUZK_CONSTANT(twice_modulus));
    return x;
#else
    Fr m = zero();
    for (int i = 0; i < 8; i++) m.limb[i] = condition ? twice_modulus(i) : 0;
    return plain_add(x, m);
#endif
}

// x - r mod 2^256 where the condition holds, else x.
CUZK_FN Fr sub_modulus_if(Fr x, bool condition) {
#if CUZK_DEVICE_CODE
    asm("{.reg .pred p; setp.ne.u32 p, %8, 0;"
        "@p sub.cc.u32 %0, %0, %9; @p subc.cc.u32 %1, %1, %10; @p subc.cc.u32 %2, %2, %11;"
        "@p subc.cc.u32 %3, %3, %12; @p subc.cc.u32 %4, %4, %13; @p subc.cc.u32 %5, %5, %14;"
        "@p subc.cc.u32 %6, %6, %15; @p subc.u32 %7, %7, %16;}"
        : CUZK_INOUT(x)
        : "r"((uint32_t)condition), CUZK_CONSTANT(modulus));
    return x;
#else
    Fr m = zero();
    uint32_t borrow;
    for (int i = 0; i < 8; i++) m.limb[i] = condition ? modulus(i) : 0;
    return plain_sub(x, m, borrow);
#endif
}

// x mod r, for x < 2r.
CUZK_FN Fr reduce(const Fr& x) {
    Fr m, out;
    uint32_t borrow;
    for (int i = 0; i < 8; i++) m.limb[i] = modulus(i);
    Fr difference = plain_sub(x, m, borrow);
    for (int i = 0; i < 8; i++) out.limb[i] = borrow ? x.limb[i] : difference.limb[i];
    return out;
}

// a + b mod r.
CUZK_FN Fr add(const Fr& a, const Fr& b) {
    return reduce(plain_add(a, b));
}

// a - b mod r. With a loose and b < r the result is loose.
CUZK_FN Fr sub(const Fr& a, const Fr& b) {
    uint32_t borrow;
    Fr difference = plain_sub(a, b, borrow);
    return add_modulus_if(difference, borrow != 0);
}

// A value congruent to x < 2r + 2^240 and loose.
CUZK_FN Fr loosen(const Fr& x) {
    return sub_modulus_if(x, x.limb[7] > modulus(7));
}

// a + b, loose; a + b < 2r + 2^240.
CUZK_FN Fr add_loose(const Fr& a, const Fr& b) {
    return loosen(plain_add(a, b));
}

// A value below 2r congruent to a - b, for loose a and b.
CUZK_FN Fr sub_below_2r(const Fr& a, const Fr& b) {
    uint32_t borrow;
    Fr difference = plain_sub(a, b, borrow);
    return add_twice_modulus_if(difference, borrow != 0);
}

#if CUZK_DEVICE_CODE
// One step of the product, on accumulators of alternating offset: the value is
//   sum even[j] 2^(32 j) + sum odd[j] 2^(32 (j + 1)).
// Adds a * b. Of the step before, `low` is still to be added to even[0], and `rest` to odd.
//
// Pairs of products (low and high half of one 32x32-bit product into two adjacent limbs) become single
// multiply-add-wide instructions with carry. They are the bottleneck: 14 a step.
__device__ __forceinline__ void mul_step(uint32_t (&even)[8], uint32_t (&odd)[8], const Fr& a, uint32_t b,
                                         uint32_t low, const uint32_t (&rest)[6]) {
    asm("add.cc.u32 %0, %0, %13;"
        "madc.lo.cc.u32 %1, %9, %20, %14; madc.hi.cc.u32 %2, %9, %20, %15;"
        "madc.lo.cc.u32 %3, %10, %20, %16; madc.hi.cc.u32 %4, %10, %20, %17;"
        "madc.lo.cc.u32 %5, %11, %20, %18; madc.hi.cc.u32 %6, %11, %20, %19;"
        "madc.lo.cc.u32 %7, %12, %20, 0; madc.hi.u32 %8, %12, %20, 0;"
        : "+r"(even[0]), "=&r"(odd[0]), "=&r"(odd[1]), "=&r"(odd[2]), "=&r"(odd[3]), "=&r"(odd[4]),
          "=&r"(odd[5]), "=&r"(odd[6]), "=&r"(odd[7])
        : "r"(a.limb[1]), "r"(a.limb[3]), "r"(a.limb[5]), "r"(a.limb[7]), "r"(low), "r"(rest[0]),
          "r"(rest[1]), "r"(rest[2]), "r"(rest[3]), "r"(rest[4]), "r"(rest[5]), "r"(b));
    asm("mad.lo.cc.u32 %0, %9, %13, %0; madc.hi.cc.u32 %1, %9, %13, %1;"
        "madc.lo.cc.u32 %2, %10, %13, %2; madc.hi.cc.u32 %3, %10, %13, %3;"
        "madc.lo.cc.u32 %4, %11, %13, %4; madc.hi.cc.u32 %5, %11, %13, %5;"
        "madc.lo.cc.u32 %6, %12, %13, %6; madc.hi.cc.u32 %7, %12, %13, %7;"
        "addc.u32 %8, %8, 0;"
        : "+r"(even[0]), "+r"(even[1]), "+r"(even[2]), "+r"(even[3]), "+r"(even[4]), "+r"(even[5]),
          "+r"(even[6]), "+r"(even[7]), "+r"(odd[7])
        : "r"(a.limb[0]), "r"(a.limb[2]), "r"(a.limb[4]), "r"(a.limb[6]), "r"(b));
}

// Adds q * s with q = even[0], which clears even[0], and returns q. Afterwards the value is divided by
// 2^32: `odd` becomes its even part, and even[2..8] its odd part, into which even[1] carries.
__device__ __forceinline__ uint32_t reduce_step(uint32_t (&even)[8], uint32_t (&odd)[8]) {
    uint32_t q = even[0];
    asm("mad.lo.cc.u32 %0, %7, %8, %0; madc.hi.cc.u32 %1, %7, %8, %1;"
        "madc.lo.cc.u32 %2, %7, %9, %2; madc.hi.cc.u32 %3, %7, %9, %3;"
        "madc.lo.cc.u32 %4, %7, %10, %4; madc.hi.cc.u32 %5, %7, %10, %5;"
        "addc.u32 %6, %6, 0;"
        : "+r"(even[2]), "+r"(even[3]), "+r"(even[4]), "+r"(even[5]), "+r"(even[6]), "+r"(even[7]),
          "+r"(odd[7])
        : "r"(q), "n"(complement(2)), "n"(complement(4)), "n"(complement(6)));
    asm("add.cc.u32 %0, %0, %8; addc.cc.u32 %1, %1, 0;"
        "madc.lo.cc.u32 %2, %8, %9, %2; madc.hi.cc.u32 %3, %8, %9, %3;"
        "madc.lo.cc.u32 %4, %8, %10, %4; madc.hi.cc.u32 %5, %8, %10, %5;"
        "madc.lo.cc.u32 %6, %8, %11, %6; madc.hi.u32 %7, %8, %11, %7;"
        : "+r"(odd[0]), "+r"(odd[1]), "+r"(odd[2]), "+r"(odd[3]), "+r"(odd[4]), "+r"(odd[5]),
          "+r"(odd[6]), "+r"(odd[7])
        : "r"(q), "n"(complement(3)), "n"(complement(5)), "n"(complement(7)));
    return q;
}
#endif

// a * b / 2^256 mod r, for a < r and any 256-bit b.
CUZK_FN Fr mul(const Fr& a, const Fr& b) {
    // What the steps leave, and the digits q by which it is too large: both below 2^256.
    Fr sum, excess;
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
    excess.limb[0] = reduce_step(x, y);
#pragma unroll
    for (int i = 1; i < 8; i++) {
        // The accumulators swap roles in every step.
        uint32_t(&even)[8] = i & 1 ? y : x;
        uint32_t(&odd)[8] = i & 1 ? x : y;
        uint32_t low = odd[1];
        uint32_t rest[6] = {odd[2], odd[3], odd[4], odd[5], odd[6], odd[7]};
        mul_step(even, odd, a, b.limb[i], low, rest);
        excess.limb[i] = reduce_step(even, odd);
    }
    // The last step had y as its even part: the value is x + y / 2^32.
    sum = plain_add(Fr{{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}},
                    Fr{{y[1], y[2], y[3], y[4], y[5], y[6], y[7], 0}});
#else
    for (int i = 0; i < 8; i++) sum.limb[i] = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t product = 0, multiple = 0;
        uint32_t q = sum.limb[0] + a.limb[0] * b.limb[i];
        for (int j = 0; j < 8; j++) {
            product += (uint64_t)a.limb[j] * b.limb[i] + sum.limb[j];
            multiple += (uint64_t)q * complement(j) + (uint32_t)product;
            if (j > 0) sum.limb[j - 1] = (uint32_t)multiple;
            product >>= 32;
            multiple >>= 32;
        }
        sum.limb[7] = (uint32_t)(product + multiple);
        excess.limb[i] = q;
    }
#endif
    uint32_t borrow;
    Fr difference = plain_sub(sum, excess, borrow);
    return add_modulus_if(difference, borrow != 0);
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
