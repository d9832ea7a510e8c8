// Multi-exponentiation, first part: scalars become digits, digits become lists of points by bucket.
//
// A scalar s is replaced by the smaller of s and r - s (with the sign kept aside), so 254 bits remain,
// and written in signed digits of `width` bits: -2^(width-1) .. 2^(width-1). Digit d of window w sends the
// point, negated where d < 0, to bucket |d| - 1 of the bucket set of w; zero digits send nothing. The
// lists are made by counting: every entry takes a rank in its bucket (one atomic addition for the equal
// entries of a warp, so that a bucket with half of all points does not serialise the device), the
// counts' prefix sums give each bucket's start, and each entry then knows its place.
//
// Bucket sets: window w belongs to set w mod S and reads table w div S, where table t holds the points
// times 2^(width*S*t). Without precomputed multiples there is one table, and a set for each window.
#include "warp.cuh"

namespace cuzk {
namespace msm_sort {

constexpr uint32_t THREADS = 256;
constexpr uint32_t NO_KEY = 0xffffffff;
constexpr uint32_t SIGN = 0x80000000;

CUZK_FN constexpr uint32_t scalar_modulus(int i) {
    constexpr uint32_t r[8] = {0x00000001, 0xffffffff, 0xfffe5bfe, 0x53bda402,
                               0x09a1d805, 0x3339d808, 0x299d7d48, 0x73eda753};
    return r[i];
}

struct ClearArgs {
    uint4* words;
    uint64_t count;
};

// Zeros.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 4) cuzk_msm_clear(const CUZK_GRID_CONSTANT ClearArgs a) {
    uint64_t i = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i < a.count) a.words[i] = {0, 0, 0, 0};
}

struct DigitsArgs {
    const uint4* scalars;   // canonical, two words each
    const uint32_t* index;  // the scalar of each point; null: the point's own number
    uint32_t* keys;         // [row][count]: bucket, with SIGN; NO_KEY for a zero digit
    uint32_t* ranks;        // [row][count]
    uint32_t* counts;       // [bucket], zero before
    // The sum of 2^(width-1) over all windows but the last: added to a scalar, it makes every
    // digit but the last its window's bits minus 2^(width-1), with no carry to pass on.
    uint32_t half[8];
    uint32_t count;         // points
    uint32_t width;
    uint32_t windows;       // of the whole scalar
    uint32_t sets;          // S
    uint32_t first_set;     // the bucket sets of this launch
    uint32_t set_count;
    uint32_t rows;          // tables * set_count
};

// The window a row stands for; `windows` or above: none.
CUZK_FN uint32_t row_window(uint32_t row, uint32_t sets, uint32_t first_set, uint32_t set_count) {
    return row / set_count * sets + first_set + row % set_count;
}

CUZK_KERNEL void CUZK_BOUNDS(THREADS, 4) cuzk_msm_digits(const CUZK_GRID_CONSTANT DigitsArgs a) {
    // Limb by limb, for the run-time choice of a limb; the ninth is zero.
    CUZK_SHARED uint32_t limbs[9][THREADS];
    uint32_t t = threadIdx.x;
    uint64_t i = uint64_t(blockIdx.x) * THREADS + t;
    uint32_t sign = 0;
    if (i < a.count) {
        uint64_t s = a.index ? a.index[i] : i;
        uint4 low = a.scalars[2 * s], high = a.scalars[2 * s + 1];
        uint32_t v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}, n[8];
        uint64_t borrow = 0, less = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            borrow = uint64_t(scalar_modulus(j)) - v[j] - (borrow >> 63);
            n[j] = uint32_t(borrow);
        }
        // r - v < v?
#pragma unroll
        for (int j = 0; j < 8; j++) less = uint64_t(n[j]) - v[j] - (less >> 63);
        bool negate = less >> 63;
        sign = negate ? SIGN : 0;
        uint64_t carry = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            carry += uint64_t(negate ? n[j] : v[j]) + a.half[j];
            limbs[j][t] = uint32_t(carry);
            carry >>= 32;
        }
        limbs[8][t] = 0;
    }
    uint32_t buckets = 1u << (a.width - 1);
    for (uint32_t row = 0; row < a.rows; row++) {
        uint32_t window = row_window(row, a.sets, a.first_set, a.set_count);
        uint32_t key = NO_KEY;
        if (i < a.count && window < a.windows) {
            uint32_t bit = window * a.width;
            uint64_t two = uint64_t(limbs[bit / 32 + 1][t]) << 32 | limbs[bit / 32][t];
            uint32_t digit = uint32_t(two >> (bit % 32)) & ((1u << a.width) - 1);
            // The last window's digit is never negative.
            if (window + 1 < a.windows) digit -= buckets;
            bool negative = int32_t(digit) < 0;
            uint32_t magnitude = negative ? 0 - digit : digit;
            uint32_t bucket = row % a.set_count * buckets + magnitude - 1;
            if (digit != 0) key = bucket | (sign ^ (negative ? SIGN : 0));
        }
        // One addition for each bucket that occurs in the warp.
        uint32_t bucket = key == NO_KEY ? NO_KEY : key & ~SIGN;
        uint32_t same = __match_any_sync(WHOLE_WARP, bucket);
        uint32_t leader = __ffs(same) - 1, base = 0;
        if (key != NO_KEY && lane() == leader) base = atomicAdd(&a.counts[bucket], uint32_t(__popc(same)));
        base = __shfl_sync(WHOLE_WARP, base, leader);
        if (i < a.count) {
            uint64_t entry = uint64_t(row) * a.count + i;
            a.keys[entry] = key;
            a.ranks[entry] = base + __popc(same & lanes_below());
        }
    }
}

