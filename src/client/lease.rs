//! A lease in a client's hands: memory that the daemon pays for, to write one witness after another into.
use super::{ClientError, connection::Shared};
use crate::{
    proto::{self, ContentId, RequestBody},
    r1cs::{PackedWriter, WitnessError, WitnessRegion, witness::VALUE_BYTES},
    shm::{LeaseMapping, OwnBuffer},
};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Weak},
};

/// Bytes that are copied at a time.
const COPY_CHUNK: usize = 1 << 20;

/// Memory for one witness of a circuit. It is given back on drop.
///
/// The mapping outlives the connection: what was written can be submitted to a restarted daemon.
#[derive(Debug)]
pub struct Lease {
    grant: Grant,
    mapping: LeaseMapping,
    terms: proto::Lease,
    num_inputs: usize,
    num_aux: usize,
}

/// The daemon's promise; dropped, it is returned.
#[derive(Debug)]
pub(super) struct Grant {
    id: u64,
    connection: Weak<Shared>,
}

impl Grant {
    pub(super) fn new(id: u64, connection: &Arc<Shared>) -> Self {
        Self { id, connection: Arc::downgrade(connection) }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // With the connection gone, so is the lease.
        if let Some(connection) = self.connection.upgrade() {
            connection.say(RequestBody::Release(self.id));
        }
    }
}

impl Lease {
    /// Maps what the daemon granted, once its terms agree with the circuit and the memory.
    pub(super) fn new(grant: Grant, terms: proto::Lease, memfd: OwnedFd) -> Result<Self, ClientError> {
        let disagree = || {
            ClientError::violation(format!(
                "it leased {} bytes for {} public inputs and {} auxiliary variables",
                terms.bytes, terms.public_inputs, terms.auxiliary
            ))
        };
        let num_inputs = terms.public_inputs.checked_add(1).and_then(|n| usize::try_from(n).ok());
        let num_inputs = num_inputs.ok_or_else(disagree)?;
        let num_aux = usize::try_from(terms.auxiliary).map_err(|_| disagree())?;
        if WitnessRegion::bytes(num_inputs, num_aux).map(|bytes| bytes as u64) != Some(terms.bytes) {
            return Err(disagree());
        }
        let mapping = LeaseMapping::new(memfd, terms.bytes)?;
        Ok(Self { grant, mapping, terms, num_inputs, num_aux })
    }

    /// The memory, to write the whole witness into: z = (1, public inputs, auxiliary). It still holds what
    /// was written before.
    pub fn region(&mut self) -> WitnessRegion<'_> {
        // SAFETY: `new` has checked that the mapping holds 32 · (num_inputs + num_aux) bytes; it lives as
        // long as `self`, which is borrowed mutably meanwhile.
        unsafe { WitnessRegion::from_raw(self.mapping.base(), self.num_inputs, self.num_aux) }
    }

    /// The memory, to write the whole witness into in the packed encoding. It is as large as a canonical
    /// witness; where few values are small, the packed encoding does not fit.
    ///
    /// # Errors
    /// [`WitnessError::Length`] where not even the encoding's directory fits.
    pub fn packed_writer(&mut self) -> Result<PackedWriter<'_>, WitnessError> {
        let bytes = VALUE_BYTES * (self.num_inputs + self.num_aux);
        // SAFETY: `new` has checked that the mapping holds so many bytes, and that their number does not
        // overflow; it lives as long as `self`, which is borrowed mutably meanwhile.
        unsafe { PackedWriter::from_raw(self.mapping.base(), bytes, self.num_inputs, self.num_aux) }
    }

    /// Copies bytes of an encoded witness into the memory, from `offset` on.
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.mapping.write_at(bytes, offset)
    }

    /// Bytes of a whole witness in the canonical encoding: 32 · (1 + public inputs + auxiliary).
    pub fn bytes(&self) -> u64 {
        self.terms.bytes
    }

    /// Public inputs without the leading 1.
    pub fn public_inputs(&self) -> u64 {
        self.terms.public_inputs
    }

    /// Auxiliary variables.
    pub fn auxiliary(&self) -> u64 {
        self.terms.auxiliary
    }

    /// The circuit that the lease is for.
    pub fn circuit_id(&self) -> ContentId {
        self.terms.circuit_id
    }

    /// The lease's id, where it belongs to this connection.
    pub(super) fn id_on(&self, connection: &Arc<Shared>) -> Option<u64> {
        std::ptr::eq(self.grant.connection.as_ptr(), Arc::as_ptr(connection)).then_some(self.grant.id)
    }

    /// Copies the beginning of the memory into a buffer of our own, which it fills.
    pub(super) fn copy_to(&self, own: &mut OwnBuffer) -> io::Result<()> {
        let mut chunk = vec![0; COPY_CHUNK.min(usize::try_from(own.length()).unwrap_or(COPY_CHUNK))];
        let mut done = 0;
        while done < own.length() {
            let left = usize::try_from(own.length() - done).unwrap_or(COPY_CHUNK);
            let part = &mut chunk[..left.min(COPY_CHUNK)];
            self.mapping.read_at(part, done)?;
            own.write_at(part, done)?;
            done += part.len() as u64;
        }
        Ok(())
    }
}
