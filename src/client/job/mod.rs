//! A job from its first lease to its result, over lost connections and restarts of the daemon.
//!
//! A job asks its owner for one witness after another and keeps each one's memory until the daemon has
//! proved it. Whatever the daemon turns out not to have after a restart is submitted again from
//! there; a partition that had been proved, and whose memory has served another one since, is asked for
//! again.
mod options;
mod witness;

pub use options::JobOptions;
pub use witness::Witness;

use super::{
    Client, ClientError, JobEvent, Lease, Watch, accepted_or_unknown,
    connection::{Connection, Ticket},
    mailbox::{Answer, Mail},
    retry::Outage,
};
use crate::proto::{
    ErrorCode, IdempotencyKey, JobId, JobResult, LeaseRequest, MAX_PARTITIONS, PartitionState, ProtocolError,
    ReplyBody, RequestBody, Retry, Submit, WitnessSource,
};
use std::sync::Arc;
use witness::WitnessMemory;

/// What a job wants next.
#[derive(Debug)]
pub enum Next {
    /// Make the witness of this partition and [submit](Job::submit) it: in this lease, or in a memfd.
    Fill {
        /// Index of the partition, from 0.
        partition: u32,
        /// Memory for it, which may hold an earlier witness.
        lease: Lease,
    },
    /// All proofs are made.
    Done(JobResult),
}

/// A job, and the memory of those of its witnesses that are not proved yet.
///
/// Dropped, it gives its leases back; what was submitted goes on in the daemon, and another `Job` with
/// the same key takes it up.
#[derive(Debug)]
pub struct Job {
    client: Client,
    options: JobOptions,
    key: IdempotencyKey,
    id: Option<JobId>,
    /// The daemon may know the job better than this side does: ask before anything else.
    may_be_known: bool,
    slots: Vec<Slot>,
    /// Leases of the present connection that hold no witness that is needed.
    spare: Vec<Lease>,
    attachment: Option<Attachment>,
    result: Option<JobResult>,
    outage: Outage,
}

/// What a job has under way on one connection.
#[derive(Debug)]
struct Attachment {
    connection: Arc<Connection>,
    watch: Option<Watch>,
    leasing: Option<Ticket>,
}

/// One partition.
#[derive(Debug)]
enum Slot {
    /// To be asked for.
    Wanted,
    /// Here, and submitted or about to be.
    Held { witness: Witness, submitted: bool },
    /// In the daemon's care, without a copy here.
    Theirs,
}

impl Client {
    /// Begins a job; nothing is sent before [`Job::advance`].
    pub fn job(&self, options: JobOptions) -> Result<Job, ClientError> {
        if !(1..=MAX_PARTITIONS).contains(&options.partitions) {
            let message = format!("a job of {} partitions, wanted 1 to {MAX_PARTITIONS}", options.partitions);
            return Err(ProtocolError::new(ErrorCode::PartitionInvalid, message).into());
        }
        Ok(Job {
            client: self.clone(),
            key: options.key.clone().unwrap_or_else(IdempotencyKey::unique),
            id: None,
            may_be_known: options.key.is_some(),
            slots: (0..options.partitions).map(|_| Slot::Wanted).collect(),
            spare: Vec::new(),
            attachment: None,
            result: None,
            outage: Outage::new(self.inner.retry),
            options,
        })
    }
}

impl Job {
    /// The job's idempotency key.
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// The daemon's id of the job, once it has one.
    pub fn id(&self) -> Option<JobId> {
        self.id
    }

