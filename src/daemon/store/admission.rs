//! A submission on its way into the store. Its partition gets a place in its job, witness and journal are handed to the
//! service manager, and only once both are there is the partition queued and its submitter told.
use super::{Keeper, Record};
use crate::daemon::{
    jobs::{Arrival, Begun, Place},
    registry::LoadedCircuit,
    scheduler::Scheduler,
    slow::drop_slowly,
    witness::Witness,
};
use crate::proto::{Accepted, ErrorCode, ProtocolError};
use std::{io, sync::Arc};

/// How far a submission has come.
pub enum Admission {
    /// It is to be stored: see [`Pending::store`].
    Pending(Box<Pending>),
    /// The same partition is on its way already.
    Arriving,
    /// It was there before.
    Known(Accepted),
}

/// A partition that has a place, and must be stored.
pub struct Pending {
    scheduler: Scheduler,
    keeper: Keeper,
    place: Place,
    circuit: Arc<LoadedCircuit>,
    witness: Witness,
}

fn no_descriptors(error: &io::Error) -> ProtocolError {
    ProtocolError::new(ErrorCode::Internal, format!("the system has no descriptor to give: {error}"))
}

/// Makes a place for a partition.
///
/// # Errors
/// As [`Scheduler::begin`].
pub fn begin(
    scheduler: &Scheduler,
    keeper: &Keeper,
    arrival: Arrival<'_, Arc<LoadedCircuit>, Witness>,
) -> Result<Admission, ProtocolError> {
    let begun = scheduler.begin(&arrival, |admitted| Record::new(admitted, keeper.clone()));
    let Arrival { circuit, witness, .. } = arrival;
    let unwanted = match begun {
        Ok(Begun::Place(place)) => {
            let (scheduler, keeper) = (scheduler.clone(), keeper.clone());
            return Ok(Admission::Pending(Box::new(Pending { scheduler, keeper, place, circuit, witness })));
        }
        Ok(Begun::Known(accepted)) => Ok(Admission::Known(accepted)),
        Ok(Begun::Arriving) => Ok(Admission::Arriving),
        Err(refusal) => Err(refusal),
    };
    drop_slowly((circuit, witness));
    unwanted
}

impl Pending {
    /// Has it stored, and queues it. It must be waited for to its end: its place waits for it.
    ///
    /// # Errors
    /// `Busy` where the store does not take it; the job's own failure where that came first.
    pub async fn store(self: Box<Self>) -> Result<Accepted, ProtocolError> {
        let Self { scheduler, keeper, place, circuit, witness } = *self;
        let Place { job, partition, journal } = place;
        let (stored, memfd) = match witness.for_store() {
            Ok(found) => found,
            Err(error) => {
                scheduler.withdraw(job, partition);
                drop_slowly((circuit, witness));
                return Err(no_descriptors(&error));
            }
        };
        let (journal_name, name) = (journal.0.clone(), stored.name.clone());
        // The keeper's thread does not end before the process.
        let gone = |_| Err(super::StoreError::Failed("its thread is gone".into()));
        let kept = keeper.keep([(stored.name.clone(), memfd), journal]).await.unwrap_or_else(gone);
        if let Err(error) = kept {
            scheduler.withdraw(job, partition);
            drop_slowly((circuit, witness));
            return Err(error.into());
        }
        witness.set_stored();
        let accepted = scheduler.confirm(job, partition, circuit, witness, Some(stored));
        if accepted.is_err() {
            keeper.release(&name);
            // Of a job that is gone nobody else would.
            if scheduler.is_gone(job) {
                keeper.forget(&journal_name);
            }
        }
        accepted
    }
}