// Prefix sums of the counts, in three launches over tiles of SCAN_TILE: sums of tiles, their prefix sums
// (one block), prefix sums within tiles.
constexpr uint32_t SCAN_ITEMS = 8;
constexpr uint32_t SCAN_TILE = SCAN_ITEMS * THREADS;
constexpr uint32_t SCAN_THREADS = 1024;

struct ScanArgs {
    const uint32_t* counts;
    uint32_t* starts;  // [buckets + 1]; the last is the number of entries
    uint32_t* tiles;   // [tiles]
    uint32_t buckets;
    uint32_t tile_count;
};

CUZK_KERNEL void CUZK_BOUNDS(THREADS, 4) cuzk_msm_scan_tiles(const CUZK_GRID_CONSTANT ScanArgs a) {
    uint32_t sum = 0, total;
    for (uint32_t k = 0; k < SCAN_ITEMS; k++) {
        uint32_t i = blockIdx.x * SCAN_TILE + k * THREADS + threadIdx.x;
        if (i < a.buckets) sum += a.counts[i];
    }
    block_prefix_sum(sum, total);
    if (threadIdx.x == 0) a.tiles[blockIdx.x] = total;
}

CUZK_KERNEL void CUZK_BOUNDS(SCAN_THREADS, 1) cuzk_msm_scan_totals(const CUZK_GRID_CONSTANT ScanArgs a) {
    uint32_t before = 0;
    for (uint32_t base = 0; base < a.tile_count; base += SCAN_THREADS) {
        uint32_t i = base + threadIdx.x, total;
        uint32_t v = i < a.tile_count ? a.tiles[i] : 0;
        uint32_t exclusive = block_prefix_sum(v, total);
        if (i < a.tile_count) a.tiles[i] = before + exclusive;
        before += total;
    }
    if (threadIdx.x == 0) a.starts[a.buckets] = before;
}

CUZK_KERNEL void CUZK_BOUNDS(THREADS, 4) cuzk_msm_scan_starts(const CUZK_GRID_CONSTANT ScanArgs a) {
    uint32_t base = blockIdx.x * SCAN_TILE + threadIdx.x * SCAN_ITEMS;
    uint32_t v[SCAN_ITEMS], sum = 0, total;
#pragma unroll
    for (uint32_t k = 0; k < SCAN_ITEMS; k++) {
        v[k] = base + k < a.buckets ? a.counts[base + k] : 0;
        sum += v[k];
    }
    uint32_t before = a.tiles[blockIdx.x] + block_prefix_sum(sum, total);
#pragma unroll
    for (uint32_t k = 0; k < SCAN_ITEMS; k++) {
        if (base + k < a.buckets) a.starts[base + k] = before;
        before += v[k];
    }
}

struct ScatterArgs {
    const uint32_t* keys;    // as cuzk_msm_digits left them
    const uint32_t* ranks;
    const uint32_t* starts;
    uint32_t* values;        // out, by bucket: the point's number in its table's memory, with SIGN
    uint32_t count;
    uint32_t set_count;
    uint32_t table_stride;   // points from one table to the next
};

// A row of the grid per row of keys: the entries that run together go to one stretch of `values`.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, 4) cuzk_msm_scatter(const CUZK_GRID_CONSTANT ScatterArgs a) {
    uint64_t i = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= a.count) return;
    uint64_t entry = uint64_t(blockIdx.y) * a.count + i;
    uint32_t key = a.keys[entry];
    if (key == NO_KEY) return;
    uint32_t table = blockIdx.y / a.set_count;
    a.values[a.starts[key & ~SIGN] + a.ranks[entry]] = (table * a.table_stride + uint32_t(i)) | (key & SIGN);
}

}  // namespace msm_sort
}  // namespace cuzk
