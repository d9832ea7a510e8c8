//! Unpacking a witness from memory that its owner may change meanwhile: every byte is copied to private
//! memory once and checked there.
use super::{
    ALIGNMENT, BITMAP_BYTES, BLOCK_VALUES, HEADER_BYTES, Header, Layout, MAX_BLOCK_BYTES, PackedError,
    SMALL_BYTES,
};
use crate::{
    algebra::Canonical,
    r1cs::{
        WitnessError,
        decode::{WitnessBytes, copy},
    },
};
use rayon::prelude::*;

/// Decodes into `out`, which is z. The error is the one of the lowest index in z, after errors in header
/// and directory; that z_0 is 1 is left to the caller.
pub(in crate::r1cs) fn decode(
    source: &(dyn WitnessBytes + Sync),
    num_inputs: usize,
    out: &mut [Canonical],
) -> Result<(), WitnessError> {
    let num_aux = out.len() - num_inputs;
    let layout = begin(source, num_inputs, num_aux)?;
    let directory = read_directory(source, layout)?;
    let block = |index: usize| Block { source, index, start: directory[index], end: directory[index + 1] };

    let (inputs, aux) = out.split_at_mut(num_inputs);
    let whole_blocks = num_aux / BLOCK_VALUES;
    let (aux, aux_rest) = aux.split_at_mut(whole_blocks * BLOCK_VALUES);
    let z_index = |y: usize| if y < num_aux { num_inputs + y } else { y - num_aux };
    let in_parallel = aux
        .par_chunks_exact_mut(BLOCK_VALUES)
        .enumerate()
        .filter_map(|(index, out)| block(index).decode(out.iter_mut(), z_index).err())
        .min_by_key(|failure| failure.index);
    // What is left of the auxiliary variables shares a block with the first inputs.
    let mut rest = aux_rest.iter_mut().chain(inputs);
    let last = (whole_blocks..layout.blocks)
        .filter_map(|index| {
            let mut places = rest.by_ref().take(BLOCK_VALUES);
            let decoded = block(index).decode(&mut places, z_index);
            // A malformed block leaves its places, which are not the next one's.
            places.for_each(drop);
            decoded.err()
        })
        .min_by_key(|failure| failure.index);
    match in_parallel.into_iter().chain(last).min_by_key(|failure| failure.index) {
        None => Ok(()),
        Some(failure) => Err(failure.error),
    }
}

/// Checks length and header, and says where things lie.
///
/// # Errors
/// [`WitnessError::Length`] where not even the directory fits or more is there than any encoding takes; those
/// of the header.
pub(crate) fn begin(
    source: &dyn WitnessBytes,
    num_inputs: usize,
    num_aux: usize,
) -> Result<Layout, WitnessError> {
    let length =
        |wanted: usize| WitnessError::Length { found: source.length() as u64, wanted: wanted as u64 };
    let layout = Layout::new(num_inputs, num_aux).ok_or_else(|| length(usize::MAX))?;
    if source.length() < layout.first_block {
        return Err(length(layout.first_block));
    }
    if source.length() > layout.max_bytes {
        return Err(length(layout.max_bytes));
    }
    read_header(source, num_inputs, num_aux)?;
    Ok(layout)
}

/// What is wrong with an encoding, in little memory: the error that [`decode`] gives.
pub(crate) fn check(
    source: &dyn WitnessBytes,
    num_inputs: usize,
    num_aux: usize,
) -> Result<(), WitnessError> {
    let layout = begin(source, num_inputs, num_aux)?;
    let directory = read_directory(source, layout)?;
    let z_index = |y: usize| if y < num_aux { num_inputs + y } else { y - num_aux };
    let mut left = num_inputs + num_aux;
    let failures = (0..layout.blocks).filter_map(|index| {
        let block = Block { source, index, start: directory[index], end: directory[index + 1] };
        let mut values = [Canonical::ZERO; BLOCK_VALUES];
        let values = &mut values[..left.min(BLOCK_VALUES)];
        left -= values.len();
        block.decode(values.iter_mut(), z_index).err()
    });
    match failures.min_by_key(|failure| failure.index) {
        None => Ok(()),
        Some(failure) => Err(failure.error),
    }
}

fn read_header(source: &dyn WitnessBytes, num_inputs: usize, num_aux: usize) -> Result<(), WitnessError> {
    let mut found = [0; HEADER_BYTES];
    copy(source, 0, &mut found)?;
    let wanted =
        Header { num_inputs: num_inputs as u64, num_aux: num_aux as u64, length: source.length() as u64 };
    let wanted = wanted.to_bytes();
    let fields = [
        ("magic", 0..8),
        ("version", 8..12),
        ("values of a block", 12..16),
        ("number of inputs", 16..24),
        ("number of auxiliary variables", 24..32),
        ("length", 32..40),
        ("first reserved field", 40..48),
        ("second reserved field", 48..56),
        ("third reserved field", 56..64),
    ];
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
    for (field, range) in fields {
        let (found, wanted) = (number(&found[range.clone()]), number(&wanted[range]));
        if found != wanted {
            return Err(PackedError::Header { field, found, wanted }.into());
        }
    }
    Ok(())
}

