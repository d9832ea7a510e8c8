//! Packing a witness value by value into memory that another process may share.
use super::{
    ALIGNMENT, BITMAP_BYTES, BLOCK_VALUES, HEADER_BYTES, Header, Layout, MAX_BLOCK_BYTES, SMALL_BYTES,
};
use crate::r1cs::{
    WitnessError, WitnessSink,
    witness::{ONE_BYTES, VALUE_BYTES, check_index, is_canonical},
};
use std::{marker::PhantomData, ptr::NonNull};

/// Packs values as they come: each block is written once it is full, inputs are kept until the end.
/// The memory is written through raw pointers and never read.
pub struct PackedWriter<'a> {
    base: NonNull<u8>,
    capacity: usize,
    num_inputs: usize,
    num_aux: usize,
    layout: Layout,
    /// Blocks written.
    block: usize,
    /// Where the next block begins.
    offset: usize,
    /// Values of the block that is being filled.
    values: Vec<[u8; VALUE_BYTES]>,
    inputs: Vec<[u8; VALUE_BYTES]>,
    aux: usize,
    _memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: a writer is the only writer of its memory on this side, like `&mut [u8]`, which is Send.
unsafe impl Send for PackedWriter<'_> {}

impl<'a> PackedWriter<'a> {
    /// Into private memory. [`super::max_bytes`] is always enough; what is not needed is left alone.
    ///
    /// # Errors
    /// [`WitnessError::Length`] where the memory cannot hold the directory.
    pub fn from_slice(memory: &'a mut [u8], num_inputs: usize, num_aux: usize) -> Result<Self, WitnessError> {
        let capacity = memory.len();
        // SAFETY: a slice borrowed for 'a is valid for writes of its length, and nobody else's.
        unsafe { Self::from_raw(NonNull::from(memory).cast(), capacity, num_inputs, num_aux) }
    }

    /// Into `capacity` bytes that may be shared with another process.
    ///
    /// # Errors
    /// [`WitnessError::Length`] where the memory cannot hold the directory.
    ///
    /// # Safety
    /// `base` is valid for writes of `capacity` bytes for 'a, and nothing else in this process uses
    /// those bytes meanwhile.
    pub unsafe fn from_raw(
        base: NonNull<u8>,
        capacity: usize,
        num_inputs: usize,
        num_aux: usize,
    ) -> Result<Self, WitnessError> {
        let length = |wanted: usize| WitnessError::Length { found: capacity as u64, wanted: wanted as u64 };
        let layout = Layout::new(num_inputs, num_aux).ok_or_else(|| length(usize::MAX))?;
        if capacity < layout.first_block {
            return Err(length(layout.first_block));
        }
        Ok(Self {
            base,
            capacity,
            num_inputs,
            num_aux,
            layout,
            block: 0,
            offset: layout.first_block,
            values: Vec::with_capacity(BLOCK_VALUES),
            inputs: Vec::new(),
            aux: 0,
            _memory: PhantomData,
        })
    }

    /// Writes what is left, the directory's end and the header; the bytes of the encoding.
    ///
    /// # Errors
    /// [`WitnessError::Count`] where values are missing, [`WitnessError::Length`] where the memory is too
    /// small.
    pub fn finish(mut self) -> Result<u64, WitnessError> {
        let counts = [("input", self.inputs.len(), self.num_inputs), ("auxiliary", self.aux, self.num_aux)];
        for (kind, found, wanted) in counts {
            if found != wanted {
                return Err(WitnessError::Count { kind, found: found as u64, wanted: wanted as u64 });
            }
        }
        for value in std::mem::take(&mut self.inputs) {
            self.push(value)?;
        }
        if !self.values.is_empty() {
            self.flush()?;
        }
        self.write_offset(self.layout.blocks, self.offset);
        let directory_end = HEADER_BYTES + 8 * (self.layout.blocks + 1);
        self.write(directory_end, &[0; ALIGNMENT][..self.layout.first_block - directory_end]);
        let header = Header {
            num_inputs: self.num_inputs as u64,
            num_aux: self.num_aux as u64,
            length: self.offset as u64,
        };
        self.write(0, &header.to_bytes());
        Ok(self.offset as u64)
    }

