// Every kernel compiled for the host, by name: a shared library that tests load in the driver's place.
#include <cstring>

#include "../field.cu"
#include "../ntt.cu"
#include "../spmv.cu"

namespace {

using namespace cuzk;

struct Kernel {
    const char* name;
    void (*run)(const void*);
    size_t args_bytes;
};

template <typename Args, void (*KERNEL)(Args)>
void run(const void* args) {
    KERNEL(*static_cast<const Args*>(args));
}

#define KERNEL(space, name, args) \
    Kernel{#name, run<space::args, space::name>, sizeof(space::args)}

const Kernel KERNELS[] = {
    KERNEL(field, cuzk_fr_check, Check),
    KERNEL(field, cuzk_fr_from_montgomery, FromMontgomery),
    KERNEL(field, cuzk_fr_arithmetic, Arithmetic),
    KERNEL(ntt, cuzk_ntt_inverse_pass, Pass),
    KERNEL(ntt, cuzk_ntt_forward_pass, Pass),
    KERNEL(ntt, cuzk_ntt_middle_pass, Pass),
    KERNEL(spmv, cuzk_spmv_short_rows, Evaluation),
    KERNEL(spmv, cuzk_spmv_segments, Evaluation),
    KERNEL(spmv, cuzk_spmv_long_rows, Evaluation),
};

}  // namespace

// Null, or why there was no launch or what went wrong in it.
extern "C" const char* cuzk_host_launch(const char* name, const void* args, size_t args_bytes, uint32_t grid_x,
                                        uint32_t grid_y, uint32_t threads, size_t shared_bytes, int descending) {
    for (const Kernel& kernel : KERNELS) {
        if (std::strcmp(kernel.name, name) != 0) continue;
        if (kernel.args_bytes != args_bytes) return "the arguments' sizes differ";
        return cuzk::host::launch(kernel.run, args, grid_x, grid_y, threads, shared_bytes, descending != 0);
    }
    return "no kernel of that name";
}
