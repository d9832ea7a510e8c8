// Multi-exponentiation, second part: the points of every bucket are added up, then the buckets.
//
// Additions are affine and go in rounds. Each round adds the points of a bucket in pairs (first and
// second, third and fourth, ...), for all buckets at once, so the work is a flat list of independent
// pairs however unequal the buckets are, and a round halves the longest list. Each thread inverts the
// denominators of its pairs together (Montgomery's trick): 6 products an addition, where XYZZ
// coordinates take 10.
//
// Where the points of a bucket lie: with `starts` the prefix sums of the buckets' sizes, round r reads
// bucket b from slot (starts[b] >> r) + b on (round 0: from starts[b] on, through `values`). A bucket of
// s points has ceil(s / 2^r) of them in round r, which always fits before the next bucket's slots, so no
// round needs prefix sums of its own. A bucket's last sum goes to `done`, the bucket array.
//
// The weighted sum over a set's buckets, sum (i+1) B_i, splits by the bits of i: it is sum B_i plus
// 2^q times the sum of all B_i with bit q set. Adding neighbours halves the array and leaves the odd ones
// as the list of bit 0; a few rounds of that ("folds"), with the lists halved alongside, and the rest
// is short enough to be summed bit by bit in XYZZ coordinates.
#include "curve.cuh"