    /// Takes the next value of the encoded order, or nothing where its block does not fit.
    fn push(&mut self, value: [u8; VALUE_BYTES]) -> Result<(), WitnessError> {
        self.values.push(value);
        if self.values.len() < BLOCK_VALUES {
            return Ok(());
        }
        self.flush().inspect_err(|_| self.values.truncate(BLOCK_VALUES - 1))
    }

    /// Writes the block of the values at hand.
    fn flush(&mut self) -> Result<(), WitnessError> {
        let mut bytes = [0; MAX_BLOCK_BYTES];
        let length = pack_block(&self.values, &mut bytes);
        let end = self.offset + length;
        if end > self.capacity {
            return Err(WitnessError::Length { found: self.capacity as u64, wanted: end as u64 });
        }
        self.write(self.offset, &bytes[..length]);
        self.write_offset(self.block, self.offset);
        self.values.clear();
        (self.block, self.offset) = (self.block + 1, end);
        Ok(())
    }

    fn write_offset(&mut self, block: usize, offset: usize) {
        self.write(HEADER_BYTES + 8 * block, &(offset as u64).to_le_bytes());
    }

    /// Writes at an offset that the layout or `flush` has checked.
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= self.capacity);
        // SAFETY: header and directory end at `first_block`, which `from_raw` compared with the capacity,
        // and `flush` compares each block's end; the memory is valid for writes that far, and local
        // bytes do not overlap it.
        unsafe { self.base.as_ptr().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
}

impl WitnessSink for PackedWriter<'_> {
    fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    fn num_aux(&self) -> usize {
        self.num_aux
    }

    fn set_input(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        check_index("input", i, self.num_inputs)?;
        check_order("input", i, self.inputs.len())?;
        if i == 0 && *canonical_le != ONE_BYTES {
            return Err(WitnessError::FirstNotOne);
        }
        check_value(i, canonical_le)?;
        self.inputs.push(*canonical_le);
        Ok(())
    }

    fn set_aux(&mut self, i: usize, canonical_le: &[u8; 32]) -> Result<(), WitnessError> {
        check_index("auxiliary", i, self.num_aux)?;
        check_order("auxiliary", i, self.aux)?;
        check_value(self.num_inputs + i, canonical_le)?;
        self.push(*canonical_le)?;
        self.aux += 1;
        Ok(())
    }
}

fn check_order(kind: &'static str, found: usize, wanted: usize) -> Result<(), WitnessError> {
    if found == wanted {
        Ok(())
    } else {
        Err(WitnessError::Order { kind, found: found as u64, wanted: wanted as u64 })
    }
}

fn check_value(index: usize, value: &[u8; VALUE_BYTES]) -> Result<(), WitnessError> {
    if is_canonical(value) { Ok(()) } else { Err(WitnessError::NotCanonical { index: index as u64 }) }
}

/// Packs up to 256 values into zeroed bytes; the block's length.
fn pack_block(values: &[[u8; VALUE_BYTES]], out: &mut [u8; MAX_BLOCK_BYTES]) -> usize {
    let mut smalls = [0; SMALL_BYTES * BLOCK_VALUES];
    let (mut whole_end, mut smalls_end) = (2 * BITMAP_BYTES, 0);
    for (i, value) in values.iter().enumerate() {
        let (byte, bit) = (i / 8, 1 << (i % 8));
        let (low, high) = value.split_at(SMALL_BYTES);
        if high.iter().any(|b| *b != 0) {
            out[byte] |= bit;
            out[BITMAP_BYTES + byte] |= bit;
            out[whole_end..whole_end + VALUE_BYTES].copy_from_slice(value);
            whole_end += VALUE_BYTES;
        } else if low[0] > 1 || low[1..].iter().any(|b| *b != 0) {
            out[byte] |= bit;
            smalls[smalls_end..smalls_end + SMALL_BYTES].copy_from_slice(low);
            smalls_end += SMALL_BYTES;
        } else if low[0] == 1 {
            out[BITMAP_BYTES + byte] |= bit;
        }
    }
    out[whole_end..whole_end + smalls_end].copy_from_slice(&smalls[..smalls_end]);
    (whole_end + smalls_end).next_multiple_of(ALIGNMENT)
}
