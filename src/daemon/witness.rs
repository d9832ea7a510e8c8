//! A partition's witness: in memory that its submitter shares, and once more, when its turn comes, in
//! private memory. Shared memory is untrusted at every read; private memory is wiped after its use.
use super::{
    budget::Reservation,
    lease::LeaseUse,
    pages::PageLock,
    store::{StoredWitness, names},
    users::Charge,
};
use crate::algebra::{CancelToken, Cancelled, Canonical};
use crate::proto::{ErrorCode, ProtocolError};
use crate::r1cs::{Circuit, WitnessBytes, WitnessEncoding, WitnessError, decode_into};
use crate::shm::{MappedWitness, Sharing};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    time::Instant,
};
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
        pages: PageLock,
        mapped: MappedWitness,
        _reservation: Reservation,
        _charge: Charge,
    },
}

/// A witness's memory as a device reads it. Its submitter may write to it at any time.
pub struct MappedPages<'a> {
    /// The witness's first byte.
    pub base: NonNull<u8>,
    /// Bytes that are mapped from there on, at least the witness's.
    pub bytes: usize,
    /// The lock on them.
    pub lock: &'a PageLock,
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
}

impl From<&WitnessError> for ProtocolError {
    fn from(error: &WitnessError) -> Self {
        let (code, index) = match error {
            WitnessError::NotCanonical { index } => (ErrorCode::NotCanonical, *index),
            WitnessError::FirstNotOne => (ErrorCode::FirstNotOne, 0),
            WitnessError::PackedInvalid(_) => (ErrorCode::PackedInvalid, 0),
            WitnessError::Unreadable { .. } => (ErrorCode::Internal, 0),
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
        Self {
            memory: Memory::Own {
                pages: PageLock::default(),
                mapped,
                _reservation: reservation,
                _charge: charge,
            },
            encoding,
            length,
        }
    }

    /// How it is encoded.
    pub fn encoding(&self) -> WitnessEncoding {
        self.encoding
    }

    /// Where it is mapped; None where locking the pages would copy them.
    pub fn mapped_pages(&self) -> Option<MappedPages<'_>> {
        let (base, bytes, lock) = match &self.memory {
            Memory::Lease(lease) => (lease.buffer().base(), lease.buffer().size(), lease.pages()),
            Memory::Own { mapped, .. } if mapped.sharing() == Sharing::Private => return None,
            Memory::Own { mapped, pages, .. } => (mapped.base(), mapped.length(), pages),
        };
        Some(MappedPages { base, bytes: usize::try_from(bytes).ok()?, lock })
    }

    /// What a record says of it once it is in the store, and its memfd to be stored.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn for_store(&self) -> io::Result<(StoredWitness, OwnedFd)> {
        let (memfd, offset, leased) = match &self.memory {
            Memory::Lease(lease) => (lease.buffer().memfd(), 0, true),
            Memory::Own { mapped, .. } => (mapped.memfd(), mapped.offset(), false),
        };
        let name = names::of_witness(memfd.as_fd())?;
        let stored = StoredWitness { name, leased, offset, length: self.length, encoding: self.encoding };
        Ok((stored, memfd.try_clone_to_owned()?))
    }

    /// It is in the store: dropped without a [release](Self::release), its memory stays as it is.
    pub fn set_stored(&self) {
        if let Memory::Lease(lease) = &self.memory {
            lease.set_stored();
        }
    }

    /// When its memory was asked for, and when it was there, if it is the first in its lease.
    pub fn waited(&self) -> Option<(Instant, Instant)> {
        match &self.memory {
            Memory::Lease(lease) => lease.waited(),
            Memory::Own { .. } => None,
        }
    }

    /// Bytes of memory that it holds.
    pub fn num_bytes(&self) -> u64 {
        match &self.memory {
            Memory::Lease(lease) => lease.buffer().size(),
            Memory::Own { mapped, .. } => mapped.length(),
        }
    }

    /// Frees the lease, if it is in one, for the next witness; the memory itself goes with the drop.
    pub fn release(&mut self) {
        if let Memory::Lease(lease) = &mut self.memory {
            lease.release();
        }
    }
}

/// Read through the descriptor, not the mapping: a hole that the submitter has punched reads as zeros, where
/// touching it could end the process (a page of a lease on huge pages, when the pool is empty).
impl WitnessBytes for Witness {
    fn length(&self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }

    fn copy(&self, offset: usize, into: &mut [u8]) -> io::Result<()> {
        match &self.memory {
            Memory::Lease(lease) => lease.buffer().read_at(into, offset as u64),
            Memory::Own { mapped, .. } => mapped.read_at(into, offset as u64),
        }
    }
}

/// z in private memory, checked; wiped when it is dropped.
pub struct PrivateWitness(Vec<Canonical>);

impl PrivateWitness {
    /// Reads the witness of a circuit once, whatever its submitter does to it meanwhile.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(witness: &Witness, circuit: &Circuit, cancel: &CancelToken) -> Result<Self, ReadError> {
        cancel.check()?;
        let mut z = Self(vec![Canonical::ZERO; circuit.num_variables()]);
        decode_into(witness.encoding, witness, circuit.num_inputs(), &mut z.0)?;
        cancel.check()?;
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
