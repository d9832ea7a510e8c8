//! Unpacking a witness on the device: see `cuda/unpack.cu`, and `docs/packed-witness.md` for the encoding.
//! The device finds out whether anything is wrong, the host then what.
use super::{
    DeviceSlice, GpuError, Grid, Queue,
    launch::{KernelArgs, launch},
};
use crate::{
    algebra::Canonical,
    r1cs::{WitnessBytes, WitnessError, packed},
};
use std::io;
use zeroize::Zeroizing;

/// Values of a block, a thread each.
const THREADS: u32 = 256;

/// Mirrors `unpack::Unpack`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Unpack {
    encoded: u64,
    length: u64,
    first_block: u64,
    blocks: u64,
    inputs: u64,
    aux: u64,
    z: u64,
    bad: u64,
}
// SAFETY: integers in C layout, as in the kernel.
unsafe impl KernelArgs for Unpack {}

/// The encoding on the device.
struct OnDevice<'a, Q> {
    queue: &'a Q,
    bytes: DeviceSlice<u8>,
}

impl<Q: Queue> WitnessBytes for OnDevice<'_, Q> {
    fn length(&self) -> usize {
        self.bytes.len()
    }

    fn copy(&self, offset: usize, into: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(into.len());
        let bytes = end.and_then(|end| self.bytes.slice(offset..end));
        // SAFETY: a part of memory that is valid and that nobody changes, as `unpack` demands.
        let bytes = unsafe { self.queue.download(bytes.ok_or(io::ErrorKind::UnexpectedEof)?) };
        into.copy_from_slice(&Zeroizing::new(bytes.map_err(io::Error::other)?));
        Ok(())
    }
}

/// Unpacks an encoding into z, of which `num_inputs` values are public inputs with ONE. Gives what is wrong with
/// it, the same as [`decode_into`](crate::r1cs::decode_into) but that nothing is said of z_0; z is of no use
/// then. `bad` is a place for one u64.
///
/// # Safety
/// All memory named is valid and overlaps nothing, and nothing unordered with `queue` uses it.
pub unsafe fn unpack(
    queue: &impl Queue,
    encoded: DeviceSlice<u8>,
    num_inputs: usize,
    z: DeviceSlice<Canonical>,
    bad: DeviceSlice<u64>,
) -> Result<Option<WitnessError>, GpuError> {
    let Some(num_aux) = z.len().checked_sub(num_inputs) else {
        let (found, wanted) = (z.len() as u64, num_inputs as u64);
        return Err(GpuError::Length { what: "a witness", found, wanted });
    };
    let source = OnDevice { queue, bytes: encoded };
    let layout = match packed::begin(&source, num_inputs, num_aux) {
        Ok(layout) => layout,
        Err(fault) => return Ok(Some(fault)),
    };
    let args = Unpack {
        encoded: encoded.address(),
        length: encoded.len() as u64,
        first_block: layout.first_block as u64,
        blocks: layout.blocks as u64,
        inputs: num_inputs as u64,
        aux: num_aux as u64,
        z: z.address(),
        bad: bad.address(),
    };
    let grid = Grid::covering(z.len() as u64, THREADS, 1)?;
    // SAFETY: the caller's promise; the lengths are the slices', and the directory lies within the encoding,
    // as `begin` has checked.
    let found = unsafe {
        queue.upload(bad, &[u64::MAX])?;
        launch(queue, "cuzk_unpack_blocks", grid, &args)?;
        queue.download(bad)?
    };
    if found == [u64::MAX] {
        return Ok(None);
    }
    match packed::check(&source, num_inputs, num_aux) {
        Err(fault) => Ok(Some(fault)),
        Ok(()) => Err(GpuError::Kernel {
            kernel: "cuzk_unpack_blocks".into(),
            reason: "it refuses a witness that the host accepts".into(),
        }),
    }
}