namespace cuzk {
namespace msm {

constexpr uint32_t SIGN = 0x80000000;  // of a source: negate the point
constexpr uint32_t DONE = 0x80000000;  // of a target: a place in `done`
constexpr uint32_t PAIR_THREADS = 256;
constexpr uint32_t PAIR_SLOTS = 8;
constexpr uint32_t ADD_THREADS = 128;
constexpr uint32_t BIT_THREADS = 128;

struct PairsArgs {
    const uint32_t* starts;  // [buckets + 1]
    const uint32_t* values;  // round 0: sorted points
    const uint4* in;         // this round's points
    uint4* out;              // the next round's
    uint4* done;             // [buckets]
    uint32_t* left;          // the pairs made: sources, with SIGN, and target
    uint32_t* right;
    uint32_t* target;
    uint32_t* pairs;         // their number, zero before; ahead of it the number of the round before
    uint32_t buckets;
    uint32_t round;
};

// First slot of bucket b in round r.
CUZK_FN uint32_t first_slot(uint32_t start, uint32_t b, uint32_t r) { return r == 0 ? start : (start >> r) + b; }

// One thread copies a point, negated where `sign`.
template <class F>
CUZK_WARP_FN void copy_point(const uint4* from, uint4* to, uint64_t source, uint64_t target, bool sign) {
    const uint4* f = from + source * PointMemory<F>::WORDS;
    uint4* t = to + target * PointMemory<F>::WORDS;
#pragma unroll
    for (int s = 0; s < F::LANES; s++) {
        store_share(t + 3 * s, load_share(f + 3 * s));
        Fp y = load_share(f + 3 * (F::LANES + s));
        store_share(t + 3 * (F::LANES + s), sign ? -y : y);
    }
}

// Lists the pairs of one round; points without a partner are copied on. A thread takes PAIR_SLOTS slots
// of the output.
template <class F>
CUZK_WARP_FN void make_pairs(const PairsArgs& a) {
    constexpr uint32_t SLOTS = PAIR_THREADS * PAIR_SLOTS;
    CUZK_SHARED uint32_t block_base;
    // The block's pairs, to be written in stretches.
    CUZK_SHARED uint32_t listed[3][SLOTS];
    // After a round without pairs all buckets are done.
    if (a.round > 0 && a.pairs[-1] == 0) return;
    uint32_t entries = a.starts[a.buckets];
    uint32_t slots = (entries >> (a.round + 1)) + a.buckets;
    if (uint64_t(blockIdx.x) * SLOTS >= slots) return;
    uint32_t slot = (blockIdx.x * PAIR_THREADS + threadIdx.x) * PAIR_SLOTS;
    // The last bucket that begins at or before `slot`.
    uint32_t b = 0, above = a.buckets;
    while (above - b > 1) {
        uint32_t middle = b + (above - b) / 2;
        if (first_slot(a.starts[middle], middle, a.round + 1) <= slot) b = middle;
        else above = middle;
    }
    uint32_t start = a.starts[b], end = a.starts[b + 1];
    uint32_t left[PAIR_SLOTS], right[PAIR_SLOTS], target[PAIR_SLOTS], made = 0;
#pragma unroll
    for (uint32_t k = 0; k < PAIR_SLOTS; k++, slot++) {
        left[k] = right[k] = target[k] = 0;
        if (slot >= slots) continue;
        if (b + 1 < a.buckets && first_slot(end, b + 1, a.round + 1) <= slot) {
            b++;
            start = end;
            end = a.starts[b + 1];
        }
        uint32_t size = (end - start + ((1u << a.round) - 1)) >> a.round;
        uint32_t sums = (size + 1) / 2, j = slot - first_slot(start, b, a.round + 1);
        // A single point of a later round was done in the round before.
        if (j >= sums || (a.round > 0 && size == 1)) continue;
        uint32_t source = first_slot(start, b, a.round) + 2 * j;
        target[k] = sums == 1 ? DONE | b : slot;
        left[k] = a.round == 0 ? a.values[source] : source;
        if (2 * j + 1 < size) {
            right[k] = a.round == 0 ? a.values[source + 1] : source + 1;
            made |= 1u << k;
        } else {
            copy_point<F>(a.in, sums == 1 ? a.done : a.out, left[k] & ~SIGN, target[k] & ~DONE, left[k] & SIGN);
        }
    }
    uint32_t total, place = block_prefix_sum(__popc(made), total);
    if (threadIdx.x == 0) block_base = total ? atomicAdd(a.pairs, total) : 0;
#pragma unroll
    for (uint32_t k = 0; k < PAIR_SLOTS; k++) {
        if (made >> k & 1) {
            listed[0][place] = left[k];
            listed[1][place] = right[k];
            listed[2][place] = target[k];
            place++;
        }
    }
    CUZK_BARRIER();
    for (uint32_t i = threadIdx.x; i < total; i += PAIR_THREADS) {
        a.left[block_base + i] = listed[0][i];
        a.right[block_base + i] = listed[1][i];
        a.target[block_base + i] = listed[2][i];
    }
}

struct AddArgs {
    const uint32_t* left;
    const uint32_t* right;
    const uint32_t* target;
    const uint32_t* pairs;
    const uint4* in;
    uint4* out;
    uint4* done;
    uint4* products;  // [batch][3][threads of the grid]
    uint32_t batch;   // pairs that share an inversion, at most
    uint32_t spread;  // blocks that work however few the pairs are: one for each multiprocessor
};

// Fewer pairs a thread than this are left to fewer threads: an inversion takes as long as 45 products.
constexpr uint32_t PAIRS_WORTH_A_THREAD = 16;

// What a pair's sum is, apart from the general case.
enum class Sum : uint32_t { GENERAL, DOUBLE, LEFT, RIGHT, INFINITE };

// Tells the special cases; the whole warp, in Fp2.
template <class F>
CUZK_WARP_FN Sum classify(const Affine<F>& p, const Affine<F>& q) {
    bool p_infinite = p.is_infinity(), q_infinite = q.is_infinity();
    bool same_x = (p.x - q.x).is_zero(), opposite = (p.y + q.y).is_zero();
    if (q_infinite) return Sum::LEFT;
    if (p_infinite) return Sum::RIGHT;
    if (!same_x) return Sum::GENERAL;
    return opposite ? Sum::INFINITE : Sum::DOUBLE;
}

template <class F>
CUZK_WARP_FN F load_signed_y(const uint4* points, uint32_t source) {
    F y = load_y<F>(points, source & ~SIGN);
    return select(source & SIGN, -y, y);
}

// The denominator of a pair's slope, never zero, and its kind. Anything out of the ordinary shows in
// the x coordinates: they agree, or one is zero (perhaps at infinity).
template <class F>
CUZK_WARP_FN F denominator(const uint4* in, uint32_t left, uint32_t right, const F& x1, const F& x2, Sum& kind) {
    F d = x2 - x1;
    kind = Sum::GENERAL;
    bool odd = d.share_is_zero() || x1.share_is_zero() || x2.share_is_zero();
    if (F::any(odd)) {
        F y1 = load_signed_y<F>(in, left), y2 = load_signed_y<F>(in, right);
        kind = classify<F>({x1, y1}, {x2, y2});
        d = select(kind == Sum::GENERAL, d, select(kind == Sum::DOUBLE, twice(y1), F::one()));
    }
    return d;
}

template <class F>
CUZK_WARP_FN void add_pairs(const AddArgs& a) {
    uint32_t pairs = *a.pairs;
    if (pairs == 0) return;
    uint32_t wanted = (pairs + ADD_THREADS / F::LANES * PAIRS_WORTH_A_THREAD - 1) /
                      (ADD_THREADS / F::LANES * PAIRS_WORTH_A_THREAD);
    uint32_t blocks = wanted > a.spread ? wanted : a.spread;
    if (blocks > gridDim.x) blocks = gridDim.x;
    if (blockIdx.x >= blocks) return;
    uint32_t threads = blocks * ADD_THREADS, thread = blockIdx.x * ADD_THREADS + threadIdx.x;
    uint32_t groups = threads / F::LANES, group = thread / F::LANES;
    // A warp without any pair.
    if (thread / WARP * WARP / F::LANES >= pairs) return;
    uint32_t each = (pairs + groups - 1) / groups;
    // The passes of a batch load the memory, the multiplier and the adders unequally. Blocks that share a
    // multiprocessor begin with batches of different lengths, so that their passes meet.
    uint32_t n = a.batch;
    if (each > a.batch) n = (a.batch * (blockIdx.x * 4 / blocks + 1) + 3) / 4;
    for (uint32_t base = 0; base < each; base += n, n = a.batch) {
        if (n > each - base) n = each - base;
        F product = F::one();
        for (uint32_t k = 0; k < n; k++) {
            uint64_t i = uint64_t(base + k) * groups + group;
            bool active = i < pairs;
            // Beyond the end, threads read the first pair, but divide by 1 (its points may change meanwhile)
            // and store nothing.
            uint32_t left = a.left[active ? i : 0], right = a.right[active ? i : 0];
            F x1 = load_x<F>(a.in, left & ~SIGN), x2 = load_x<F>(a.in, right & ~SIGN);
            Sum kind;
            F d = select(active, denominator(a.in, left, right, x1, x2, kind), F::one());
            uint4* w = a.products + uint64_t(3 * k) * threads + thread;
            const Fp& share = share_of(product);
#pragma unroll
            for (int j = 0; j < 3; j++)
                w[uint64_t(j) * threads] = {share.l[4 * j], share.l[4 * j + 1], share.l[4 * j + 2], share.l[4 * j + 3]};
            product = product * d;
        }
        F inverted = inverse(product);
        for (uint32_t k = n; k-- > 0;) {
            uint64_t i = uint64_t(base + k) * groups + group;
            bool active = i < pairs;
            uint32_t left = a.left[active ? i : 0], right = a.right[active ? i : 0];
            uint32_t target = a.target[active ? i : 0];
            F x1 = load_x<F>(a.in, left & ~SIGN), x2 = load_x<F>(a.in, right & ~SIGN);
            F before;
            const uint4* w = a.products + uint64_t(3 * k) * threads + thread;
#pragma unroll
            for (int j = 0; j < 3; j++) {
                uint4 v = w[uint64_t(j) * threads];
                Fp& share = share_of(before);
                share.l[4 * j] = v.x;
                share.l[4 * j + 1] = v.y;
                share.l[4 * j + 2] = v.z;
                share.l[4 * j + 3] = v.w;
            }
            Sum kind;
            F d = select(active, denominator(a.in, left, right, x1, x2, kind), F::one());
            F slope = inverted * before;
            inverted = inverted * d;
            F y1 = load_signed_y<F>(a.in, left), y2 = load_signed_y<F>(a.in, right);
            F rise = y2 - y1;
            if (F::any(kind == Sum::DOUBLE)) {
                F xx = square(x1);
                rise = select(kind == Sum::DOUBLE, twice(xx) + xx, rise);
            }
            slope = slope * rise;
            Affine<F> sum;
            sum.x = square(slope) - x1 - x2;
            sum.y = slope * (x1 - sum.x) - y1;
            if (kind == Sum::LEFT) sum = {x1, y1};
            if (kind == Sum::RIGHT) sum = {x2, y2};
            if (kind == Sum::INFINITE) sum = Affine<F>::infinity();
            if (active) store_affine(target & DONE ? a.done : a.out, target & ~DONE, sum);
        }
    }
}

struct MergeArgs {
    const uint32_t* starts;
    uint32_t* left;
    uint32_t* right;
    uint32_t* target;
    uint32_t* pairs;   // zero before
    uint32_t buckets;
};

// Pairs every bucket that got points (at buckets + b) with what it held before (at b).
CUZK_KERNEL void CUZK_BOUNDS(PAIR_THREADS, 4) cuzk_msm_merge(const CUZK_GRID_CONSTANT MergeArgs a) {
    CUZK_SHARED uint32_t block_base;
    uint32_t b = blockIdx.x * PAIR_THREADS + threadIdx.x;
    bool some = b < a.buckets && a.starts[b + 1] > a.starts[b];
    uint32_t total, place = block_prefix_sum(some, total);
    if (threadIdx.x == 0) block_base = total ? atomicAdd(a.pairs, total) : 0;
    CUZK_BARRIER();
    if (some) {
        place += block_base;
        a.left[place] = b;
        a.right[place] = a.buckets + b;
        a.target[place] = DONE | b;
    }
}

// The lists of a set while it is folded: [set][list][length]; list 0 and 1 are the even and the odd
// elements of the halved array, list 1 also that of the newest bit, lists 2.. those of earlier bits. Before
// the first fold the array itself lies there: [set][2 * length].
CUZK_FN uint64_t list_element(uint32_t lists, uint32_t length, bool folded, uint32_t set, uint32_t list, uint32_t i) {
    if (!folded) return (uint64_t(set) * length + i) * 2 + list;
    return (uint64_t(set) * lists + list) * length + i;
}

struct FoldArgs {
    uint32_t* left;
    uint32_t* right;
    uint32_t* target;
    uint32_t* pairs;
    uint32_t sets;
    uint32_t lists;
    uint32_t length;   // even
    uint32_t folded;   // 0: the first fold
};

// Lists the pairs of one fold: lists 0 and 1 elementwise into the halved array, whose even and odd
// elements are lists 0 and 1 again; neighbours within lists 1.. into lists 2...
CUZK_KERNEL void CUZK_BOUNDS(PAIR_THREADS, 4) cuzk_msm_fold(const CUZK_GRID_CONSTANT FoldArgs a) {
    uint32_t half = a.length / 2, of_set = a.length + (a.lists - 1) * half;
    uint32_t p = blockIdx.x * PAIR_THREADS + threadIdx.x;
    if (p == 0) *a.pairs = a.sets * of_set;
    if (p >= a.sets * of_set) return;
    uint32_t set = p / of_set, k = p % of_set;
    if (k < a.length) {
        a.left[p] = uint32_t(list_element(a.lists, a.length, a.folded, set, 0, k));
        a.right[p] = uint32_t(list_element(a.lists, a.length, a.folded, set, 1, k));
        a.target[p] = uint32_t(list_element(a.lists + 1, half, true, set, k % 2, k / 2));
    } else {
        k -= a.length;
        uint32_t list = 1 + k / half, i = k % half;
        a.left[p] = uint32_t(list_element(a.lists, a.length, a.folded, set, list, 2 * i));
        a.right[p] = uint32_t(list_element(a.lists, a.length, a.folded, set, list, 2 * i + 1));
        a.target[p] = uint32_t(list_element(a.lists + 1, half, true, set, list + 1, i));
    }
}

struct BitsArgs {
    const uint4* in;
    uint4* out;          // [set][bits + 1] Jacobian points: bit q's sum at q, the sum of all buckets last
    uint32_t lists;
    uint32_t length;     // a power of two
    uint32_t log_length;
    uint32_t folded;
};

template <class F>
CUZK_WARP_FN void store_xyzz(uint4* at, const Xyzz<F>& p) {
    store_share(at, share_of(p.x));
    store_share(at + 3, share_of(p.y));
    store_share(at + 6, share_of(p.zz));
    store_share(at + 9, share_of(p.zzz));
}
template <class F>
CUZK_WARP_FN Xyzz<F> load_xyzz(const uint4* at) {
    Xyzz<F> p;
    share_of(p.x) = load_share(at);
    share_of(p.y) = load_share(at + 3);
    share_of(p.zz) = load_share(at + 6);
    share_of(p.zzz) = load_share(at + 9);
    return p;
}

// Block (q, set): one sum of the set. Dynamic shared memory: 96 bytes a thread.
template <class F>
CUZK_WARP_FN void sum_bits(const BitsArgs& a) {
    CUZK_DYNAMIC_SHARED(uint4, shared);
    constexpr uint32_t GROUPS = BIT_THREADS / F::LANES;
    uint32_t group = threadIdx.x / F::LANES;
    uint32_t q = blockIdx.x, set = blockIdx.y, bits = a.lists - 1 + a.log_length;
    uint32_t elements = q == bits ? 2 * a.length : a.length;
    Xyzz<F> sum = Xyzz<F>::infinity();
    // Whole warps add, and only those with an element.
    uint32_t first = threadIdx.x / WARP * WARP / F::LANES;
    for (uint32_t base = 0; base + first < elements; base += GROUPS) {
        uint32_t e = base + group;
        // A bit of an earlier fold has its own list; a later one is bit `q - (lists - 1)` of the
        // place in lists 0 and 1.
        uint32_t list = a.lists - 1 - q, i = e;
        if (q == bits) {
            list = e % 2;
            i = e / 2;
        } else if (q + 1 >= a.lists) {
            uint32_t bit = q - (a.lists - 1), low = (1u << bit) - 1;
            list = e % 2;
            i = e / 2;
            i = (i & ~low) << 1 | 1u << bit | (i & low);
        }
        Affine<F> p = Affine<F>::infinity();
        if (e < elements) p = load_affine<F>(a.in, list_element(a.lists, a.length, a.folded, set, list, i));
        sum = sum + p;
    }
    // Lengths are powers of two.
    for (uint32_t half = (elements < GROUPS ? elements : GROUPS) / 2; half > 0; half /= 2) {
        if (group >= half && group < 2 * half) store_xyzz(shared + 12 * (threadIdx.x - half * F::LANES), sum);
        CUZK_BARRIER();
        if (first < half) {
            Xyzz<F> other = Xyzz<F>::infinity();
            if (group < half) other = load_xyzz<F>(shared + 12 * threadIdx.x);
            sum = sum + other;
        }
        CUZK_BARRIER();
    }
    if (threadIdx.x < WARP) store_jacobian(a.out, uint64_t(set) * (bits + 1) + q, sum, group == 0);
}

CUZK_KERNEL void CUZK_BOUNDS(PAIR_THREADS, 2) cuzk_msm_pairs_g1(const CUZK_GRID_CONSTANT PairsArgs a) { make_pairs<Fp>(a); }
CUZK_KERNEL void CUZK_BOUNDS(PAIR_THREADS, 2) cuzk_msm_pairs_g2(const CUZK_GRID_CONSTANT PairsArgs a) { make_pairs<Fp2>(a); }
CUZK_KERNEL void CUZK_BOUNDS(ADD_THREADS, 4) cuzk_msm_add_g1(const CUZK_GRID_CONSTANT AddArgs a) { add_pairs<Fp>(a); }
CUZK_KERNEL void CUZK_BOUNDS(ADD_THREADS, 4) cuzk_msm_add_g2(const CUZK_GRID_CONSTANT AddArgs a) { add_pairs<Fp2>(a); }
CUZK_KERNEL void CUZK_BOUNDS(BIT_THREADS, 1) cuzk_msm_bits_g1(const CUZK_GRID_CONSTANT BitsArgs a) { sum_bits<Fp>(a); }
CUZK_KERNEL void CUZK_BOUNDS(BIT_THREADS, 1) cuzk_msm_bits_g2(const CUZK_GRID_CONSTANT BitsArgs a) { sum_bits<Fp2>(a); }

}  // namespace msm
}  // namespace cuzk
