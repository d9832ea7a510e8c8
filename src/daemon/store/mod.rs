//! What outlives the process: jobs, their witnesses and their results, in the service manager's store of file
//! descriptors. A job's *journal* is a memfd that tells its story; a *witness* is the memfd that its submitter wrote.
//! The manager keeps a descriptor of each and hands them to the next process, whatever ended this one.
//!
//! - Before a submission is accepted, journal and witness are in the store: [`admission`], by way of the `keeper`.
//! - From then on each step of the job is written to its journal, without asking anybody: `record`.
//! - A new process tells itself the stories and goes on where they end: [`restore`].
//!
//! Without a service manager, or with one that has no store, jobs live and die with the process.
pub mod admission;
mod event;
mod journal;
mod keeper;
mod manager;
pub mod names;
mod record;
mod replay;
pub mod restore;

pub use event::{Admitted, StoredWitness};
pub use keeper::{Keeper, Offer, StoreError};
pub use manager::ServiceManager;
pub use record::Record;
pub use replay::Story;

use std::os::fd::OwnedFd;

/// What the service manager offers, and what it has handed over.
#[derive(Default)]
pub struct Handover {
    /// The manager, where there is one.
    pub manager: Option<ServiceManager>,
    /// Entries of the store, by their names.
    pub entries: Vec<(String, OwnedFd)>,
}

/// Code generated from the schema.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]
mod store_capnp {
    include!(concat!(env!("OUT_DIR"), "/store_capnp.rs"));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::proto::{ContentId, IdempotencyKey, JobId, Priority};
    use crate::r1cs::WitnessEncoding;
    use std::{collections::BTreeMap, time::Duration};

    /// A job of one partition that an earlier process has left, and its record.
    pub(crate) fn left(key: &[u8], keeper: Keeper) -> (Story, Record) {
        let admitted = Admitted {
            job: JobId::generate(),
            uid: 7,
            key: IdempotencyKey::new(key).unwrap(),
            circuit: "spend".into(),
            circuit_id: ContentId([1; 32]),
            key_id: ContentId([2; 32]),
            partitions: 1,
            priority: Priority::Normal,
            deadline: None,
            build: String::new(),
            result_bytes: 1,
        };
        let (name, encoding) = ("cuzk-w1.1".to_owned(), WitnessEncoding::Canonical);
        let witness = StoredWitness { name, leased: true, offset: 0, length: 64, encoding };
        let past = replay::Past { witness: Some(witness.clone()), ..replay::Past::default() };
        let story = Story {
            admitted: admitted.clone(),
            partitions: vec![past],
            backends: Vec::new(),
            build: String::new(),
            failure: None,
            forgotten: false,
            created: Duration::ZERO,
            touched: Duration::ZERO,
        };
        let witnesses = BTreeMap::from([(0, witness.name)]);
        let journal = journal::Journal::create().unwrap();
        (story, Record::restored(admitted, journal, "cuzk-j1.1".into(), keeper, witnesses))
    }
}
