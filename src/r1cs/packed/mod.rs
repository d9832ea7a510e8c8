//! The packed encoding of a witness, made for circuits of bits: zeros and ones take bits, small values
//! 8 bytes, the rest 32, in blocks that can be found and unpacked independently.
//!
//! Most values of most circuits are bits (98.4 % of Filecoin's PoRep), so a witness crosses in a
//! fraction of its 32 bytes a value. Blocks have 256 values and two bitmaps each, so that a value's
//! place follows from population counts: that is what a device does well.
//! `docs/packed-witness.md` is the full description.
//!
//! Values are encoded in the order auxiliary, then inputs: a synthesis knows its last input only at its
//! end, and so it can be encoded as it goes.
#[cfg(feature = "prover")]
mod reader;
#[cfg(test)]
#[cfg(feature = "prover")]
mod tests;
mod writer;

#[cfg(feature = "prover")]
pub(super) use reader::decode;
#[cfg(feature = "prover")]
pub(crate) use reader::{begin, check};
pub use writer::PackedWriter;

/// The first bytes of every packed witness.
const MAGIC: [u8; 8] = *b"cuzkpack";
/// The only version so far.
const VERSION: u32 = 1;
/// Bytes of the header.
const HEADER_BYTES: usize = 64;
/// Values of a block; the last one may have fewer.
const BLOCK_VALUES: usize = 256;
/// Bytes of one of a block's two bitmaps.
const BITMAP_BYTES: usize = BLOCK_VALUES / 8;
/// Bytes of a small value.
const SMALL_BYTES: usize = 8;
/// Blocks begin and end at multiples of this.
const ALIGNMENT: usize = 32;
/// Bytes of the largest block: all values whole.
const MAX_BLOCK_BYTES: usize = 2 * BITMAP_BYTES + 32 * BLOCK_VALUES;

/// What is wrong with a packed witness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackedError {
    /// A field of the header.
    #[error("the header's {field} is {found}, wanted {wanted}")]
    Header {
        /// Which field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// The value that circuit and length demand.
        wanted: u64,
    },
    /// A block that begins where it cannot.
    #[error("block {block} begins at byte {found}, wanted a multiple of {ALIGNMENT} from {least} to {most}")]
    Offset {
        /// Which block; the number of blocks stands for the end.
        block: u64,
        /// The directory's offset.
        found: u64,
        /// The first byte at which it may begin.
        least: u64,
        /// The last byte at which it may begin.
        most: u64,
    },
    /// A block whose bitmaps want another length.
    #[error("block {block} has {found} bytes, its bitmaps want {wanted}")]
    BlockLength {
        /// Which block.
        block: u64,
        /// Bytes to the next block.
        found: u64,
        /// Bytes that its values take.
        wanted: u64,
    },
    /// Something set that must be zero.
    #[error("{what} of block {block} are not zero")]
    Reserved {
        /// Which block; 0 for the padding after the directory.
        block: u64,
        /// What must be zero.
        what: &'static str,
    },
}

/// Where things lie in the encoding of so many values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) blocks: usize,
    /// Where the first block begins.
    pub(crate) first_block: usize,
    /// Bytes that no encoding exceeds.
    max_bytes: usize,
}

impl Layout {
    /// None where sizes pass the address space.
    fn new(num_inputs: usize, num_aux: usize) -> Option<Self> {
        let values = num_inputs.checked_add(num_aux)?;
        let blocks = values.div_ceil(BLOCK_VALUES);
        let directory = blocks.checked_add(1)?.checked_mul(8)?;
        let first_block = directory.checked_add(HEADER_BYTES)?.checked_next_multiple_of(ALIGNMENT)?;
        let bitmaps = blocks.checked_mul(2 * BITMAP_BYTES)?;
        let max_bytes = values.checked_mul(32)?.checked_add(bitmaps)?.checked_add(first_block)?;
        isize::try_from(max_bytes).ok()?;
        Some(Self { blocks, first_block, max_bytes })
    }
}

/// The most bytes that the packed encoding of so many values takes: about 0.9 % more than 32 a value,
/// plus 96. None where they pass the address space.
pub fn max_bytes(num_inputs: usize, num_aux: usize) -> Option<usize> {
    Layout::new(num_inputs, num_aux).map(|layout| layout.max_bytes)
}

/// The header of the encoding, but for reserved bytes.
struct Header {
    num_inputs: u64,
    num_aux: u64,
    length: u64,
}

impl Header {
    fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(BLOCK_VALUES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.num_inputs.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.num_aux.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }
}