    /// Waits until there is something to do: a witness to make, or the result to take. A partition given
    /// out before and not submitted since is given out again.
    pub async fn advance(&mut self) -> Result<Next, ClientError> {
        loop {
            match self.step().await {
                Ok(Some(next)) => {
                    self.outage.over();
                    return Ok(next);
                }
                Ok(None) => self.outage.over(),
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// Hands over the witness of a partition. It stays here until it is proved.
    pub async fn submit(&mut self, partition: u32, witness: Witness) -> Result<(), ClientError> {
        let partitions = self.options.partitions;
        let Some(slot) = self.slots.get_mut(partition as usize) else {
            let message = format!("partition {partition}, wanted one below {partitions}");
            return Err(ProtocolError::new(ErrorCode::PartitionInvalid, message).into());
        };
        *slot = Slot::Held { witness, submitted: false };
        loop {
            match self.settle().await {
                Ok(()) => {
                    self.outage.over();
                    return Ok(());
                }
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// Tells the daemon that the result is safe here. Where this fails, the result's time to live ends it.
    pub async fn acknowledge(&mut self) -> Result<(), ClientError> {
        match self.id {
            Some(id) => match self.attach().await?.call(RequestBody::Acknowledge(id), &[]).await? {
                Answer::Reply(ReplyBody::Acknowledged) => Ok(()),
                _ => Err(ClientError::unexpected("acknowledge")),
            },
            None => Ok(()),
        }
    }

    /// Takes one step: None where something happened, but there is nothing for the caller to do.
    async fn step(&mut self) -> Result<Option<Next>, ClientError> {
        self.settle().await?;
        if let Some(result) = &self.result {
            return Ok(Some(Next::Done(result.clone())));
        }
        let Some(partition) = self.slots.iter().position(|slot| matches!(slot, Slot::Wanted)) else {
            self.event().await?;
            return Ok(None);
        };
        let lease = match self.spare.pop() {
            Some(lease) => Some(lease),
            None => self.lease_or_event().await?,
        };
        Ok(lease.map(|lease| Next::Fill { partition: partition as u32, lease }))
    }

    /// Brings the daemon up to date: it has every witness that is here, and tells of the job.
    async fn settle(&mut self) -> Result<(), ClientError> {
        let connection = self.attach().await?;
        if self.may_be_known {
            let answer = connection.call(RequestBody::Find(self.key.clone()), &[]).await;
            match accepted_or_unknown(answer)? {
                Some(accepted) => self.id = Some(accepted.job),
                None => self.forget(),
            }
            self.may_be_known = false;
        }
        loop {
            self.watch(&connection).await?;
            let unsubmitted = |slot: &Slot| matches!(slot, Slot::Held { submitted: false, .. });
            match self.slots.iter().position(unsubmitted) {
                Some(partition) if self.result.is_none() => self.submit_held(partition, &connection).await?,
                _ => return Ok(()),
            }
        }
    }

    /// The connection that the job is on.
    async fn attach(&mut self) -> Result<Arc<Connection>, ClientError> {
        if let Some(attachment) = &self.attachment {
            return Ok(Arc::clone(&attachment.connection));
        }
        let connection = self.client.connection().await?;
        self.attachment =
            Some(Attachment { connection: Arc::clone(&connection), watch: None, leasing: None });
        Ok(connection)
    }

    /// Follows the job, once there is one to follow. The first events tell each partition's present state.
    async fn watch(&mut self, connection: &Arc<Connection>) -> Result<(), ClientError> {
        let Some(id) = self.id else { return Ok(()) };
        match &mut self.attachment {
            Some(Attachment { watch: watch @ None, .. }) => {
                *watch = Some(Watch::open(Arc::clone(connection), id, true).await?);
            }
            _ => return Ok(()),
        }
        let mut told = vec![false; self.slots.len()];
        while self.result.is_none() && told.contains(&false) {
            if let Some(partition) = self.event().await? {
                told[partition] = true;
            }
        }
        Ok(())
    }

    /// Submits a witness that is here.
    async fn submit_held(
        &mut self,
        partition: usize,
        connection: &Arc<Connection>,
    ) -> Result<(), ClientError> {
        let Slot::Held { mut witness, .. } = std::mem::replace(&mut self.slots[partition], Slot::Wanted)
        else {
            return Ok(());
        };
        // A lease of a connection that is gone is still memory to copy from.
        if let WitnessMemory::Lease(lease) = &witness.memory
            && connection.lease_id(lease).is_none()
        {
            witness = witness.into_own().await?;
        }
        let (source, memfd) = match &witness.memory {
            WitnessMemory::Lease(lease) => {
                (WitnessSource::Lease(connection.lease_id(lease).unwrap_or_default()), None)
            }
            WitnessMemory::Own(memfd) => (WitnessSource::Memfd { offset: 0 }, Some(Arc::clone(memfd))),
        };
        let submit = Submit {
            key: self.key.clone(),
            circuit: self.options.circuit.clone(),
            circuit_id: witness.circuit_id,
            partition: partition as u32,
            partitions: self.options.partitions,
            priority: self.options.priority,
            encoding: witness.encoding,
            witness: source,
            length: witness.length,
            deadline: self.options.deadline,
        };
        self.slots[partition] = Slot::Held { witness, submitted: false };
        let descriptors = memfd.as_ref().map(|memfd| memfd.memfd());
        let accepted = match connection.call(RequestBody::Submit(submit), descriptors.as_slice()).await? {
            Answer::Reply(ReplyBody::Accepted(accepted)) => accepted,
            _ => return Err(ClientError::unexpected("submit")),
        };
        if let Slot::Held { submitted, .. } = &mut self.slots[partition] {
            *submitted = true;
        }
        if self.id.replace(accepted.job).is_some_and(|id| id != accepted.job)
            && let Some(attachment) = &mut self.attachment
        {
            // The daemon had forgotten the job, and this is another one.
            attachment.watch = None;
        }
        Ok(())
    }

    /// A lease for a partition that is wanted; None where something else happened first.
    async fn lease_or_event(&mut self) -> Result<Option<Lease>, ClientError> {
        let held = self.held_leases();
        let Some(attachment) = &mut self.attachment else { return Ok(None) };
        if attachment.leasing.is_none() && held < self.options.leases {
            let request = LeaseRequest {
                circuit: self.options.circuit.clone(),
                wait: true,
                priority: self.options.priority,
            };
            attachment.leasing = Some(attachment.connection.request(RequestBody::Lease(request), &[]).await?);
        }
        let Attachment { watch, leasing, .. } = attachment;
        let mail = match (watch, &leasing) {
            (Some(watch), Some(ticket)) => tokio::select! {
                biased;
                event = watch.event() => return self.take_event(event).map(|_| None),
                mail = ticket.next() => mail,
            },
            (None, Some(ticket)) => ticket.next().await,
            (Some(watch), None) => {
                let event = watch.event().await;
                return self.take_event(event).map(|_| None);
            }
            // Held leases belong to a job that is watched.
            (None, None) => return Ok(None),
        };
        *leasing = None;
        match mail {
            Mail::End(Ok(Answer::Lease(lease))) => Ok(Some(lease)),
            // The user's quota may be what this very job holds: wait for it to hold less.
            Mail::End(Err(ClientError::Refused(error))) if error.retry == Retry::Later && held > 0 => {
                self.event().await.map(|_| None)
            }
            Mail::End(Err(error)) => Err(error),
            Mail::End(Ok(Answer::Reply(_))) | Mail::Progress(_) => Err(ClientError::unexpected("lease")),
        }
    }

    /// Waits for the next event of the job that is watched; gives the partition that it is about, if any.
    async fn event(&mut self) -> Result<Option<usize>, ClientError> {
        match &mut self.attachment {
            Some(Attachment { watch: Some(watch), .. }) => {
                let event = watch.event().await;
                self.take_event(event)
            }
            _ => Ok(None),
        }
    }

    fn take_event(
        &mut self,
        event: Option<Result<JobEvent, ClientError>>,
    ) -> Result<Option<usize>, ClientError> {
        let event = match event {
            Some(Ok(event)) => event,
            end => {
                // Whoever asks again follows the job anew.
                if let Some(attachment) = &mut self.attachment {
                    attachment.watch = None;
                }
                return end.transpose().map(|_| None);
            }
        };
        match event {
            JobEvent::Done(result) if result.proofs.len() == self.slots.len() => {
                self.result = Some(result);
                self.spare.clear();
                self.slots.fill_with(|| Slot::Theirs);
                Ok(None)
            }
            JobEvent::Done(result) => Err(ClientError::violation(format!(
                "it returned {} proofs for {} partitions",
                result.proofs.len(),
                self.slots.len()
            ))),
            JobEvent::Progress(progress) => {
                let partition = progress.partition as usize;
                if partition >= self.slots.len() {
                    return Err(ClientError::violation(format!("progress of partition {partition}")));
                }
                self.take_state(partition, progress.state);
                self.options.tell(&progress);
                Ok(Some(partition))
            }
        }
    }

    /// What a partition's state says about its witness.
    fn take_state(&mut self, partition: usize, state: PartitionState) {
        let slot = &mut self.slots[partition];
        match (state, &mut *slot) {
            (PartitionState::Missing, Slot::Held { submitted, .. }) => *submitted = false,
            (PartitionState::Missing, slot) => *slot = Slot::Wanted,
            // A single witness is kept to the end: nothing else needs its memory.
            (PartitionState::Proved, Slot::Held { .. }) if self.options.partitions > 1 => {
                let proved = std::mem::replace(slot, Slot::Theirs);
                let wanted = self.slots.iter().any(|slot| matches!(slot, Slot::Wanted));
                if let (
                    Slot::Held { witness: Witness { memory: WitnessMemory::Lease(lease), .. }, .. },
                    Some(here),
                ) = (proved, &self.attachment)
                    && wanted
                    && here.connection.lease_id(&lease).is_some()
                {
                    self.spare.push(lease);
                }
            }
            (_, slot @ Slot::Wanted) => *slot = Slot::Theirs,
            (_, Slot::Held { .. } | Slot::Theirs) => {}
        }
        if !self.slots.iter().any(|slot| matches!(slot, Slot::Wanted)) {
            self.spare.clear();
            if let Some(attachment) = &mut self.attachment {
                attachment.leasing = None;
            }
        }
    }

    /// The daemon does not know the job: everything has to be submitted, again where it is here.
    fn forget(&mut self) {
        self.id = None;
        if let Some(attachment) = &mut self.attachment {
            attachment.watch = None;
        }
        for slot in &mut self.slots {
            match slot {
                Slot::Held { submitted, .. } => *submitted = false,
                Slot::Theirs => *slot = Slot::Wanted,
                Slot::Wanted => {}
            }
        }
    }

    /// Prepares for another attempt after a failure, or gives the failure back.
    async fn recover(&mut self, error: ClientError) -> Result<(), ClientError> {
        if error.lost_connection() {
            self.attachment = None;
            self.spare.clear();
            self.may_be_known = true;
        }
        let unknown = matches!(error.code(), Some(ErrorCode::UnknownJob | ErrorCode::JobLost));
        if unknown && self.id.is_some() {
            self.forget();
            let reason = "the daemon no longer knows the job".into();
            return self.outage.wait(ClientError::Disconnected { reason }).await;
        }
        self.outage.wait(error).await
    }

    /// Leases whose witness is not proved yet.
    fn held_leases(&self) -> usize {
        let leased = |slot: &&Slot| match slot {
            Slot::Held { witness, .. } => matches!(witness.memory, WitnessMemory::Lease(_)),
            Slot::Wanted | Slot::Theirs => false,
        };
        self.slots.iter().filter(leased).count()
    }
}
