// Thread blocks on the host: kernels compiled as C++ run here, one block after the other, the threads of
// a block as fibers that change over at barriers only. It stands in for the device in tests; it is slow
// and exact. Two things are checked that a device would not report: every thread of a block meets the
// same barriers, and (by running the threads in either order) results do not depend on the order between
// two barriers.
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
