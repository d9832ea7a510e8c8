// What the threads of a warp tell each other. Every function here is for all 32 threads of the warp
// together: the code above keeps a warp on one path wherever it calls them.
#pragma once
#include "platform.cuh"

#ifdef __CUDACC__
#define CUZK_WARP_FN __device__ __forceinline__
#else
#define CUZK_WARP_FN inline
#endif

namespace cuzk {

constexpr uint32_t WARP = 32;
constexpr uint32_t WHOLE_WARP = 0xffffffff;

CUZK_WARP_FN uint32_t lane() { return threadIdx.x % WARP; }
CUZK_WARP_FN uint32_t lanes_below() { return (1u << lane()) - 1; }

// How many of the lanes below this one have `c`, and how many lanes of the warp.
struct Rank {
    uint32_t below, total;
};
CUZK_WARP_FN Rank warp_rank(bool c) {
    uint32_t set = __ballot_sync(WHOLE_WARP, c);
    return {uint32_t(__popc(set & lanes_below())), uint32_t(__popc(set))};
}

// Inclusive prefix sum over the warp.
CUZK_WARP_FN uint32_t warp_prefix_sum(uint32_t v) {
    for (uint32_t d = 1; d < WARP; d *= 2) {
        uint32_t below = __shfl_up_sync(WHOLE_WARP, v, d);
        if (lane() >= d) v += below;
    }
    return v;
}

// Exclusive prefix sum over a block of at most 1024 threads, in whole warps; `total` is the block's sum.
// Ends with the block synchronised, so calls may follow each other.
CUZK_WARP_FN uint32_t block_prefix_sum(uint32_t v, uint32_t& total) {
    CUZK_SHARED uint32_t sums[WARP];
    uint32_t inclusive = warp_prefix_sum(v);
    uint32_t warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    if (lane() == WARP - 1) sums[warp] = inclusive;
    CUZK_BARRIER();
    if (warp == 0) {
        uint32_t s = warp_prefix_sum(lane() < warps ? sums[lane()] : 0);
        sums[lane()] = s;
    }
    CUZK_BARRIER();
    uint32_t before = warp == 0 ? 0 : sums[warp - 1];
    total = sums[warps - 1];
    CUZK_BARRIER();
    return before + inclusive - v;
}

}  // namespace cuzk
