// What the other headers need in order to compile for the device (nvcc) and for the host (any C++17
// compiler). On the host every function is portable C++, and kernels run on the emulated thread block of
// `host/block.h`: the tests of a machine without a GPU execute the same text.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define CUZK_FN __host__ __device__ __forceinline__
#define CUZK_KERNEL extern "C" __global__
// At most `threads` a block, of which `blocks` stay resident on a multiprocessor.
#define CUZK_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define CUZK_GRID_CONSTANT __grid_constant__
#define CUZK_BARRIER() __syncthreads()
#define CUZK_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#define CUZK_SHARED __shared__
// For functions that are called, not expanded in place.
#define CUZK_CALLED __device__ __noinline__
#else
#include "host/block.h"
#define CUZK_FN inline
#define CUZK_KERNEL extern "C"
#define CUZK_BOUNDS(threads, blocks)
#define CUZK_GRID_CONSTANT
#define CUZK_BARRIER() cuzk::host::barrier()
#define CUZK_DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(cuzk::host::shared_memory())
// Blocks run one after the other: a block's variable may be a static one.
#define CUZK_SHARED static
#define CUZK_CALLED inline
#endif

// True while the device's code is compiled: the place for PTX.
#if defined(__CUDA_ARCH__)
#define CUZK_DEVICE_CODE 1
#else
#define CUZK_DEVICE_CODE 0
#endif
