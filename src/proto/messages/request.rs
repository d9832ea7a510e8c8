//! What a client asks.
use super::{
    AwaitRequest, IdempotencyKey, JobId, LeaseRequest, Submit,
    wire::{self, DecodeError, DecodeProblem},
};
use crate::proto::{MAX_PACKET_BYTES, PROTOCOL_VERSION, cuzk_capnp};
use cuzk_capnp::request::Which;

/// A request with the id that its reply repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's choice.
    pub id: u64,
    /// What is asked.
    pub body: RequestBody,
}

/// The requests; the schema describes each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// The first request of a connection.
    Hello(Hello),
    /// Which circuits are served?
    Circuits,
    /// Memory for one witness.
    Lease(LeaseRequest),
    /// Gives back the lease with this id.
    Release(u64),
    /// One partition of a job.
    Submit(Submit),
    /// The result of a job.
    Await(AwaitRequest),
    /// The caller has the result; the daemon may forget the job.
    Acknowledge(JobId),
    /// Stops a job.
    Cancel(JobId),
    /// What the daemon is doing.
    Status,
    /// The job that this key names.
    Find(IdempotencyKey),
    /// Nobody waits for the reply to the request with this id.
    Abandon(u64),
    /// What `status` counts and times, for Prometheus.
    Metrics,
    /// Where the time of partitions went.
    Trace(TraceRequest),
}

/// Which partitions a trace is to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceRequest {
    /// Those of this job; None: of any.
    pub job: Option<JobId>,
    /// At most so many, those that ended last; 0: as many as the daemon remembers.
    pub last: u32,
}

/// Who speaks, and which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The protocol version that the client speaks.
    pub version: u32,
    /// Name and version of the client program, 1 to 128 bytes without control characters.
    pub client: String,
}

impl Request {
    /// The packet that carries the request.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(|message| self.write(message.init_root()))
    }

    fn write(&self, mut to: cuzk_capnp::request::Builder<'_>) {
        to.set_id(self.id);
        match &self.body {
            RequestBody::Hello(hello) => {
                let mut to = to.init_hello();
                to.set_version(hello.version);
                to.set_client(&hello.client[..]);
            }
            RequestBody::Circuits => to.set_circuits(()),
            RequestBody::Lease(lease) => lease.write(to.init_lease()),
            RequestBody::Release(lease) => to.set_release(*lease),
            RequestBody::Submit(submit) => submit.write(to.init_submit()),
            RequestBody::Await(request) => request.write(to.init_await()),
            RequestBody::Acknowledge(job) => to.set_acknowledge(&job.0),
            RequestBody::Cancel(job) => to.set_cancel(&job.0),
            RequestBody::Status => to.set_status(()),
            RequestBody::Find(key) => to.set_find(key.as_bytes()),
            RequestBody::Abandon(request) => to.set_abandon(*request),
            RequestBody::Metrics => to.set_metrics(()),
            RequestBody::Trace(request) => {
                let mut to = to.init_trace();
                to.set_job(request.job.as_ref().map_or(&[], |job| &job.0[..]));
                to.set_last(request.last);
            }
        }
    }

    /// Reads a packet; the error carries the request's id where it could be read.
    pub fn decode(packet: &[u8]) -> Result<Self, DecodeError> {
        let no_id = |problem| DecodeError { id: 0, problem };
        let segment = wire::Segment::from_packet(packet, MAX_PACKET_BYTES).map_err(no_id)?;
        segment.read(|message| {
            let root: cuzk_capnp::request::Reader<'_> =
                message.get_root().map_err(|error| no_id(error.into()))?;
            let id = root.get_id();
            match Self::read_body(root) {
                Ok(body) => Ok(Self { id, body }),
                Err(problem) => Err(DecodeError { id, problem }),
            }
        })
    }

    fn read_body(from: cuzk_capnp::request::Reader<'_>) -> Result<RequestBody, DecodeProblem> {
        let which = from.which().map_err(|capnp::NotInSchema(found)| DecodeProblem::UnknownMessage {
            found,
            version: PROTOCOL_VERSION,
        })?;
        Ok(match which {
            Which::Hello(hello) => {
                let hello = hello?;
                RequestBody::Hello(Hello {
                    version: hello.get_version(),
                    client: wire::name("client", hello.get_client())?,
                })
            }
            Which::Circuits(()) => RequestBody::Circuits,
            Which::Lease(lease) => RequestBody::Lease(LeaseRequest::read(lease?)?),
            Which::Release(lease) => RequestBody::Release(lease),
            Which::Submit(submit) => RequestBody::Submit(Submit::read(submit?)?),
            Which::Await(request) => RequestBody::Await(AwaitRequest::read(request?)?),
            Which::Acknowledge(job) => RequestBody::Acknowledge(JobId::read("acknowledge", job)?),
            Which::Cancel(job) => RequestBody::Cancel(JobId::read("cancel", job)?),
            Which::Status(()) => RequestBody::Status,
            Which::Find(key) => RequestBody::Find(IdempotencyKey::read("find", key)?),
            Which::Abandon(request) => RequestBody::Abandon(request),
            Which::Metrics(()) => RequestBody::Metrics,
            Which::Trace(request) => {
                let request = request?;
                let job = match request.get_job()? {
                    [] => None,
                    job => Some(JobId::read("job", Ok(job))?),
                };
                RequestBody::Trace(TraceRequest { job, last: request.get_last() })
            }
        })
    }
}
