//! The requests that may wait: for a circuit to be loaded, for memory, for a job's end.
use super::{Outgoing, Session};
use crate::daemon::budget::{Demand, NeverFits, Reservation};
use crate::daemon::instruments::Wait;
use crate::daemon::jobs::{Arrival, Known};
use crate::daemon::lease::Lease;
use crate::daemon::registry::LoadedCircuit;
use crate::daemon::slow::drop_slowly;
use crate::daemon::store::admission::{self, Admission};
use crate::daemon::users::Countable;
use crate::daemon::witness::Witness;
use crate::proto::{
    self, Accepted, AwaitRequest, ErrorCode, JobResult, LeaseRequest, PartitionState, Priority, Progress,
    ProtocolError, Reply, ReplyBody, Submit, WitnessSource,
};
use crate::shm::{LeasedBuffer, ReceivedFd};
use std::{
    io,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

/// When a client that does not want to wait may ask again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Bytes of one value.
const VALUE: u64 = 32;

/// A lease that the connection has not been told of yet.
struct Granted {
    lease: Arc<Lease>,
    terms: proto::Lease,
    descriptor: OwnedFd,
}

fn busy(message: String) -> ProtocolError {
    ProtocolError::new(ErrorCode::Busy, message).with_retry_after(RETRY_AFTER)
}

fn never_fits(error: &NeverFits, circuit: &str) -> ProtocolError {
    let message = format!("a witness buffer for circuit {circuit}, with all that proving it takes, {error}");
    ProtocolError::new(ErrorCode::NeverFits, message)
}

fn no_memory(error: &io::Error) -> ProtocolError {
    ProtocolError::new(ErrorCode::Internal, format!("the system has no witness buffer to give: {error}"))
}

impl Session {
    pub(super) async fn answer_lease(&self, id: u64, request: &LeaseRequest) {
        let granted = match self.lease(request).await {
            Ok(granted) => granted,
            Err(refusal) => return self.refuse(id, refusal).await,
        };
        // From here on nothing waits: the connection has a lease when it is told, or has none.
        let Ok(place) = self.out.reserve().await else { return };
        let Granted { lease, terms, descriptor } = granted;
        self.leases().insert(lease.id(), lease);
        let reply = Reply { id, body: ReplyBody::Lease(terms) };
        place.send(Outgoing { reply, descriptor: Some(descriptor) });
    }

    pub(super) async fn answer_submit(&self, id: u64, submit: &Submit, descriptors: Vec<OwnedFd>) {
        let accepted = self.submit(submit, descriptors).await;
        self.answer(id, accepted.map(ReplyBody::Accepted)).await;
    }

    pub(super) async fn answer_await(&self, id: u64, request: &AwaitRequest) {
        match self.follow(id, request).await {
            Ok(result) => self.reply(id, ReplyBody::Result(result), None).await,
            // A job's failure is an answer, not the refusal of one.
            Err(failure) => self.reply(id, ReplyBody::Error(failure), None).await,
        }
    }

    /// A circuit, once it is loaded.
    async fn circuit(&self, name: &str) -> Result<Arc<LoadedCircuit>, ProtocolError> {
        if let Some(ready) = self.service.registry.try_get(name)? {
            return Ok(ready);
        }
        let _told = self.service.instruments.activity.wait(Wait::Key);
        tokio::select! {
            circuit = self.service.registry.get(name) => circuit,
            draining = self.service.scheduler.closing() => Err(draining),
        }
    }

    /// Memory, once there is some.
    async fn reserve(&self, demand: Demand, circuit: &str) -> Result<Reservation, ProtocolError> {
        tokio::select! {
            reserved = self.service.budget.reserve(demand) => reserved.map_err(|e| never_fits(&e, circuit)),
            draining = self.service.scheduler.closing() => Err(draining),
        }
    }

    /// Waits until what the process before has left is taken up: its memory is in use already.
    async fn restored(&self) -> Result<(), ProtocolError> {
        tokio::select! {
            () = self.service.restored() => Ok(()),
            draining = self.service.scheduler.closing() => Err(draining),
        }
    }

    /// Memory for a witness buffer of `size` bytes, once there is some, with the circuit that it is for. While
    /// others wait it waits for its turn without the circuit: if each held one, none could make room.
    async fn reserve_with(
        &self,
        circuit: Arc<LoadedCircuit>,
        size: u64,
        priority: Priority,
    ) -> Result<(Arc<LoadedCircuit>, Reservation), ProtocolError> {
        let (name, id, demand) = (circuit.name.clone(), circuit.circuit_id, circuit.lease_demand(size));
        let reserved = self.service.budget.try_reserve(demand).map_err(|e| never_fits(&e, &name))?;
        if let Some(reservation) = reserved.filter(|_| !self.service.turn.is_taken()) {
            return Ok((circuit, reservation));
        }
        drop(circuit);
        let _told = self.service.instruments.activity.wait(Wait::Memory);
        let _turn = tokio::select! {
            turn = self.service.turn.wait(self.uid, priority) => turn,
            draining = self.service.scheduler.closing() => return Err(draining),
        };
        let circuit = self.circuit(&name).await?;
        if circuit.circuit_id != id {
            return Err(busy(format!("circuit {name} was changed meanwhile")));
        }
        let reservation = self.reserve(circuit.lease_demand(size), &name).await?;
        Ok((circuit, reservation))
    }

    async fn lease(&self, request: &LeaseRequest) -> Result<Granted, ProtocolError> {
        let (service, name, asked) = (&self.service, &request.circuit, Instant::now());
        service.scheduler.check_open()?;
        let circuit = if request.wait {
            self.restored().await?;
            self.circuit(name).await?
        } else {
            if !service.is_restored() {
                return Err(busy("jobs from before the daemon's start are being taken up".into()));
            }
            let ready = service.registry.try_get(name)?;
            ready.ok_or_else(|| busy(format!("circuit {name} is being loaded")))?
        };
        let bytes = VALUE * circuit.circuit.num_variables() as u64;
        let size = LeasedBuffer::max_size(bytes).unwrap_or(u64::MAX);
        // The quota is asked first: a user at its limit does not wait.
        let charge = service.users.charge(self.uid, Countable::Buffer(size))?;
        let (circuit, reservation) = if request.wait {
            self.reserve_with(circuit, size, request.priority).await?
        } else {
            let demand = circuit.lease_demand(size);
            loop {
                match service.budget.try_reserve(demand).map_err(|e| never_fits(&e, name))? {
                    Some(reservation) => break (circuit, reservation),
                    None if service.registry.evict_one() => {}
                    None => return Err(busy("the memory budget is exhausted".into())),
                }
            }
        };
        let id = self.new_lease_id();
        let lease = Lease::create(
            id,
            bytes,
            circuit.clone(),
            reservation,
            charge,
            (asked, &service.instruments.activity),
        )
        .map_err(|e| no_memory(&e))?;
        let descriptor = lease.buffer().memfd().try_clone_to_owned().map_err(|e| no_memory(&e))?;
        let terms = proto::Lease {
            id,
            bytes,
            public_inputs: circuit.circuit.num_inputs() as u64 - 1,
            auxiliary: circuit.circuit.num_aux() as u64,
            circuit_id: circuit.circuit_id,
        };
        Ok(Granted { lease, terms, descriptor })
    }

    fn unknown_lease(id: u64) -> ProtocolError {
        ProtocolError::new(ErrorCode::UnknownLease, format!("this connection has no lease {id}"))
    }

    /// Gives a lease back. A partition that uses it keeps the memory to its own end.
    pub(super) fn release(&self, id: u64) -> Result<(), ProtocolError> {
        let lease = self.leases().remove(&id).ok_or_else(|| Self::unknown_lease(id))?;
        lease.give_back();
        drop_slowly(lease);
        Ok(())
    }

    async fn submit(&self, submit: &Submit, descriptors: Vec<OwnedFd>) -> Result<Accepted, ProtocolError> {
        let scheduler = &self.service.scheduler;
        let (circuit, in_job) = loop {
            match scheduler.lookup(self.uid, submit)? {
                Known::Partition(accepted) => return Ok(accepted),
                // Whoever asks twice is told the same, and not before it is true.
                Known::Arriving(mut changed) => drop(changed.changed().await),
                Known::Job(Some(circuit)) => break (circuit, true),
                Known::Job(None) | Known::Nothing => break (self.circuit(&submit.circuit).await?, false),
            }
        };
        if let Some(id) = submit.circuit_id
            && id != circuit.circuit_id
        {
            let found = circuit.circuit_id;
            let message = format!("circuit {} is {found} here, the witness is for {id}", submit.circuit);
            return Err(ProtocolError::new(ErrorCode::CircuitChanged, message));
        }
        circuit.check_length(submit.length, submit.encoding)?;
        let (circuit, witness) = match submit.witness {
            WitnessSource::Lease(id) => (circuit, self.leased(id, submit)?),
            WitnessSource::Memfd { offset } => {
                self.own((offset, submit), descriptors, circuit, in_job).await?
            }
        };
        let (circuit_id, key_id) = (circuit.circuit_id, proto::ContentId(circuit.key.id));
        let arrival = Arrival { uid: self.uid, submit, circuit, circuit_id, key_id, witness };
        let Some(keeper) = &self.service.keeper else { return scheduler.admit(arrival) };
        if !keeper.is_there().await {
            return scheduler.admit(arrival);
        }
        match admission::begin(scheduler, keeper, arrival)? {
            Admission::Known(accepted) => Ok(accepted),
            Admission::Arriving => Err(busy("the same partition is being submitted elsewhere".into())),
            // In a task of its own: an abandoned request does not leave it half done.
            Admission::Pending(pending) => tokio::spawn(pending.store()).await.unwrap_or_else(|fault| {
                Err(ProtocolError::new(ErrorCode::Internal, format!("storing the job failed: {fault}")))
            }),
        }
    }

    /// A witness in a lease of this connection.
    fn leased(&self, id: u64, submit: &Submit) -> Result<Witness, ProtocolError> {
        let lease = self.leases().get(&id).cloned().ok_or_else(|| Self::unknown_lease(id))?;
        let (found, wanted) = (lease.buffer().length(), submit.length);
        if found < wanted {
            let message = format!("lease {id} has {found} bytes, the witness {wanted}");
            return Err(ProtocolError::new(ErrorCode::WitnessShort, message));
        }
        Ok(Witness::leased(lease.use_it()?, submit.encoding, submit.length))
    }

    /// A witness in a memfd of the client's own: checked and paid for before it is mapped. Unless the job has
    /// the circuit already, it is not held while others wait for memory.
    async fn own(
        &self,
        (offset, submit): (u64, &Submit),
        descriptors: Vec<OwnedFd>,
        circuit: Arc<LoadedCircuit>,
        in_job: bool,
    ) -> Result<(Arc<LoadedCircuit>, Witness), ProtocolError> {
        let found = descriptors.len();
        let Ok([descriptor]) = <[OwnedFd; 1]>::try_from(descriptors) else {
            let (code, message) = match found {
                0 => (
                    ErrorCode::DescriptorMissing,
                    "no descriptor came with the request, wanted a memfd".into(),
                ),
                _ => (
                    ErrorCode::DescriptorUnexpected,
                    format!("{found} descriptors came with the request, wanted 1"),
                ),
            };
            return Err(ProtocolError::new(code, message));
        };
        let sealed = ReceivedFd::from(descriptor).check(offset, submit.length)?;
        self.restored().await?;
        let charge = self.service.users.charge(self.uid, Countable::Buffer(sealed.charge()))?;
        let size = sealed.charge();
        let (circuit, reservation) = if in_job {
            let reservation = self.reserve(circuit.lease_demand(size), &circuit.name).await?;
            (circuit, reservation)
        } else {
            self.reserve_with(circuit, size, submit.priority).await?
        };
        let mapped = sealed.map().map_err(|e| no_memory(&e))?;
        Ok((circuit, Witness::own(mapped, submit.encoding, reservation, charge)))
    }

    /// Follows a job to its end.
    async fn follow(&self, id: u64, request: &AwaitRequest) -> Result<JobResult, ProtocolError> {
        let (scheduler, job) = (&self.service.scheduler, request.job);
        let mut changes = scheduler.watch(self.uid, job)?;
        let mut told: Vec<Option<(PartitionState, &str)>> = Vec::new();
        loop {
            changes.mark_unchanged();
            let view = scheduler.view(self.uid, job)?;
            if request.progress {
                told.resize(view.partitions.len(), None);
                for ((told, now), partition) in told.iter_mut().zip(&view.partitions).zip(0..) {
                    if *told != Some(*now) {
                        *told = Some(*now);
                        let (state, stage) = (now.0, now.1.to_owned());
                        let progress = Progress { job, partition, state, stage };
                        self.reply(id, ReplyBody::Progress(progress), None).await;
                    }
                }
            }
            if let Some(verdict) = view.verdict {
                return verdict.map(|result| (*result).clone());
            }
            if changes.changed().await.is_err() {
                let message = format!("job {job} has been forgotten: it was acknowledged or it expired");
                return Err(ProtocolError::new(ErrorCode::UnknownJob, message));
            }
        }
    }
}
