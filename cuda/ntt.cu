// The kernels of the transforms: one pass each, see ntt.cuh. `src/gpu/ntt.rs` chooses the passes.
#include "ntt.cuh"

namespace cuzk {
namespace ntt {

// Decimation in frequency: transform the rows with the inverse roots, then multiply.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, BLOCKS) cuzk_ntt_inverse_pass(const CUZK_GRID_CONSTANT Pass pass) {
    CUZK_DYNAMIC_SHARED(Half, planes);
    const Tile tile{planes};
    const Layout layout(pass, blockIdx.x);
    const unsigned t = threadIdx.x;
    const Fr* source = pass.source[blockIdx.y];
    Fr* target = pass.target[blockIdx.y];

    if (pass.right) {
#pragma unroll 1
        for (unsigned i = 0; i < TILE / THREADS; i++) {
            const unsigned e = i * THREADS + t;
            tile.store(e, layout.inside(e) ? product(pass, source, layout.position(e)) : fr::zero());
        }
    } else {
#pragma unroll 4
        for (unsigned i = 0; i < TILE / THREADS; i++) {
            const unsigned e = i * THREADS + t;
            tile.store(e, layout.inside(e) ? fr::load(source + layout.position(e)) : fr::zero());
        }
    }
    CUZK_BARRIER();
    transform_high<true>(tile, pass.roots.radix, pass.log_radix, layout.row_shift, t);
    {
        unsigned base = window_base(t, layout.row_shift);
        Fr x[8];
        gather(tile, x, base, layout.row_shift);
        transform_lowest<true>(x, pass.roots.radix, pass.log_radix);
        scatter(tile, x, base, layout.row_shift);
    }
    CUZK_BARRIER();
    const bool factor = pass.log_stride > 0 || pass.odd;
    const bool two_levels = layout.two_levels();
#pragma unroll 1
    for (unsigned i = 0; i < TILE / THREADS; i++) {
        const unsigned e = i * THREADS + t;
        if (!layout.inside(e)) continue;
        Fr v = tile.load(e);
        if (factor) {
            uint32_t exponent = (0u - layout.exponent(e, pass.odd)) & UNIT_MASK;
            v = fr::mul(power(pass.roots, exponent, two_levels), v);
        } else {
            v = fr::reduce(v);
        }
        if (pass.scaled) v = fr::mul(pass.scale, v);
        uint32_t position = layout.position(e);
        if (pass.minuend) v = fr::sub(fr::load(pass.minuend + position), v);
        fr::store(target + (pass.natural ? layout.reversed_position(e) : position), v);
    }
}

// Decimation in time: multiply, then transform the rows with the roots themselves.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, BLOCKS) cuzk_ntt_forward_pass(const CUZK_GRID_CONSTANT Pass pass) {
    CUZK_DYNAMIC_SHARED(Half, planes);
    const Tile tile{planes};
    const Layout layout(pass, blockIdx.x);
    const unsigned t = threadIdx.x;
    const Fr* source = pass.source[blockIdx.y];
    Fr* target = pass.target[blockIdx.y];

    const bool factor = pass.log_stride > 0 || pass.odd;
    const bool two_levels = layout.two_levels();
#pragma unroll 1
    for (unsigned i = 0; i < TILE / THREADS; i++) {
        const unsigned e = i * THREADS + t;
        Fr v = fr::zero();
        if (layout.inside(e)) {
            v = fr::load(source + (pass.natural ? layout.reversed_position(e) : layout.position(e)));
            if (factor) v = fr::mul(power(pass.roots, layout.exponent(e, pass.odd), two_levels), v);
        }
        tile.store(e, v);
    }
    CUZK_BARRIER();
    {
        unsigned base = window_base(t, layout.row_shift);
        Fr x[8];
        gather(tile, x, base, layout.row_shift);
        transform_lowest<false>(x, pass.roots.radix, pass.log_radix);
        scatter(tile, x, base, layout.row_shift);
    }
    CUZK_BARRIER();
    transform_high<false>(tile, pass.roots.radix, pass.log_radix, layout.row_shift, t);
#pragma unroll 1
    for (unsigned i = 0; i < TILE / THREADS; i++) {
        const unsigned e = i * THREADS + t;
        if (!layout.inside(e)) continue;
        Fr v = fr::reduce(tile.load(e));
        uint32_t position = layout.position(e);
        if (pass.right) v = fr::sub(product(pass, pass.left, position), v);
        fr::store(target + position, v);
    }
}

// The last inverse pass on the domain and the first forward pass on the odd coset, which read and write
// the same tiles: between them element q of a tile is multiplied by w_{2R}^q.
CUZK_KERNEL void CUZK_BOUNDS(THREADS, BLOCKS) cuzk_ntt_middle_pass(const CUZK_GRID_CONSTANT Pass pass) {
    CUZK_DYNAMIC_SHARED(Half, planes);
    const Tile tile{planes};
    const Layout layout(pass, blockIdx.x);
    const unsigned t = threadIdx.x;
    const Fr* source = pass.source[blockIdx.y];
    Fr* target = pass.target[blockIdx.y];

#pragma unroll 4
    for (unsigned i = 0; i < TILE / THREADS; i++) {
        const unsigned e = i * THREADS + t;
        tile.store(e, layout.inside(e) ? fr::load(source + layout.position(e)) : fr::zero());
    }
    CUZK_BARRIER();
    transform_high<true>(tile, pass.roots.radix, pass.log_radix, 0, t);
    {
        unsigned base = window_base(t, 0);
        Fr x[8];
        gather(tile, x, base, 0);
        transform_lowest<true>(x, pass.roots.radix, pass.log_radix);
        scatter(tile, x, base, 0);
        // The thread's own elements: no barrier.
#pragma unroll 1
        for (unsigned j = 0; j < 8; j++) {
            unsigned q = reverse_bits(layout.row(base | j), pass.log_radix);
            Fr shift = fr::load_constant(pass.roots.radix + (q << (LOG_RADIX_ROOTS - 1 - pass.log_radix)));
            tile.store(base | j, fr::mul(shift, tile.load(base | j)));
        }
        gather(tile, x, base, 0);
        transform_lowest<false>(x, pass.roots.radix, pass.log_radix);
        scatter(tile, x, base, 0);
    }
    CUZK_BARRIER();
    transform_high<false>(tile, pass.roots.radix, pass.log_radix, 0, t);
#pragma unroll 4
    for (unsigned i = 0; i < TILE / THREADS; i++) {
        const unsigned e = i * THREADS + t;
        if (layout.inside(e)) fr::store(target + layout.position(e), fr::reduce(tile.load(e)));
    }
}

}  // namespace ntt
}  // namespace cuzk
