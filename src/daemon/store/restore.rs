//! Taking jobs back from the store. First, before anybody is served: every journal is read and its job put into the
//! table, so that nobody is told that there is no such job. Then, as circuits become ready: each witness is
//! checked as if a peer had sent it, paid for, and queued. New requests for memory wait until that is
//! done, for the memory of what is left is in use already.
//!
//! What is not understood is refused by name, and leaves the store.
use super::event::{self, EventError, StoredWitness};
use super::journal::{Journal, JournalError};
use super::names::Kind;
use super::record::since_boot;
use super::replay::{ReplayError, Story, replay};
use super::{Keeper, Record};
use crate::daemon::{
    budget::Reservation,
    jobs::circuit_changed,
    lease::Lease,
    registry::LoadedCircuit,
    scheduler::Scheduler,
    service::Service,
    users::{Countable, Users},
    witness::Witness,
};
use crate::proto::{ContentId, ErrorCode, JobId, ProtocolError};
use crate::shm::{LeasedBuffer, PageSize, ReceivedFd};
use nix::sys::stat::fstat;
use std::{
    collections::{BTreeMap, HashMap},
    io,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// How often the daemon may die while it proves a partition. A witness that kills it does so each time; that an innocent
/// one is met by so many deaths from elsewhere, each time in the midst of its proof, is next to impossible. It
/// is fewer than the unit's StartLimitBurst=.
pub const MAX_DEATHS: u32 = 5;
/// After so many deaths a partition is proved while nothing else is, so that those beside it are not blamed again.
pub const SUSPICIOUS_DEATHS: u32 = 2;

/// Why a journal is not taken.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum Refused {
    Journal(#[from] JournalError),
    Event(#[from] EventError),
    Replay(#[from] ReplayError),
}

/// A partition whose witness is still to be taken up.
pub struct Left {
    job: JobId,
    uid: u32,
    partition: u32,
    circuit: String,
    circuit_id: ContentId,
    key_id: ContentId,
    stored: StoredWitness,
    memfd: OwnedFd,
}

/// What was in the store.
#[derive(Default)]
pub struct Found {
    /// Partitions to be taken up, the oldest jobs first.
    pub left: Vec<Left>,
    /// Jobs that go on.
    pub unfinished: usize,
    /// Results that wait for their owners.
    pub finished: usize,
    /// Records that are not understood.
    pub refused: usize,
}

/// Puts the jobs of the store into the scheduler's table. What is not needed leaves the store.
pub fn take_over(
    scheduler: &Scheduler,
    users: &Users,
    keeper: &Keeper,
    entries: Vec<(String, OwnedFd)>,
) -> Found {
    let (mut journals, mut witnesses) = (Vec::new(), HashMap::new());
    for (name, descriptor) in entries {
        match Kind::of(&name) {
            Some(Kind::Job) => journals.push((name, descriptor)),
            Some(Kind::Witness) => drop(witnesses.insert(name, descriptor)),
            Some(Kind::Probe) | None => {}
        }
    }
    let mut found = Found::default();
    let mut stories = Vec::new();
    for (name, descriptor) in journals {
        match read(descriptor) {
            Ok((journal, story)) => stories.push((name, journal, story)),
            // Its process died before it had written anything.
            Err(Refused::Replay(ReplayError::Empty)) => {}
            Err(refused) => {
                tracing::error!("the record {name} of a job is refused, and the job lost: {refused}");
                found.refused += 1;
            }
        }
    }
    stories.sort_by_key(|(_, _, story)| story.admitted.job);
    for (name, journal, story) in stories {
        take(scheduler, users, keeper, (name, journal, story), &witnesses, &mut found);
    }
    keeper.forget_unused();
    found
}

fn read(descriptor: OwnedFd) -> Result<(Journal, Story), Refused> {
    let (journal, body) = Journal::open(descriptor)?;
    Ok((journal, replay(event::decode(&body)?)?))
}

/// The moment that lies so long after the system's start.
fn instant(at: Duration) -> Instant {
    let now = Instant::now();
    now.checked_sub(since_boot().saturating_sub(at)).unwrap_or(now)
}

fn died(story: &Story, partition: u32, deaths: u32) -> ProtocolError {
    let message = format!(
        "the daemon died {deaths} times while it proved partition {partition} of job {}: it is not tried again",
        story.admitted.job
    );
    ProtocolError::new(ErrorCode::DaemonDied, message)
}

fn take(
    scheduler: &Scheduler,
    users: &Users,
    keeper: &Keeper,
    (name, journal, mut story): (String, Journal, Story),
    memfds: &HashMap<String, OwnedFd>,
    found: &mut Found,
) {
    let job = story.admitted.job;
    let nothing_came = |story: &Story| {
        story.failure.is_none() && story.partitions.iter().all(|p| p.witness.is_none() && p.proof.is_none())
    };
    // The owner of the second has not been told that it is accepted.
    if story.forgotten || nothing_came(&story) {
        return;
    }
    let (mut left, mut names, mut suspects, mut killer) = (Vec::new(), BTreeMap::new(), Vec::new(), None);
    for (past, partition) in story.partitions.iter_mut().zip(0..) {
        let Some(stored) = past.witness.clone() else { continue };
        let Some(memfd) = memfds.get(&stored.name).and_then(|memfd| memfd.try_clone().ok()) else {
            tracing::warn!(JOB = %job, "the witness of partition {partition} of job {job} is not in the store");
            past.witness = None;
            continue;
        };
        match past.deaths {
            deaths if deaths >= MAX_DEATHS => killer = killer.or(Some((partition, deaths))),
            deaths if deaths >= SUSPICIOUS_DEATHS => suspects.push(partition),
            _ => {}
        }
        names.insert(partition, stored.name.clone());
        let admitted = &story.admitted;
        let (circuit, circuit_id, key_id) = (admitted.circuit.clone(), admitted.circuit_id, admitted.key_id);
        left.push(Left { job, uid: admitted.uid, partition, circuit, circuit_id, key_id, stored, memfd });
    }
    if killer.is_none() && !suspects.is_empty() {
        tracing::warn!(
            JOB = %job,
            "the daemon died while it proved partitions {suspects:?} of job {job}, and not for the first time: \
             they are proved alone"
        );
    }
    let admitted = story.admitted.clone();
    let failure = killer.map(|(partition, deaths)| (partition, died(&story, partition, deaths)));
    let (has_ended, times) = (story.has_ended(), (instant(story.created), instant(story.touched)));
    let charge = users.charge_anyway(admitted.uid, Countable::Job(admitted.result_bytes));
    let record = Record::restored(admitted, journal, name, keeper.clone(), names);
    if let Err(record) = scheduler.restore(story, record, suspects, charge, times) {
        tracing::error!(JOB = %job, "job {job} is in the store twice, or its key names another: it is dropped");
        record.forgotten();
        found.refused += 1;
        return;
    }
    if let Some((partition, failure)) = failure {
        tracing::error!(JOB = %job, "{failure}");
        scheduler.fail(job, partition, failure);
        found.finished += 1;
    } else if has_ended {
        found.finished += 1;
    } else {
        found.unfinished += 1;
        found.left.extend(left);
    }
}

/// Takes up what is left, circuit by circuit, and ends when all of it is queued or has failed by name.
pub async fn resume(service: Arc<Service>, left: Vec<Left>) {
    let mut circuits: BTreeMap<String, Vec<Left>> = BTreeMap::new();
    for it in left {
        circuits.entry(it.circuit.clone()).or_default().push(it);
    }
    let mut tasks = JoinSet::new();
    for left in circuits.into_values() {
        let service = service.clone();
        tasks.spawn(async move {
            for it in left {
                let (job, partition) = (it.job, it.partition);
                let outcome = tokio::select! {
                    outcome = take_up(&service, it) => outcome,
                    // What is not taken up now is the next process's.
                    _ = service.scheduler.closing() => return,
                };
                if let Err(failure) = outcome {
                    service.scheduler.fail(job, partition, failure);
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    service.set_restored();
}

/// Checks a witness, pays for it and queues it.
async fn take_up(service: &Service, left: Left) -> Result<(), ProtocolError> {
    let Left { job, uid, partition, circuit: name, circuit_id, key_id, stored, memfd } = left;
    let circuit = service.registry.get(&name).await?;
    let found = (circuit.circuit_id, ContentId(circuit.key.id));
    if found.0 != circuit_id {
        return Err(circuit_changed(&name, job, circuit_id, found.0));
    }
    if found.1 != key_id {
        let message =
            format!("circuit {name} had key {key_id} when job {job} was admitted, found {}", found.1);
        return Err(ProtocolError::new(ErrorCode::CircuitChanged, message));
    }
    let StoredWitness { leased, offset, length, encoding, .. } = stored;
    circuit.check_length(length, encoding)?;
    let witness = if leased {
        let size = size_of(&memfd).map_err(|e| unusable(&e))?;
        let reservation = reserve(service, &circuit, size).await?;
        let charge = service.users.charge_anyway(uid, Countable::Buffer(size));
        let buffer = LeasedBuffer::restore(memfd, length)?;
        let lease = Lease::restored(buffer, circuit.clone(), reservation, charge);
        Witness::leased(lease.use_it()?, encoding, length)
    } else {
        let sealed = ReceivedFd::from(memfd).check(offset, length)?;
        let reservation = reserve(service, &circuit, sealed.charge()).await?;
        let charge = service.users.charge_anyway(uid, Countable::Buffer(sealed.charge()));
        Witness::own(sealed.map().map_err(|e| unusable(&e))?, encoding, reservation, charge)
    };
    witness.set_stored();
    // A job that was cancelled meanwhile has let go of its witnesses.
    let _queued = service.scheduler.confirm(job, partition, circuit, witness, None);
    Ok(())
}

fn unusable(error: &io::Error) -> ProtocolError {
    ProtocolError::new(ErrorCode::Internal, format!("a witness of the store cannot be used: {error}"))
}

/// The memory of a lease that was left, in whole pages.
fn size_of(memfd: &OwnedFd) -> io::Result<u64> {
    let size = u64::try_from(fstat(memfd)?.st_size).unwrap_or_default();
    Ok(size.checked_next_multiple_of(PageSize::Base.bytes()).unwrap_or(size))
}

/// Memory for what is left, once there is some.
async fn reserve(
    service: &Service,
    circuit: &LoadedCircuit,
    size: u64,
) -> Result<Reservation, ProtocolError> {
    service.budget.reserve(circuit.lease_demand(size)).await.map_err(|error| {
        let message = format!(
            "the witness of circuit {} that was left, with all that proving it takes, {error}",
            circuit.name
        );
        ProtocolError::new(ErrorCode::NeverFits, message)
    })
}
