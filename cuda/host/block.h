// Thread blocks on the host: kernels compiled as C++ run here, one block after the other, the threads of
// a block as fibers that change over at barriers and at a warp's exchanges only. It stands in for the
// device in tests; it is slow and exact. Three things are checked that a device would not report: every
// thread of a block meets the same barriers, all 32 threads of a warp meet the same exchanges, and (by
// running the threads in either order) results do not depend on the order between two of them.
#pragma once
#include <cstddef>
#include <cstdint>

struct uint4 {
    uint32_t x, y, z, w;
};
struct dim3 {
    uint32_t x, y, z;
};

namespace cuzk {
namespace host {

struct ThreadState {
    dim3 thread, block, block_size, grid_size;
};
// Of the fiber that runs.
extern ThreadState state;

void barrier();
void* shared_memory();

// Gives `mine` to the warp and takes what lane `from` gave. At most 64 bytes; all 32 threads take part.
void exchange(const void* mine, void* theirs, size_t bytes, uint32_t from);
// Bit i: the value that lane i gave is equal to this thread's.
uint32_t matching(uint32_t value);
// Bit i: lane i gave true.
uint32_t ballot(bool value);

// Runs `kernel(args)` on a grid of grid_x * grid_y blocks. Threads run in ascending or descending order.
// Returns null, or what was wrong with the launch.
const char* launch(void (*kernel)(const void*), const void* args, uint32_t grid_x, uint32_t grid_y,
                   uint32_t threads, size_t shared_bytes, bool descending);

}  // namespace host
}  // namespace cuzk

#define threadIdx (cuzk::host::state.thread)
#define blockIdx (cuzk::host::state.block)
#define blockDim (cuzk::host::state.block_size)
#define gridDim (cuzk::host::state.grid_size)

// Device atomics, between fibers of one host thread.
template <typename T>
inline T atomicMin(T* address, T value) {
    T old = *address;
    if (value < old) *address = value;
    return old;
}
template <typename T>
inline T atomicAdd(T* address, T value) {
    T old = *address;
    *address += value;
    return old;
}

// The warp's exchanges, for whole warps (the first argument is the mask of all lanes).
inline uint32_t __shfl_sync(uint32_t, uint32_t v, uint32_t from) {
    uint32_t r;
    cuzk::host::exchange(&v, &r, sizeof v, from);
    return r;
}
inline uint32_t __shfl_up_sync(uint32_t mask, uint32_t v, uint32_t d) {
    uint32_t lane = threadIdx.x % 32;
    return __shfl_sync(mask, v, lane >= d ? lane - d : lane);
}
inline uint32_t __ballot_sync(uint32_t, bool c) { return cuzk::host::ballot(c); }
inline bool __any_sync(uint32_t, bool c) { return cuzk::host::ballot(c) != 0; }
inline bool __all_sync(uint32_t, bool c) { return cuzk::host::ballot(c) == 0xffffffff; }
inline uint32_t __match_any_sync(uint32_t, uint32_t v) { return cuzk::host::matching(v); }
inline int __popc(uint32_t v) { return __builtin_popcount(v); }
inline int __ffs(uint32_t v) { return __builtin_ffs(int(v)); }
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t s) {
    uint64_t bytes = uint64_t(b) << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) r |= uint32_t((bytes >> (8 * ((s >> (4 * i)) & 7))) & 0xff) << (8 * i);
    return r;
}
