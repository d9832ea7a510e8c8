//! One prover's part of a status: what it is, what it does, and where its time has gone.
use crate::proto::{
    JobId, cuzk_capnp,
    messages::wire::{self, DecodeProblem, wire_enum},
};
use std::time::Duration;

wire_enum! {
    /// Whether a prover proves.
    BackendState, "state" {
        /// It does.
        Ready = "ready",
        /// It could not be used at the start, or did not give the known answer.
        Quarantined = "quarantined",
        /// Its device failed for good.
        Lost = "lost",
    }
}

/// One prover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendStatus {
    /// `cpu`, or `cuda:` and the first digits of the device's UUID.
    pub name: String,
    /// Why this one and no other; for one that does not prove: why not.
    pub why: String,
    /// Partitions that it is proving.
    pub running: u32,
    /// Whether it proves.
    pub state: BackendState,
    /// Its proofs that did not verify and were made again.
    pub retries: u64,
    /// Model, UUID and PCI address of its device; empty for the CPU.
    pub device: String,
    /// Bytes of the device's memory that are taken.
    pub memory: u64,
    /// Those of them that circuits and keys keep.
    pub memory_kept: u64,
    /// Names of the circuits on the device.
    pub circuits: Vec<String>,
    /// Partitions that it takes on at once.
    pub slots: u32,
    /// Time, since its start, in which it computed or copied; whole nanoseconds.
    pub busy: Duration,
    /// The rest of the time.
    pub idle: IdleTimes,
    /// The partitions in its slots.
    pub current: Vec<CurrentPartition>,
}

/// Time in which a prover neither computed nor copied, by what was missing; whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleTimes {
    /// There was nothing to do.
    pub no_work: Duration,
    /// Clients held memory and had not submitted.
    pub witness: Duration,
    /// Requests waited for memory.
    pub memory: Duration,
    /// A circuit was being loaded.
    pub key: Duration,
    /// Partitions were being made ready, assembled or verified on the host, and no slot was free for another.
    pub epilogue: Duration,
}

impl IdleTimes {
    /// Each cause by its name, as in metrics and documents.
    pub fn by_cause(&self) -> [(&'static str, Duration); 5] {
        [
            ("no_work", self.no_work),
            ("witness", self.witness),
            ("memory", self.memory),
            ("key", self.key),
            ("epilogue", self.epilogue),
        ]
    }

    /// All causes together.
    pub fn total(&self) -> Duration {
        self.by_cause().iter().map(|(_, time)| *time).sum()
    }

    fn write(&self, mut to: cuzk_capnp::idle_times::Builder<'_>) {
        to.set_no_work(wire::nanoseconds(self.no_work));
        to.set_witness(wire::nanoseconds(self.witness));
        to.set_memory(wire::nanoseconds(self.memory));
        to.set_key(wire::nanoseconds(self.key));
        to.set_epilogue(wire::nanoseconds(self.epilogue));
    }

    fn read(from: cuzk_capnp::idle_times::Reader<'_>) -> Self {
        Self {
            no_work: Duration::from_nanos(from.get_no_work()),
            witness: Duration::from_nanos(from.get_witness()),
            memory: Duration::from_nanos(from.get_memory()),
            key: Duration::from_nanos(from.get_key()),
            epilogue: Duration::from_nanos(from.get_epilogue()),
        }
    }
}

/// A partition in a prover's slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentPartition {
    /// Its job.
    pub job: JobId,
    /// Its index.
    pub partition: u32,
    /// The circuit's name.
    pub circuit: String,
    /// What is done with it.
    pub stage: String,
    /// Since it left the queue, in whole milliseconds.
    pub running: Duration,
}

impl BackendStatus {
    pub(super) fn write(&self, mut to: cuzk_capnp::backend_status::Builder<'_>) {
        to.set_name(&self.name[..]);
        to.set_why(&self.why[..]);
        to.set_running(self.running);
        to.set_state(self.state.to_wire());
        to.set_retries(self.retries);
        to.set_device(&self.device[..]);
        to.set_memory_bytes(self.memory);
        to.set_memory_kept(self.memory_kept);
        to.set_slots(self.slots);
        to.set_busy_ns(wire::nanoseconds(self.busy));
        self.idle.write(to.reborrow().init_idle());
        let mut circuits = to.reborrow().init_circuits(wire::count(&self.circuits));
        for (circuit, index) in self.circuits.iter().zip(0..) {
            circuits.set(index, &circuit[..]);
        }
        let mut current = to.init_current(wire::count(&self.current));
        for (partition, index) in self.current.iter().zip(0..) {
            partition.write(current.reborrow().get(index));
        }
    }

    pub(super) fn read(
        from: cuzk_capnp::backend_status::Reader<'_>,
        max_entries: u32,
    ) -> Result<Self, DecodeProblem> {
        let list = from.get_circuits()?;
        let mut circuits = Vec::with_capacity(wire::entries("circuits", list.len(), max_entries)?);
        for circuit in list {
            circuits.push(wire::text("circuits", circuit)?);
        }
        let list = from.get_current()?;
        let mut current = Vec::with_capacity(wire::entries("current", list.len(), max_entries)?);
        for partition in list {
            current.push(CurrentPartition::read(partition)?);
        }
        Ok(Self {
            name: wire::text("name", from.get_name())?,
            why: wire::text("why", from.get_why())?,
            running: from.get_running(),
            state: BackendState::from_wire(from.get_state())?,
            retries: from.get_retries(),
            device: wire::text("device", from.get_device())?,
            memory: from.get_memory_bytes(),
            memory_kept: from.get_memory_kept(),
            circuits,
            slots: from.get_slots(),
            busy: Duration::from_nanos(from.get_busy_ns()),
            idle: IdleTimes::read(from.get_idle()?),
            current,
        })
    }
}

impl CurrentPartition {
    fn write(&self, mut to: cuzk_capnp::current_partition::Builder<'_>) {
        to.set_job(&self.job.0);
        to.set_partition(self.partition);
        to.set_circuit(&self.circuit[..]);
        to.set_stage(&self.stage[..]);
        to.set_running_ms(wire::milliseconds(self.running));
    }

    fn read(from: cuzk_capnp::current_partition::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self {
            job: JobId::read("job", from.get_job())?,
            partition: from.get_partition(),
            circuit: wire::name("circuit", from.get_circuit())?,
            stage: wire::text("stage", from.get_stage())?,
            running: Duration::from_millis(from.get_running_ms()),
        })
    }
}
