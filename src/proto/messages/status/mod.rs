//! What the daemon is doing.
mod backend;
mod flow;

use super::{
    CircuitInfo, JobId, PartitionState, Priority,
    wire::{self, DecodeProblem, wire_enum},
};
use crate::proto::{MAX_PARTITIONS, cuzk_capnp};
use std::time::Duration;

pub use backend::{BackendState, BackendStatus, CurrentPartition, IdleTimes};
pub use flow::{QueueStatus, StageBuffers};

wire_enum! {
    /// The daemon's own state.
    DaemonState, "state" {
        /// Circuits are being loaded.
        Loading = "loading",
        /// Serving.
        Ready = "ready",
        /// Stopping: finishes what runs, admits nothing.
        Draining = "draining",
    }
}

/// The daemon at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The daemon's build id.
    pub build: String,
    /// Its process id.
    pub pid: u32,
    /// Time since its start, in whole milliseconds.
    pub uptime: Duration,
    /// Loading, ready or draining.
    pub state: DaemonState,
    /// Its provers.
    pub backends: Vec<BackendStatus>,
    /// Its memory budget.
    pub memory: MemoryStatus,
    /// Its circuits.
    pub circuits: Vec<CircuitInfo>,
    /// The jobs it knows: unfinished ones, oldest first, then finished ones, newest first.
    pub jobs: Vec<JobStatus>,
    /// Jobs that are left out there, where there are very many.
    pub omitted_jobs: u32,
    /// Totals since its start.
    pub counters: Counters,
    /// Open connections.
    pub connections: u32,
    /// The last line told to the service manager, e.g. why a reload was refused.
    pub message: String,
    /// The queues that are not empty, the most urgent first.
    pub queues: Vec<QueueStatus>,
    /// Witness buffers in flight, by what is done with them.
    pub buffers: Vec<StageBuffers>,
}

/// The memory budget, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    /// All that may be used.
    pub total: u64,
    /// All that is used.
    pub used: u64,
    /// Used by witnesses.
    pub leases: u64,
    /// Used by keys.
    pub keys: u64,
    /// Used by compiled circuits.
    pub circuits: u64,
    /// Used by provers' own vectors.
    pub working: u64,
    /// Requests that wait for memory.
    pub waiting: u32,
    /// The most that was ever used.
    pub peak: u64,
    /// Of the used ones, what is locked for devices to copy from.
    pub locked: u64,
    /// What the kernel counts as the process's own.
    pub resident: u64,
    /// The most that this ever was.
    pub peak_resident: u64,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// Its id.
    pub job: JobId,
    /// The user who submitted it.
    pub uid: u32,
    /// The circuit's name.
    pub circuit: String,
    /// Its urgency.
    pub priority: Priority,
    /// Time since its first partition was submitted, in whole milliseconds.
    pub age: Duration,
    /// Its partitions, in order.
    pub partitions: Vec<PartitionStatus>,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStatus {
    /// How far it is.
    pub state: PartitionState,
    /// The prover's stage while running, otherwise empty.
    pub stage: String,
}

/// Totals since the daemon's start, in partitions but for `refused`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted.
    pub submitted: u64,
    /// Proved.
    pub proved: u64,
    /// Failed.
    pub failed: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Proofs that did not verify and were made again.
    pub self_check_retries: u64,
    /// Requests answered with an error.
    pub refused: u64,
}

impl Status {
    pub(super) fn write(&self, mut to: cuzk_capnp::status::Builder<'_>) {
        to.set_build(&self.build[..]);
        to.set_pid(self.pid);
        to.set_uptime_ms(wire::milliseconds(self.uptime));
        to.set_state(self.state.to_wire());
        to.set_connections(self.connections);
        to.set_message(&self.message[..]);
        to.set_omitted_jobs(self.omitted_jobs);
        let mut backends = to.reborrow().init_backends(wire::count(&self.backends));
        for (backend, index) in self.backends.iter().zip(0..) {
            backend.write(backends.reborrow().get(index));
        }
        self.memory.write(to.reborrow().init_memory());
        CircuitInfo::write_list(&self.circuits, to.reborrow().init_circuits(wire::count(&self.circuits)));
        let mut jobs = to.reborrow().init_jobs(wire::count(&self.jobs));
        for (job, index) in self.jobs.iter().zip(0..) {
            job.write(jobs.reborrow().get(index));
        }
        let mut queues = to.reborrow().init_queues(wire::count(&self.queues));
        for (queue, index) in self.queues.iter().zip(0..) {
            queue.write(queues.reborrow().get(index));
        }
        let mut buffers = to.reborrow().init_buffers(wire::count(&self.buffers));
        for (stage, index) in self.buffers.iter().zip(0..) {
            stage.write(buffers.reborrow().get(index));
        }
        self.counters.write(to.init_counters());
    }

