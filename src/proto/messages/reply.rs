//! What the daemon answers.
use super::{
    Accepted, CircuitInfo, InstanceId, JobResult, Lease, Progress, ProtocolError, Status,
    wire::{self, DecodeError, DecodeProblem},
};
use crate::proto::{MAX_ATTACHED_BYTES, MAX_PACKET_BYTES, PROTOCOL_VERSION, cuzk_capnp};
use cuzk_capnp::reply::Which;

/// A reply, or an event before it, with the id of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's id.
    pub id: u64,
    /// What is answered.
    pub body: ReplyBody,
}

/// The replies; the schema describes each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// The request failed.
    Error(ProtocolError),
    /// To `hello`.
    Welcome(Welcome),
    /// To `circuits`.
    Circuits(Vec<CircuitInfo>),
    /// To `lease`; descriptor 0 is the memfd.
    Lease(Lease),
    /// To `release`.
    Released,
    /// To `submit` and `find`.
    Accepted(Accepted),
    /// An event before the reply to `await`.
    Progress(Progress),
    /// To `await`.
    Result(JobResult),
    /// To `acknowledge`.
    Acknowledged,
    /// To `cancel`.
    Cancelled,
    /// To `status`.
    Status(Status),
    /// The reply is in descriptor 0, a sealed memfd of this many bytes.
    Attached(u64),
    /// To `abandon`.
    Abandoned,
    /// To `metrics`, in the text format of Prometheus.
    Metrics(String),
    /// To `trace`: JSON in Chrome's trace event format.
    Trace(String),
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The protocol version spoken from here on.
    pub version: u32,
    /// The daemon's build id.
    pub build: String,
    /// This run of the daemon.
    pub instance: InstanceId,
}

impl Reply {
    /// The message's bytes: a packet, unless longer than [`MAX_PACKET_BYTES`]; see
    /// [`attached`](crate::proto::attached) then.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(|message| self.write(message.init_root()))
    }

    fn write(&self, mut to: cuzk_capnp::reply::Builder<'_>) {
        to.set_id(self.id);
        match &self.body {
            ReplyBody::Error(error) => error.write(to.init_error()),
            ReplyBody::Welcome(welcome) => {
                let mut to = to.init_welcome();
                to.set_version(welcome.version);
                to.set_build(&welcome.build[..]);
                to.set_instance(&welcome.instance.0);
            }
            ReplyBody::Circuits(circuits) => {
                CircuitInfo::write_list(circuits, to.init_circuits(wire::count(circuits)));
            }
            ReplyBody::Lease(lease) => lease.write(to.init_lease()),
            ReplyBody::Released => to.set_released(()),
            ReplyBody::Accepted(accepted) => accepted.write(to.init_accepted()),
            ReplyBody::Progress(progress) => progress.write(to.init_progress()),
            ReplyBody::Result(result) => result.write(to.init_result()),
            ReplyBody::Acknowledged => to.set_acknowledged(()),
            ReplyBody::Cancelled => to.set_cancelled(()),
            ReplyBody::Status(status) => status.write(to.init_status()),
            ReplyBody::Attached(bytes) => to.set_attached(*bytes),
            ReplyBody::Abandoned => to.set_abandoned(()),
            ReplyBody::Metrics(text) => to.set_metrics(&text[..]),
            ReplyBody::Trace(text) => to.set_trace(&text[..]),
        }
    }

    /// Reads a packet; the error carries the reply's id where it could be read.
    pub fn decode(packet: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_within(packet, MAX_PACKET_BYTES)
    }

    /// Reads a message that came in a memfd.
    pub(crate) fn decode_attached(message: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_within(message, MAX_ATTACHED_BYTES)
    }

    fn decode_within(packet: &[u8], max: usize) -> Result<Self, DecodeError> {
        let no_id = |problem| DecodeError { id: 0, problem };
        let segment = wire::Segment::from_packet(packet, max).map_err(no_id)?;
        segment.read(|message| {
            let root: cuzk_capnp::reply::Reader<'_> =
                message.get_root().map_err(|error| no_id(error.into()))?;
            let id = root.get_id();
            match Self::read_body(root, segment.max_entries()) {
                Ok(body) => Ok(Self { id, body }),
                Err(problem) => Err(DecodeError { id, problem }),
            }
        })
    }

    fn read_body(from: cuzk_capnp::reply::Reader<'_>, max_entries: u32) -> Result<ReplyBody, DecodeProblem> {
        let which = from.which().map_err(|capnp::NotInSchema(found)| DecodeProblem::UnknownMessage {
            found,
            version: PROTOCOL_VERSION,
        })?;
        Ok(match which {
            Which::Error(error) => ReplyBody::Error(ProtocolError::read(error?)?),
            Which::Welcome(welcome) => {
                let welcome = welcome?;
                ReplyBody::Welcome(Welcome {
                    version: welcome.get_version(),
                    build: wire::text("build", welcome.get_build())?,
                    instance: InstanceId(wire::fixed("instance", welcome.get_instance(), "16")?),
                })
            }
            Which::Circuits(circuits) => ReplyBody::Circuits(CircuitInfo::read_list(circuits?, max_entries)?),
            Which::Lease(lease) => ReplyBody::Lease(Lease::read(lease?)?),
            Which::Released(()) => ReplyBody::Released,
            Which::Accepted(accepted) => ReplyBody::Accepted(Accepted::read(accepted?)?),
            Which::Progress(progress) => ReplyBody::Progress(Progress::read(progress?)?),
            Which::Result(result) => ReplyBody::Result(JobResult::read(result?, max_entries)?),
            Which::Acknowledged(()) => ReplyBody::Acknowledged,
            Which::Cancelled(()) => ReplyBody::Cancelled,
            Which::Status(status) => ReplyBody::Status(Status::read(status?, max_entries)?),
            Which::Attached(bytes) => ReplyBody::Attached(bytes),
            Which::Abandoned(()) => ReplyBody::Abandoned,
            Which::Metrics(text) => ReplyBody::Metrics(wire::text("metrics", text)?),
            Which::Trace(text) => ReplyBody::Trace(wire::text("trace", text)?),
        })
    }
}
