// Vectors of points that are computed in XYZZ coordinates and wanted in affine ones: each thread computes a
// batch of points and inverts their denominators together (Montgomery's trick).
#pragma once
#include "curve.cuh"

namespace cuzk {

// 16-byte words that a point and thread take in the scratch memory.
constexpr uint32_t BATCH_WORDS = 9;

// A share of a coordinate in three planes of words, one word of each thread beside the other.
CUZK_WARP_FN void store_plane(uint4* planes, uint64_t threads, const Fp& v) {
#pragma unroll
    for (int j = 0; j < 3; j++) planes[j * threads] = {v.l[4 * j], v.l[4 * j + 1], v.l[4 * j + 2], v.l[4 * j + 3]};
}
CUZK_WARP_FN Fp load_plane(const uint4* planes, uint64_t threads) {
    Fp v;
#pragma unroll
    for (int j = 0; j < 3; j++) {
        uint4 w = planes[j * threads];
        v.l[4 * j] = w.x;
        v.l[4 * j + 1] = w.y;
        v.l[4 * j + 2] = w.z;
        v.l[4 * j + 3] = w.w;
    }
    return v;
}

// out[i] = point(i), for all i below `count`; the whole warp calls `point`, an i beyond the end being 0.
// `point.infinite(i)` is told of every i whose point is infinity. `batch` points share an inversion;
// `scratch` is [batch][BATCH_WORDS][threads of the grid].
template <class F, class Point>
CUZK_WARP_FN void store_in_batches(const Point& point, uint4* out, uint4* scratch, uint64_t count, uint32_t batch) {
    uint64_t threads = uint64_t(gridDim.x) * blockDim.x, thread = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    uint64_t groups = threads / F::LANES, group = thread / F::LANES;
    for (uint64_t base = 0; base < count; base += groups * batch) {
        F chain = F::one();
        uint32_t n = 0;
        for (; n < batch && base + n * groups < count; n++) {
            uint64_t i = base + n * groups + group;
            bool active = i < count;
            Xyzz<F> p = point(active ? i : 0);
            // X and Y wait in the result's place.
            if (active) store_affine<F>(out, i, {p.x, p.y});
            uint4* planes = scratch + uint64_t(BATCH_WORDS * n) * threads + thread;
            store_plane(planes, threads, share_of(chain));
            store_plane(planes + 3 * threads, threads, share_of(p.zz));
            store_plane(planes + 6 * threads, threads, share_of(p.zzz));
            chain = product(chain, select(p.is_infinity(), F::one(), p.zzz));
        }
        F inverted = inverse(chain);
        while (n-- > 0) {
            uint64_t i = base + n * groups + group;
            bool active = i < count;
            const uint4* planes = scratch + uint64_t(BATCH_WORDS * n) * threads + thread;
            F before, zz, zzz;
            share_of(before) = load_plane(planes, threads);
            share_of(zz) = load_plane(planes + 3 * threads, threads);
            share_of(zzz) = load_plane(planes + 6 * threads, threads);
            bool infinity = zz.is_zero();
            // 1/ZZZ; and 1/ZZ = ZZ^2 / ZZ^3 = (ZZ / ZZZ)^2.
            F over_zzz = product(inverted, before);
            F over_zz = squared(product(zz, over_zzz));
            inverted = product(inverted, select(infinity, F::one(), zzz));
            Affine<F> p = load_affine<F>(out, active ? i : 0);
            p = {product(p.x, over_zz), product(p.y, over_zzz)};
            if (infinity) p = Affine<F>::infinity();
            if (active) store_affine(out, i, p);
            if (active && infinity) point.infinite(i);
        }
    }
}

}  // namespace cuzk
