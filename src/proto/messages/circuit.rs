//! Circuits as a client sees them, and leases of memory for their witnesses.
use super::{
    ContentId, Priority,
    wire::{self, DecodeProblem, wire_enum},
};
use crate::proto::cuzk_capnp;

wire_enum! {
    /// Where a circuit's key is.
    KeyTier, "tier" {
        /// Not in memory; the first job loads it.
        NotLoaded = "notLoaded",
        /// On its way.
        Loading = "loading",
        /// In the host's memory, and on no device.
        Host = "host",
        /// It could not be loaded.
        Failed = "failed",
        /// Also on a device.
        Device = "device",
    }
}

/// A circuit that the daemon serves, or would serve but for a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitInfo {
    /// Its configured name.
    pub name: String,
    /// BLAKE3 of the compiled circuit; None until loaded.
    pub circuit_id: Option<ContentId>,
    /// BLAKE3 of the key file; None until loaded.
    pub key_id: Option<ContentId>,
    /// Public inputs without the leading 1.
    pub public_inputs: u64,
    /// Auxiliary variables.
    pub auxiliary: u64,
    /// Constraints.
    pub constraints: u64,
    /// log2 of the evaluation domain's size.
    pub domain_log2: u32,
    /// Where its key is.
    pub tier: KeyTier,
    /// Why it cannot be served; empty where it can.
    pub problem: String,
    /// Leases, jobs and proofs that hold it: while there are any it makes room for nobody.
    pub references: u32,
    /// What its key takes of the memory budget; 0 until loaded.
    pub key_bytes: u64,
    /// What the compiled circuit takes of it; 0 until loaded.
    pub circuit_bytes: u64,
}

impl CircuitInfo {
    pub(super) fn write(&self, mut to: cuzk_capnp::circuit_info::Builder<'_>) {
        to.set_name(&self.name[..]);
        to.set_circuit_id(ContentId::bytes_or_empty(&self.circuit_id));
        to.set_key_id(ContentId::bytes_or_empty(&self.key_id));
        to.set_public_inputs(self.public_inputs);
        to.set_auxiliary(self.auxiliary);
        to.set_constraints(self.constraints);
        to.set_domain_log2(self.domain_log2);
        to.set_tier(self.tier.to_wire());
        to.set_problem(&self.problem[..]);
        to.set_references(self.references);
        to.set_key_bytes(self.key_bytes);
        to.set_circuit_bytes(self.circuit_bytes);
    }

    pub(super) fn read(from: cuzk_capnp::circuit_info::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self {
            name: wire::name("name", from.get_name())?,
            circuit_id: ContentId::read_optional("circuitId", from.get_circuit_id())?,
            key_id: ContentId::read_optional("keyId", from.get_key_id())?,
            public_inputs: from.get_public_inputs(),
            auxiliary: from.get_auxiliary(),
            constraints: from.get_constraints(),
            domain_log2: from.get_domain_log2(),
            tier: KeyTier::from_wire(from.get_tier())?,
            problem: wire::text("problem", from.get_problem())?,
            references: from.get_references(),
            key_bytes: from.get_key_bytes(),
            circuit_bytes: from.get_circuit_bytes(),
        })
    }

    pub(super) fn write_list(
        list: &[Self],
        mut to: capnp::struct_list::Builder<'_, cuzk_capnp::circuit_info::Owned>,
    ) {
        for (circuit, index) in list.iter().zip(0..) {
            circuit.write(to.reborrow().get(index));
        }
    }

    pub(super) fn read_list(
        from: capnp::struct_list::Reader<'_, cuzk_capnp::circuit_info::Owned>,
        max_entries: u32,
    ) -> Result<Vec<Self>, DecodeProblem> {
        let mut list = Vec::with_capacity(wire::entries("circuits", from.len(), max_entries)?);
        for circuit in from {
            list.push(Self::read(circuit)?);
        }
        Ok(list)
    }
}

/// Asks for memory for one witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The circuit's name.
    pub circuit: String,
    /// Wait for memory; otherwise `Busy` answers at once where it is short.
    pub wait: bool,
    /// How urgent the proof is that the witness is for: its place among those who wait.
    pub priority: Priority,
}

impl LeaseRequest {
    /// A request with normal priority.
    pub fn new(circuit: impl Into<String>, wait: bool) -> Self {
        Self { circuit: circuit.into(), wait, priority: Priority::Normal }
    }

    pub(super) fn write(&self, mut to: cuzk_capnp::lease_request::Builder<'_>) {
        to.set_circuit(&self.circuit[..]);
        to.set_wait(self.wait);
        to.set_priority(self.priority.to_wire());
    }

    pub(super) fn read(from: cuzk_capnp::lease_request::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self {
            circuit: wire::name("circuit", from.get_circuit())?,
            wait: from.get_wait(),
            priority: Priority::from_wire(from.get_priority())?,
        })
    }
}

/// A lease: descriptor 0 of its packet is the memfd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Names the lease on its connection.
    pub id: u64,
    /// 32 · (1 + public inputs + auxiliary); the memfd is that, rounded up to whole pages.
    pub bytes: u64,
    /// Public inputs without the leading 1.
    pub public_inputs: u64,
    /// Auxiliary variables.
    pub auxiliary: u64,
    /// BLAKE3 of the compiled circuit.
    pub circuit_id: ContentId,
}

impl Lease {
    pub(super) fn write(&self, mut to: cuzk_capnp::lease::Builder<'_>) {
        to.set_id(self.id);
        to.set_bytes(self.bytes);
        to.set_public_inputs(self.public_inputs);
        to.set_auxiliary(self.auxiliary);
        to.set_circuit_id(&self.circuit_id.0);
    }

    pub(super) fn read(from: cuzk_capnp::lease::Reader<'_>) -> Result<Self, DecodeProblem> {
        Ok(Self {
            id: from.get_id(),
            bytes: from.get_bytes(),
            public_inputs: from.get_public_inputs(),
            auxiliary: from.get_auxiliary(),
            circuit_id: ContentId::read("circuitId", from.get_circuit_id())?,
        })
    }
}