/// The blocks' offsets and the end, which is the source's: ascending, and no further apart than a block
/// can be long.
fn read_directory(source: &dyn WitnessBytes, layout: Layout) -> Result<Vec<usize>, WitnessError> {
    let mut bytes = vec![0; layout.first_block - HEADER_BYTES];
    copy(source, HEADER_BYTES, &mut bytes)?;
    let (entries, padding) = bytes.split_at(8 * (layout.blocks + 1));
    if padding.iter().any(|b| *b != 0) {
        return Err(PackedError::Reserved { block: 0, what: "the bytes before the first value" }.into());
    }
    let mut directory: Vec<usize> = Vec::with_capacity(layout.blocks + 1);
    for (block, entry) in entries.as_chunks::<8>().0.iter().enumerate() {
        let found = u64::from_le_bytes(*entry);
        let (least, most) = match directory.last() {
            None => (layout.first_block, layout.first_block),
            Some(previous) => {
                (previous + 2 * BITMAP_BYTES, (previous + MAX_BLOCK_BYTES).min(source.length()))
            }
        };
        let least = if block == layout.blocks { least.max(source.length()) } else { least };
        let right = (least as u64..=most as u64).contains(&found) && found % ALIGNMENT as u64 == 0;
        if !right {
            let (block, least, most) = (block as u64, least as u64, most as u64);
            return Err(PackedError::Offset { block, found, least, most }.into());
        }
        directory.push(found as usize);
    }
    Ok(directory)
}

/// An error and the index in z of the value that it concerns (of the block's first one, where it is
/// the block's).
struct Failure {
    index: usize,
    error: WitnessError,
}

/// A block whose offsets the directory's reader has checked.
struct Block<'a, S: ?Sized> {
    source: &'a S,
    index: usize,
    start: usize,
    end: usize,
}

impl<S: WitnessBytes + ?Sized> Block<'_, S> {
    /// Decodes into `out`, which has as many places as the block has values.
    fn decode<'o>(
        &self,
        out: impl Iterator<Item = &'o mut Canonical>,
        z_index: impl Fn(usize) -> usize,
    ) -> Result<(), Failure> {
        let mut bytes = [0; MAX_BLOCK_BYTES];
        let bytes = &mut bytes[..self.end - self.start];
        let first = self.index * BLOCK_VALUES;
        copy(self.source, self.start, bytes).map_err(|error| Failure { index: z_index(first), error })?;
        let invalid = |error: PackedError| Failure { index: z_index(first), error: error.into() };

        let (bitmaps, payload) = bytes.split_at(2 * BITMAP_BYTES);
        let (wide, bits) = bitmaps.split_at(BITMAP_BYTES);
        let count = |f: fn(u8, u8) -> u8| -> usize {
            wide.iter().zip(bits).map(|(w, b)| f(*w, *b).count_ones() as usize).sum()
        };
        let wholes_end = 32 * count(|w, b| w & b);
        let smalls_end = wholes_end + SMALL_BYTES * count(|w, b| w & !b);
        let wanted = (2 * BITMAP_BYTES + smalls_end).next_multiple_of(ALIGNMENT);
        let block = self.index as u64;
        let found = self.end - self.start;
        if found != wanted {
            let (found, wanted) = (found as u64, wanted as u64);
            return Err(invalid(PackedError::BlockLength { block, found, wanted }));
        }
        if payload[smalls_end..].iter().any(|b| *b != 0) {
            return Err(invalid(PackedError::Reserved { block, what: "the bytes after the last value" }));
        }

        let mut wholes = payload[..wholes_end].as_chunks::<32>().0.iter();
        let mut smalls = payload[wholes_end..smalls_end].as_chunks::<SMALL_BYTES>().0.iter();
        let mut lowest: Option<usize> = None;
        let mut values = 0;
        for out in out {
            let (byte, bit) = (values / 8, values % 8);
            *out = match (wide[byte] >> bit & 1, bits[byte] >> bit & 1) {
                (0, value) => Canonical::from_u64(value.into()),
                (_, 0) => {
                    smalls.next().map_or(Canonical::ZERO, |v| Canonical::from_u64(u64::from_le_bytes(*v)))
                }
                _ => match wholes.next().and_then(Canonical::from_le_bytes) {
                    Some(value) => value,
                    None => {
                        let index = z_index(first + values);
                        lowest = Some(lowest.map_or(index, |lowest| lowest.min(index)));
                        Canonical::ZERO
                    }
                },
            };
            values += 1;
        }
        let beyond = |bitmap: &[u8]| (values..BLOCK_VALUES).any(|i| bitmap[i / 8] >> (i % 8) & 1 == 1);
        if beyond(wide) || beyond(bits) {
            return Err(invalid(PackedError::Reserved { block, what: "the bits beyond the last value" }));
        }
        match lowest {
            None => Ok(()),
            Some(index) => Err(Failure { index, error: WitnessError::NotCanonical { index: index as u64 } }),
        }
    }
}
