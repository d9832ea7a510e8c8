//! A partition's witness: in memory that its submitter shares, and once more, when its turn comes, in
//! private memory. Shared memory is untrusted at every read; private memory is wiped after its use.
use super::{budget::Reservation, lease::LeaseUse, users::Charge};
use crate::algebra::{CancelToken, Cancelled, Canonical, Fr};
use crate::proto::{ErrorCode, ProtocolError};
use crate::r1cs::{WitnessEncoding, WitnessError};
use crate::shm::MappedWitness;
use rayon::prelude::*;
use std::io;
use zeroize::Zeroize;

/// A submitted witness. Dropping it gives the memory back to whom it belongs.
pub struct Witness {
    memory: Memory,
    encoding: WitnessEncoding,
    length: u64,
}

enum Memory {
    Lease(LeaseUse),
    /// The client's own memfd, and what pays for keeping it.
    Own {
        mapped: MappedWitness,
        _reservation: Reservation,
        _charge: Charge,
    },
}

/// Why a witness cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The result is no longer wanted.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// It is not what its encoding demands.
    #[error(transparent)]
    Invalid(#[from] WitnessError),
    /// The shared memory cannot be read.
    #[error("the witness cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl From<&WitnessError> for ProtocolError {
    fn from(error: &WitnessError) -> Self {
        let (code, index) = match error {
            WitnessError::NotCanonical { index } => (ErrorCode::NotCanonical, *index),
            WitnessError::FirstNotOne => (ErrorCode::FirstNotOne, 0),
            _ => (ErrorCode::WitnessLength, 0),
        };
        Self::new(code, error.to_string()).with_index(index)
    }
}

impl Witness {
    /// A witness in a lease.
    pub fn leased(lease: LeaseUse, encoding: WitnessEncoding, length: u64) -> Self {
        Self { memory: Memory::Lease(lease), encoding, length }
    }

    /// A witness in a memfd of the client's own.
    pub fn own(
        mapped: MappedWitness,
        encoding: WitnessEncoding,
        reservation: Reservation,
        charge: Charge,
    ) -> Self {
        let length = mapped.length();
        Self { memory: Memory::Own { mapped, _reservation: reservation, _charge: charge }, encoding, length }
    }

    /// Frees the lease, if it is in one, for the next witness; the memory itself goes with the drop.
    pub fn release(&mut self) {
        if let Memory::Lease(lease) = &mut self.memory {
            lease.release();
        }
    }

    /// How it is encoded.
    pub fn encoding(&self) -> WitnessEncoding {
        self.encoding
    }

    /// Bytes of the encoded witness.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Copies encoded bytes, as they are now, into private memory.
    ///
    /// # Errors
    /// The system's; reading past the end is one.
    pub fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<()> {
        match &self.memory {
            Memory::Lease(lease) => lease.buffer().read_at(into, position),
            Memory::Own { mapped, .. } => mapped.read_at(into, position),
        }
    }
}

/// z in private memory, checked; wiped when it is dropped.
pub struct PrivateWitness(Vec<Canonical>);

/// Values that are read at once.
const TILE: usize = 1 << 11;

impl PrivateWitness {
    /// Reads a witness of `num_variables` values once, whatever its submitter does to it meanwhile.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(witness: &Witness, num_variables: usize, cancel: &CancelToken) -> Result<Self, ReadError> {
        let wanted = 32 * num_variables as u64;
        if witness.length != wanted {
            return Err(WitnessError::Length { found: witness.length, wanted }.into());
        }
        let mut z = Self(vec![Canonical::ZERO; num_variables]);
        z.0.par_chunks_mut(TILE).enumerate().try_for_each(|(tile, values)| {
            cancel.check()?;
            let mut bytes = vec![0; 32 * values.len()];
            witness.read_at(&mut bytes, 32 * (tile * TILE) as u64)?;
            for (i, (value, bytes)) in values.iter_mut().zip(bytes.as_chunks::<32>().0).enumerate() {
                let read = match witness.encoding {
                    WitnessEncoding::Montgomery => {
                        let mut limbs = [0; 4];
                        for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
                            *limb = u64::from_le_bytes(*bytes);
                        }
                        Fr::from_montgomery_limbs(limbs).map(Fr::to_canonical)
                    }
                    _ => Canonical::from_le_bytes(bytes),
                };
                let index = (tile * TILE + i) as u64;
                *value = read.ok_or(WitnessError::NotCanonical { index })?;
            }
            bytes.zeroize();
            Ok::<(), ReadError>(())
        })?;
        if z.0.first() != Some(&Canonical::ONE) {
            return Err(WitnessError::FirstNotOne.into());
        }
        Ok(z)
    }

    /// z.
    pub fn values(&self) -> &[Canonical] {
        &self.0
    }
}

impl Drop for PrivateWitness {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|value| value.0.zeroize());
    }
}