    pub(super) fn read(
        from: cuzk_capnp::status::Reader<'_>,
        max_entries: u32,
    ) -> Result<Self, DecodeProblem> {
        let list = from.get_backends()?;
        let mut backends = Vec::with_capacity(wire::entries("backends", list.len(), max_entries)?);
        for backend in list {
            backends.push(BackendStatus::read(backend, max_entries)?);
        }
        let list = from.get_queues()?;
        let mut queues = Vec::with_capacity(wire::entries("queues", list.len(), max_entries)?);
        for queue in list {
            queues.push(QueueStatus::read(queue)?);
        }
        let list = from.get_buffers()?;
        let mut buffers = Vec::with_capacity(wire::entries("buffers", list.len(), max_entries)?);
        for stage in list {
            buffers.push(StageBuffers::read(stage)?);
        }
        let list = from.get_jobs()?;
        let mut jobs = Vec::with_capacity(wire::entries("jobs", list.len(), max_entries)?);
        for job in list {
            jobs.push(JobStatus::read(job, max_entries)?);
        }
        Ok(Self {
            build: wire::text("build", from.get_build())?,
            pid: from.get_pid(),
            uptime: Duration::from_millis(from.get_uptime_ms()),
            state: DaemonState::from_wire(from.get_state())?,
            backends,
            memory: MemoryStatus::read(from.get_memory()?),
            circuits: CircuitInfo::read_list(from.get_circuits()?, max_entries)?,
            jobs,
            omitted_jobs: from.get_omitted_jobs(),
            counters: Counters::read(from.get_counters()?),
            connections: from.get_connections(),
            message: wire::text("message", from.get_message())?,
            queues,
            buffers,
        })
    }
}

impl MemoryStatus {
    fn write(&self, mut to: cuzk_capnp::memory_status::Builder<'_>) {
        to.set_total_bytes(self.total);
        to.set_used_bytes(self.used);
        to.set_leases(self.leases);
        to.set_keys(self.keys);
        to.set_circuits(self.circuits);
        to.set_working(self.working);
        to.set_waiting(self.waiting);
        to.set_peak_bytes(self.peak);
        to.set_locked_bytes(self.locked);
        to.set_resident_bytes(self.resident);
        to.set_peak_resident_bytes(self.peak_resident);
    }

    fn read(from: cuzk_capnp::memory_status::Reader<'_>) -> Self {
        Self {
            total: from.get_total_bytes(),
            used: from.get_used_bytes(),
            leases: from.get_leases(),
            keys: from.get_keys(),
            circuits: from.get_circuits(),
            working: from.get_working(),
            waiting: from.get_waiting(),
            peak: from.get_peak_bytes(),
            locked: from.get_locked_bytes(),
            resident: from.get_resident_bytes(),
            peak_resident: from.get_peak_resident_bytes(),
        }
    }
}

impl JobStatus {
    fn write(&self, mut to: cuzk_capnp::job_status::Builder<'_>) {
        to.set_job(&self.job.0);
        to.set_uid(self.uid);
        to.set_circuit(&self.circuit[..]);
        to.set_priority(self.priority.to_wire());
        to.set_age_ms(wire::milliseconds(self.age));
        let mut partitions = to.init_partitions(wire::count(&self.partitions));
        for (partition, index) in self.partitions.iter().zip(0..) {
            let mut to = partitions.reborrow().get(index);
            to.set_state(partition.state.to_wire());
            to.set_stage(&partition.stage[..]);
        }
    }

    fn read(from: cuzk_capnp::job_status::Reader<'_>, max_entries: u32) -> Result<Self, DecodeProblem> {
        let list = from.get_partitions()?;
        let max = MAX_PARTITIONS.min(max_entries);
        let mut partitions = Vec::with_capacity(wire::entries("partitions", list.len(), max)?);
        for partition in list {
            partitions.push(PartitionStatus {
                state: PartitionState::from_wire(partition.get_state())?,
                stage: wire::text("stage", partition.get_stage())?,
            });
        }
        Ok(Self {
            job: JobId::read("job", from.get_job())?,
            uid: from.get_uid(),
            circuit: wire::name("circuit", from.get_circuit())?,
            priority: Priority::from_wire(from.get_priority())?,
            age: Duration::from_millis(from.get_age_ms()),
            partitions,
        })
    }
}

impl Counters {
    fn write(&self, mut to: cuzk_capnp::counters::Builder<'_>) {
        to.set_submitted(self.submitted);
        to.set_proved(self.proved);
        to.set_failed(self.failed);
        to.set_cancelled(self.cancelled);
        to.set_self_check_retries(self.self_check_retries);
        to.set_refused(self.refused);
    }

    fn read(from: cuzk_capnp::counters::Reader<'_>) -> Self {
        Self {
            submitted: from.get_submitted(),
            proved: from.get_proved(),
            failed: from.get_failed(),
            cancelled: from.get_cancelled(),
            self_check_retries: from.get_self_check_retries(),
            refused: from.get_refused(),
        }
    }
}
