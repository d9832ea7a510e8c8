// Every kernel compiled for the host, by name: a shared library that tests load in the driver's place.
#include <cstring>

#include "../field.cu"
#include "../msm.cu"
#include "../msm_sort.cu"
#include "../ntt.cu"
#include "../points.cu"
#include "../setup.cu"
#include "../spmv.cu"
#include "../unpack.cu"

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
    KERNEL(msm, cuzk_msm_pairs_g1, PairsArgs),
    KERNEL(msm, cuzk_msm_pairs_g2, PairsArgs),
    KERNEL(msm, cuzk_msm_add_g1, AddArgs),
    KERNEL(msm, cuzk_msm_add_g2, AddArgs),
    KERNEL(msm, cuzk_msm_merge, MergeArgs),
    KERNEL(msm, cuzk_msm_fold, FoldArgs),
    KERNEL(msm, cuzk_msm_bits_g1, BitsArgs),
    KERNEL(msm, cuzk_msm_bits_g2, BitsArgs),
    KERNEL(msm_sort, cuzk_msm_clear, ClearArgs),
    KERNEL(msm_sort, cuzk_msm_digits, DigitsArgs),
    KERNEL(msm_sort, cuzk_msm_scan_tiles, ScanArgs),
    KERNEL(msm_sort, cuzk_msm_scan_totals, ScanArgs),
    KERNEL(msm_sort, cuzk_msm_scan_starts, ScanArgs),
    KERNEL(msm_sort, cuzk_msm_scatter, ScatterArgs),
    KERNEL(points, cuzk_points_decode_g1, DecodeArgs),
    KERNEL(points, cuzk_points_decode_g2, DecodeArgs),
    KERNEL(points, cuzk_points_multiples_g1, MultiplesArgs),
    KERNEL(points, cuzk_points_multiples_g2, MultiplesArgs),
    KERNEL(points, cuzk_fp_arithmetic, FieldArgs),
    KERNEL(points, cuzk_fp2_arithmetic, FieldArgs),
    KERNEL(points, cuzk_curve_arithmetic_g1, CurveArgs),
    KERNEL(points, cuzk_curve_arithmetic_g2, CurveArgs),
    KERNEL(ntt, cuzk_ntt_inverse_pass, Pass),
    KERNEL(ntt, cuzk_ntt_forward_pass, Pass),
    KERNEL(ntt, cuzk_ntt_middle_pass, Pass),
    KERNEL(setup, cuzk_setup_powers, Powers),
    KERNEL(setup, cuzk_setup_lagrange, Lagrange),
    KERNEL(setup, cuzk_setup_columns, Columns),
    KERNEL(setup, cuzk_setup_reduce, Reduce),
    KERNEL(setup, cuzk_setup_combine, Combine),
    KERNEL(setup, cuzk_setup_multiples_g1, Multiples),
    KERNEL(setup, cuzk_setup_multiples_g2, Multiples),
    KERNEL(spmv, cuzk_spmv_short_rows, Evaluation),
    KERNEL(spmv, cuzk_spmv_segments, Evaluation),
    KERNEL(spmv, cuzk_spmv_long_rows, Evaluation),
    KERNEL(unpack, cuzk_unpack_blocks, Unpack),
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
