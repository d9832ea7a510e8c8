// Number-theoretic transforms over Fr, by the decomposition of Cooley and Tukey into passes of radix 2^k,
// k <= 9 (J. W. Cooley and J. W. Tukey, Math. Comp. 19, 1965).
//
// A pass moves tiles of 2^10 elements through shared memory: 2^k rows, which one transform of size 2^k
// connects, by 2^(10-k) columns, which are neighbours in device memory. Within the tile, each thread
// takes eight elements at a time into registers and does up to three radix-2 stages on them (a "window"
// of three bits of the row).
//
// Inverse transforms decimate in frequency: natural order in, bit-reversed order out. Forward transforms
// decimate in time: bit-reversed in, natural out. A transform after an inverse one thus needs no
// reordering; where natural order is wanted on both sides, the last inverse (first forward) pass permutes
// on its way from one buffer to another.
//
// Let w_n be the primitive n-th root of unity, R the pass's radix, M the size of the transforms on the
// near side of memory (the stride of the rows), k a column's index in 0..M. Between the passes element
// (q, k) is multiplied by w_{RM}^{qk}. On the odd coset (shift w_{2N}) the factor is w_{2RM}^{q(2k+1)}
// instead, in every pass, and nothing else changes; the inverse transforms use the inverse powers.
#pragma once
#include "fr.cuh"

namespace cuzk {
namespace ntt {

// Half an element, the widest access to memory.
using Half = uint4;

// Elements of a tile, threads of a block (eight elements each).
constexpr unsigned LOG_TILE = 10;
constexpr unsigned TILE = 1u << LOG_TILE;
constexpr unsigned THREADS = TILE / 8;
// Blocks that a multiprocessor is to hold: limits the registers.
constexpr unsigned BLOCKS = 4;
// Exponents count in units of the primitive 2^29-th root: twice the largest domain.
constexpr unsigned LOG_UNIT = 29;
constexpr uint32_t UNIT_MASK = (1u << LOG_UNIT) - 1;
// The roots within a tile come from a table of the 2^10-th roots of unity; the factors between passes
// from a table of the 2^19-th roots and, where the domain is larger than 2^18, one of the first 2^10
// powers of the 2^29-th root.
constexpr unsigned LOG_RADIX_ROOTS = 10;
constexpr unsigned LOG_LOW = 10;

// Powers of one two-adic root, in Montgomery form.
struct Roots {
    const Fr* radix;  // w_{2^10}^i, i < 2^10
    const Fr* high;   // w_{2^19}^i, i < 2^19
    const Fr* low;    // w_{2^29}^i, i < 2^10
};

// One pass over up to three vectors of 2^log_n elements (blockIdx.y chooses). A vector has at most 2^28
// elements, so positions in it are 32-bit.
struct Pass {
    const Fr* source[3];
    Fr* target[3];
    Roots roots;
    uint32_t log_n;
    uint32_t log_radix;
    uint32_t log_stride;
    uint32_t odd;      // 1 on the odd coset, else 0
    uint32_t natural;  // permute between two buffers: bit-reversed target (inverse) or source (forward)
    uint32_t scaled;   // whether `scale` applies
    Fr scale;          // factor of every element on its way out, in Montgomery form
    // Elementwise product, of which one factor is canonical too: left * right * product_scale. Inverse
    // passes load it instead of the source where `right` is there; forward passes subtract their
    // elements from it.
    const Fr* right;
    const Fr* left;
    Fr product_scale;
    // Inverse passes subtract their elements from this vector where it is there.
    const Fr* minuend;
};

// Reverses the low `bits` bits of v, which has no others.
CUZK_FN uint32_t reverse_bits(uint32_t v, unsigned bits) {
#if CUZK_DEVICE_CODE
    return bits ? __brev(v) >> (32 - bits) : 0;
#else
    uint32_t out = 0;
    for (unsigned i = 0; i < bits; i++) out |= ((v >> i) & 1) << (bits - 1 - i);
    return out;
#endif
}

// A tile in shared memory: the halves of its elements in two planes, permuted so that eight neighbouring
// lanes, whichever bits of the index they differ in, reach eight different groups of four banks.
struct Tile {
    Half* planes;

    CUZK_FN static unsigned slot(unsigned e) { return e ^ ((e >> 3) & 7); }
    CUZK_FN Fr load(unsigned e) const {
        Half lo = planes[slot(e)], hi = planes[TILE + slot(e)];
        return Fr{{lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w}};
    }
    CUZK_FN void store(unsigned e, const Fr& v) const {
        planes[slot(e)] = Half{v.limb[0], v.limb[1], v.limb[2], v.limb[3]};
        planes[TILE + slot(e)] = Half{v.limb[4], v.limb[5], v.limb[6], v.limb[7]};
    }
};

// Where the elements of a tile lie: index e of the tile is a row and a column, and those are a position in
// the vector. With rows next to each other in memory (stride 1) the row is the low part of e, else the
// column is: the low bits of e are neighbours in memory either way.
struct Layout {
    unsigned log_radix, log_stride, row_shift;
    unsigned log_columns;   // of the vector: 2^log_n / 2^log_radix
    uint32_t first_column;  // of this block
    bool reversed;          // column c is the bit-reversed group of rows (stride 1 only)

