// Unpacking a witness: a thread block takes a block of 256 values, whose places follow from the population
// counts of its bitmaps. The encoding is docs/packed-witness.md's; `src/gpu/unpack.rs` launches this.
//
// The encoding has been copied to the device's memory, where nobody changes it any more, but its content is
// whoever's: offsets are checked before anything is read through them. What is wrong is found out in detail by
// the host; here one bit of it is enough.
#include "fr.cuh"

namespace cuzk {
namespace unpack {

constexpr unsigned BLOCK_VALUES = 256;
constexpr unsigned HEADER_BYTES = 64;
constexpr unsigned ALIGNMENT = 32;
constexpr unsigned WORDS = BLOCK_VALUES / 32;  // of a bitmap
constexpr unsigned BITMAPS_BYTES = 2 * BLOCK_VALUES / 8;
constexpr unsigned MAX_BLOCK_BYTES = BITMAPS_BYTES + 32 * BLOCK_VALUES;

struct Unpack {
    const uint8_t* encoded;
    uint64_t length;       // of the encoding, in bytes
    uint64_t first_block;  // offset of block 0
    uint64_t blocks;
    uint64_t inputs;  // 1 included
    uint64_t aux;
    Fr* z;
    unsigned long long* bad;  // becomes the least number of a block that is malformed or has a value not below r
};

// Whether a block may lie from start to end: whatever is read of it then is part of the encoding.
CUZK_FN bool is_place(const Unpack& args, uint64_t block, uint64_t start, uint64_t end) {
    if (start % ALIGNMENT != 0 || end % ALIGNMENT != 0) return false;
    if (start < args.first_block || start > args.length || end > args.length) return false;
    if (end < start || end - start < BITMAPS_BYTES || end - start > MAX_BLOCK_BYTES) return false;
    if (block == 0 && start != args.first_block) return false;
    return block + 1 != args.blocks || end == args.length;
}

CUZK_KERNEL void CUZK_BOUNDS(BLOCK_VALUES, 1) cuzk_unpack_blocks(const CUZK_GRID_CONSTANT Unpack args) {
    uint64_t block = blockIdx.x;
    unsigned thread = threadIdx.x;
    const uint64_t* directory = reinterpret_cast<const uint64_t*>(args.encoded + HEADER_BYTES);
    uint64_t start = directory[block], end = directory[block + 1];
    bool good = true;
    if (block == 0) {
        // Between the directory and the first block there are zeros.
        uint64_t words = (args.first_block - HEADER_BYTES) / 8;
        if (args.blocks + 1 + thread < words) good = directory[args.blocks + 1 + thread] == 0;
    }
    CUZK_SHARED uint32_t bitmaps[2 * WORDS];
    bool placed = is_place(args, block, start, end);
    const uint8_t* from = args.encoded + start;
    if (placed && thread < 2 * WORDS) bitmaps[thread] = reinterpret_cast<const uint32_t*>(from)[thread];
    CUZK_BARRIER();
    if (!placed) {
        if (thread == 0) atomicMin(args.bad, (unsigned long long)block);
        return;
    }
    const uint32_t* wide = bitmaps;
    const uint32_t* bits = bitmaps + WORDS;
    unsigned wholes = 0, smalls = 0, wholes_below = 0, smalls_below = 0;
    for (unsigned k = 0; k < WORDS; k++) {
        unsigned whole = __popc(wide[k] & bits[k]), small = __popc(wide[k] & ~bits[k]);
        wholes += whole;
        smalls += small;
        if (k < thread / 32) {
            wholes_below += whole;
            smalls_below += small;
        }
    }
    uint32_t w = wide[thread / 32], v = bits[thread / 32], below = (1u << (thread % 32)) - 1;
    wholes_below += __popc(w & v & below);
    smalls_below += __popc(w & ~v & below);
    bool is_wide = w >> (thread % 32) & 1, bit = v >> (thread % 32) & 1;

    unsigned smalls_at = BITMAPS_BYTES + 32 * wholes, values_end = smalls_at + 8 * smalls;
    unsigned block_end = (values_end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    bool whole_block = end - start == block_end;
    if (whole_block && thread < (block_end - values_end) / 8)
        good = good && reinterpret_cast<const uint64_t*>(from + values_end)[thread] == 0;
    uint64_t y = block * BLOCK_VALUES + thread;
    bool held = y < args.inputs + args.aux;
    good = good && whole_block && (held || !(is_wide || bit));
    if (held && whole_block) {
        Fr value = fr::zero();
        if (!is_wide) {
            value.limb[0] = bit;
        } else if (!bit) {
            uint64_t small = reinterpret_cast<const uint64_t*>(from + smalls_at)[smalls_below];
            value.limb[0] = (uint32_t)small;
            value.limb[1] = (uint32_t)(small >> 32);
        } else {
            value = fr::load(reinterpret_cast<const Fr*>(from + BITMAPS_BYTES) + wholes_below);
            good = good && fr::below_modulus(value);
        }
        fr::store(args.z + (y < args.aux ? args.inputs + y : y - args.aux), value);
    }
    if (!good) atomicMin(args.bad, (unsigned long long)block);
}

}  // namespace unpack
}  // namespace cuzk
