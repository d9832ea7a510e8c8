// Multi-word arithmetic one 32-bit instruction at a time: additions, subtractions and multiply-adds
// that take and leave a carry. On the device each function is one PTX instruction, and the carry is
// the hardware's condition code; on the host it is a bit in `Carry`. The algorithms above this file
// are therefore the same text on both sides, and the host's tests cover them.
#pragma once
#include "platform.cuh"

namespace cuzk {

// Carry or borrow of the last `_cc` operation. On the device it stands for the condition code: the asm
// statements are volatile, which keeps their order, so each reads what the one before it wrote.
struct Carry {
#if !CUZK_DEVICE_CODE
    uint32_t bit = 0;
#endif
};

#if CUZK_DEVICE_CODE
#define CUZK_CARRY_2(NAME, PTX, PORTABLE)                                                                    \
    CUZK_FN uint32_t NAME(Carry&, uint32_t a, uint32_t b) {                                                  \
        uint32_t r;                                                                                          \
        asm volatile(PTX " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));                                         \
        return r;                                                                                            \
    }
#define CUZK_CARRY_3(NAME, PTX, PORTABLE)                                                                    \
    CUZK_FN uint32_t NAME(Carry&, uint32_t a, uint32_t b, uint32_t c) {                                      \
        uint32_t r;                                                                                          \
        asm volatile(PTX " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));                             \
        return r;                                                                                            \
    }
#else
CUZK_FN uint32_t carry_of(Carry& cc, uint64_t t) {
    cc.bit = uint32_t(t >> 32) & 1;
    return uint32_t(t);
}
CUZK_FN uint32_t product_lo(uint32_t a, uint32_t b) { return a * b; }
CUZK_FN uint32_t product_hi(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }
#define CUZK_CARRY_2(NAME, PTX, PORTABLE)                                                                    \
    CUZK_FN uint32_t NAME(Carry& cc, uint32_t a, uint32_t b) { return PORTABLE; }
#define CUZK_CARRY_3(NAME, PTX, PORTABLE)                                                                    \
    CUZK_FN uint32_t NAME(Carry& cc, uint32_t a, uint32_t b, uint32_t c) { return PORTABLE; }
#endif

CUZK_CARRY_2(add_cc, "add.cc.u32", carry_of(cc, uint64_t(a) + b))
CUZK_CARRY_2(addc_cc, "addc.cc.u32", carry_of(cc, uint64_t(a) + b + cc.bit))
CUZK_CARRY_2(addc, "addc.u32", a + b + cc.bit)
CUZK_CARRY_2(sub_cc, "sub.cc.u32", carry_of(cc, uint64_t(a) - b))
CUZK_CARRY_2(subc_cc, "subc.cc.u32", carry_of(cc, uint64_t(a) - b - cc.bit))
CUZK_CARRY_2(subc, "subc.u32", a - b - cc.bit)
CUZK_CARRY_3(mad_lo_cc, "mad.lo.cc.u32", carry_of(cc, uint64_t(product_lo(a, b)) + c))
CUZK_CARRY_3(madc_lo_cc, "madc.lo.cc.u32", carry_of(cc, uint64_t(product_lo(a, b)) + c + cc.bit))
CUZK_CARRY_3(madc_hi_cc, "madc.hi.cc.u32", carry_of(cc, uint64_t(product_hi(a, b)) + c + cc.bit))
CUZK_CARRY_3(madc_hi, "madc.hi.u32", product_hi(a, b) + c + cc.bit)
#undef CUZK_CARRY_2
#undef CUZK_CARRY_3

}  // namespace cuzk