    CUZK_FN Layout(const Pass& pass, unsigned block) {
        log_radix = pass.log_radix;
        log_stride = pass.log_stride;
        row_shift = log_stride == 0 ? 0 : LOG_TILE - log_radix;
        log_columns = pass.log_n - log_radix;
        first_column = block << (LOG_TILE - log_radix);
        reversed = pass.natural != 0;
    }
    CUZK_FN unsigned row(unsigned e) const {
        return row_shift == 0 ? e & ((1u << log_radix) - 1) : e >> row_shift;
    }
    CUZK_FN uint32_t column(unsigned e) const {
        return first_column + (row_shift == 0 ? e >> log_radix : e & ((1u << row_shift) - 1));
    }
    // False for the unused columns of a tile that is larger than the vector.
    CUZK_FN bool inside(unsigned e) const { return column(e) >> log_columns == 0; }
    CUZK_FN uint32_t position(unsigned e) const {
        uint32_t c = column(e);
        if (reversed) c = reverse_bits(c, log_columns);
        uint32_t group = c >> log_stride, k = c & ((1u << log_stride) - 1);
        return (group << (log_stride + log_radix)) + (row(e) << log_stride) + k;
    }
    // The bit-reversed position, where columns are reversed.
    CUZK_FN uint32_t reversed_position(unsigned e) const {
        return (reverse_bits(row(e), log_radix) << log_columns) + column(e);
    }
    // Exponent of the factor between passes, q (2k + odd), in powers of the 2^29-th root.
    CUZK_FN uint32_t exponent(unsigned e, unsigned odd) const {
        uint32_t q = reverse_bits(row(e), log_radix);
        uint32_t k = column(e) & ((1u << log_stride) - 1);
        return (q * (2 * k + odd)) << (LOG_UNIT - 1 - log_radix - log_stride);
    }
    // Whether any exponent has low digits.
    CUZK_FN bool two_levels() const { return log_radix + log_stride + 1 + LOG_LOW > LOG_UNIT; }
};

// w_{2^29}^exponent.
CUZK_FN Fr power(const Roots& roots, uint32_t exponent, bool two_levels) {
    Fr w = fr::load_constant(roots.high + (exponent >> LOG_LOW));
    if (two_levels) w = fr::mul(w, fr::load_constant(roots.low + (exponent & ((1u << LOG_LOW) - 1))));
    return w;
}

// First element of thread t's window at bit p of the tile index: the others follow at steps of 2^p.
CUZK_FN unsigned window_base(unsigned t, unsigned p) {
    return ((t >> p) << (p + 3)) | (t & ((1u << p) - 1));
}

// The radix-2 stages of a window, on rows whose bits below the window are `below` (2^low_bits of them);
// `stages` counts from the window's highest bit.
//
// The stage on row bit s needs w_{2^(s+1)}^(row mod 2^s). In units of the 2^10-th root that is
// u + 128 j, 2u + 256 j, 4u for the three bits from the top, where u = below << (7 - low_bits) and j is
// the value of the window's bits under the stage's own.
// Values in a tile are loose. An inverse stage can double what a sum has above r, at first 2^224, so after
// at most nine stages that is still below 2^240.
//
// Left alone, the compiler interleaves the butterflies' products, has more carries in flight than there
// are predicate registers, and spills them bit by bit. `chain` makes each butterfly wait for the one
// before: it ORs in a limb of the previous result, masked by a zero that the compiler does not know.
template <bool INVERSE>
struct Window {
    const Fr* radix;
    unsigned u;
    uint32_t previous;

    CUZK_FN Window(const Fr* radix, unsigned u) : radix(radix), u(u), previous(0) {}

