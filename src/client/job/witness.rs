//! A witness on its way from its maker to the daemon.
use crate::{
    client::{ClientError, Lease},
    proto::ContentId,
    r1cs::WitnessEncoding,
    shm::{OwnBuffer, OwnMemfd},
};
use std::{io, sync::Arc};
use tokio::task::spawn_blocking;

/// A witness, ready to be submitted.
#[derive(Debug)]
pub struct Witness {
    pub(super) memory: WitnessMemory,
    pub(super) encoding: WitnessEncoding,
    pub(super) length: u64,
    pub(super) circuit_id: Option<ContentId>,
}

#[derive(Debug)]
pub(super) enum WitnessMemory {
    Lease(Lease),
    Own(Arc<OwnMemfd>),
}

impl Witness {
    /// A lease whose region was written whole.
    pub fn canonical(lease: Lease) -> Self {
        let length = lease.bytes();
        Self::encoded(lease, WitnessEncoding::Canonical, length)
    }

    /// A lease that holds `length` bytes in this encoding.
    pub fn encoded(lease: Lease, encoding: WitnessEncoding, length: u64) -> Self {
        let circuit_id = Some(lease.circuit_id());
        Self { memory: WitnessMemory::Lease(lease), encoding, length, circuit_id }
    }

    /// A sealed memfd of the caller's own, all of it, made for the circuit with this id (None: for whatever
    /// the daemon has).
    pub fn own(memfd: Arc<OwnMemfd>, encoding: WitnessEncoding, circuit_id: Option<ContentId>) -> Self {
        let length = memfd.length();
        Self { memory: WitnessMemory::Own(memfd), encoding, length, circuit_id }
    }

    /// The same witness in a memfd of our own.
    pub(super) async fn into_own(self) -> Result<Self, ClientError> {
        let Self { memory, encoding, length, circuit_id } = self;
        let own = match memory {
            WitnessMemory::Own(own) => own,
            WitnessMemory::Lease(lease) => {
                let copy = spawn_blocking(move || -> io::Result<OwnMemfd> {
                    let mut own = OwnBuffer::create(length)?;
                    lease.copy_to(&mut own)?;
                    own.seal()
                });
                Arc::new(copy.await.map_err(io::Error::other)??)
            }
        };
        Ok(Self { memory: WitnessMemory::Own(own), encoding, length, circuit_id })
    }
}
