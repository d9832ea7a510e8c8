// Kernels over vectors of field elements, one thread an element. `src/gpu/field.rs` launches them.
#include "fr.cuh"

namespace cuzk {
namespace field {

constexpr unsigned THREADS = 256;

struct Check {
    const Fr* values;
    uint64_t length;
    unsigned long long* first;  // becomes the least index of a value that is not below r
};

struct FromMontgomery {
    Fr* values;
    uint64_t length;
};

struct Arithmetic {
    const Fr* left;
    const Fr* right;
    Fr* sum;
    Fr* difference;
    Fr* product;  // left * right / 2^256
    uint64_t length;
};

CUZK_FN uint64_t element() {
    return (uint64_t)blockIdx.x * THREADS + threadIdx.x;
}

// Finds the first value of a canonical witness that is not below r.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 1) cuzk_fr_check(const CUZK_GRID_CONSTANT Check args) {
    uint64_t i = element();
    if (i >= args.length) return;
    if (!fr::below_modulus(fr::load(args.values + i))) atomicMin(args.first, (unsigned long long)i);
}

// Montgomery form to canonical, in place; values not below r come out reduced.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 1) cuzk_fr_from_montgomery(const CUZK_GRID_CONSTANT FromMontgomery args) {
    uint64_t i = element();
    if (i >= args.length) return;
    Fr one = fr::zero();
    one.limb[0] = 1;
    fr::store(args.values + i, fr::mul(one, fr::load(args.values + i)));
}

// The field's operations by themselves: what the tests compare with the host's arithmetic.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 1) cuzk_fr_arithmetic(const CUZK_GRID_CONSTANT Arithmetic args) {
    uint64_t i = element();
    if (i >= args.length) return;
    Fr a = fr::load(args.left + i), b = fr::load(args.right + i);
    fr::store(args.sum + i, fr::add(a, b));
    fr::store(args.difference + i, fr::sub(a, b));
    fr::store(args.product + i, fr::mul(a, b));
}

}  // namespace field
}  // namespace cuzk