    CUZK_FN Fr root(unsigned i) const {
        constexpr unsigned mask = (1u << LOG_RADIX_ROOTS) - 1;
        return fr::load_constant(radix + ((INVERSE ? 0u - i : i) & mask));
    }
    CUZK_FN void chain(Fr& operand) const {
        const uint32_t zero = gridDim.z - 1;
        operand.limb[0] |= previous & zero;
    }
    CUZK_FN void butterfly(Fr& a, Fr& b, const Fr& w) {
        chain(b);
        if (INVERSE) {
            Fr sum = fr::add_loose(a, b);
            b = fr::mul(w, fr::sub_below_2r(a, b));
            a = sum;
        } else {
            Fr t = fr::mul(w, b);
            b = fr::sub(a, t);
            a = fr::add_loose(a, t);
        }
        previous = b.limb[7];
    }
    // The butterfly with root 1.
    CUZK_FN void trivial_butterfly(Fr& a, Fr& b) {
        chain(b);
        Fr sum = fr::add_loose(a, b);
        b = fr::loosen(fr::sub_below_2r(a, b));
        a = sum;
        previous = b.limb[7];
    }
    CUZK_FN void stage2(Fr (&x)[8]) {
#pragma unroll
        for (unsigned j = 0; j < 4; j++) butterfly(x[j], x[j + 4], root(u + 128 * j));
    }
    CUZK_FN void stage1(Fr (&x)[8]) {
#pragma unroll
        for (unsigned j = 0; j < 2; j++) {
            Fr w = root(2 * u + 256 * j);
            butterfly(x[j], x[j + 2], w);
            butterfly(x[j + 4], x[j + 6], w);
        }
    }
    CUZK_FN void stage0(Fr (&x)[8]) {
        Fr w = root(4 * u);
#pragma unroll
        for (unsigned j = 0; j < 8; j += 2) butterfly(x[j], x[j + 1], w);
    }
    CUZK_FN void run(Fr (&x)[8], unsigned stages) {
        if (INVERSE) {
            stage2(x);
            if (stages >= 2) stage1(x);
            if (stages >= 3) stage0(x);
        } else {
            if (stages >= 3) stage0(x);
            if (stages >= 2) stage1(x);
            stage2(x);
        }
    }
};

// The window at the lowest row bits, with constant roots of which the ones cost nothing; `stages` counts
// from the window's lowest bit.
template <bool INVERSE>
struct LowestWindow {
    Window<INVERSE> window;

    CUZK_FN void stage2(Fr (&x)[8]) {
        window.trivial_butterfly(x[0], x[4]);
#pragma unroll
        for (unsigned j = 1; j < 4; j++) window.butterfly(x[j], x[j + 4], window.root(128 * j));
    }
    CUZK_FN void stage1(Fr (&x)[8]) {
        window.trivial_butterfly(x[0], x[2]);
        window.trivial_butterfly(x[4], x[6]);
        Fr w = window.root(256);
        window.butterfly(x[1], x[3], w);
        window.butterfly(x[5], x[7], w);
    }
    CUZK_FN void stage0(Fr (&x)[8]) {
#pragma unroll
        for (unsigned j = 0; j < 8; j += 2) window.trivial_butterfly(x[j], x[j + 1]);
    }
    CUZK_FN void run(Fr (&x)[8], unsigned stages) {
        if (INVERSE) {
            if (stages >= 3) stage2(x);
            if (stages >= 2) stage1(x);
            stage0(x);
        } else {
            stage0(x);
            if (stages >= 2) stage1(x);
            if (stages >= 3) stage2(x);
        }
    }
};

CUZK_FN void gather(const Tile& tile, Fr (&x)[8], unsigned base, unsigned p) {
#pragma unroll
    for (unsigned j = 0; j < 8; j++) x[j] = tile.load(base | (j << p));
}

CUZK_FN void scatter(const Tile& tile, const Fr (&x)[8], unsigned base, unsigned p) {
#pragma unroll
    for (unsigned j = 0; j < 8; j++) tile.store(base | (j << p), x[j]);
}

// All stages above the lowest three row bits; a barrier precedes and follows. Inverse: from the highest row bits to
// the lowest, rows end up bit-reversed. Forward: the other way round.
template <bool INVERSE>
CUZK_FN void transform_high(const Tile& tile, const Fr* radix, unsigned log_radix, unsigned row_shift,
                            unsigned t) {
    // Row bits above the lowest three, in windows of at most three stages; an incomplete one is on top.
    unsigned incomplete = log_radix % 3;
    unsigned windows = log_radix <= 3 ? 0 : (log_radix - 1) / 3;
#pragma unroll 1
    for (unsigned i = 0; i < windows; i++) {
        unsigned from_top = INVERSE ? i : windows - 1 - i;
        unsigned stages = from_top == 0 && incomplete ? incomplete : 3;
        unsigned low_bits = stages < 3 ? log_radix - 3 : 3 * (windows - from_top);
        unsigned p = row_shift + low_bits;
        unsigned base = window_base(t, p);
        unsigned below = (base >> row_shift) & ((1u << low_bits) - 1);
        Window<INVERSE> window(radix, below << (7 - low_bits));
        Fr x[8];
        gather(tile, x, base, p);
        window.run(x, stages);
        scatter(tile, x, base, p);
        CUZK_BARRIER();
    }
}

// The stages on the lowest (at most three) row bits, which all lie in the thread's registers.
template <bool INVERSE>
CUZK_FN void transform_lowest(Fr (&x)[8], const Fr* radix, unsigned log_radix) {
    LowestWindow<INVERSE>{Window<INVERSE>(radix, 0)}.run(x, log_radix < 3 ? log_radix : 3);
}

// left * right * scale, where left and right are canonical.
CUZK_FN Fr product(const Pass& pass, const Fr* left, uint32_t position) {
    return fr::mul(pass.product_scale, fr::mul(fr::load(left + position), fr::load(pass.right + position)));
}

}  // namespace ntt
}  // namespace cuzk
