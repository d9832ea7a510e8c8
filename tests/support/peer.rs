//! A client that speaks the protocol request by request, so that tests can stop, err and lie anywhere.
#![allow(dead_code)]
use cuzk::{
    proto::{
        Accepted, AwaitRequest, ErrorCode, Hello, IdempotencyKey, JobId, JobResult, Lease, LeaseRequest,
        PROTOCOL_VERSION, PacketSocket, Priority, Progress, ProtocolError, Reply, ReplyBody, Request,
        RequestBody, Status, Submit, WitnessSource, attached,
    },
    r1cs::WitnessEncoding,
    shm::LeaseMapping,
};
use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};

/// How long a reply may take before the test fails; none is expected to take that long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection.
pub struct Peer {
    /// The socket, for tests that send what is no request.
    pub socket: PacketSocket,
    next: u64,
}

/// A lease with its mapping.
pub struct Leased {
    /// As granted.
    pub lease: Lease,
    /// The memory.
    pub mapping: LeaseMapping,
}

impl Peer {
    /// Connects without a word.
    pub async fn connect(socket: &Path) -> Self {
        Self { socket: PacketSocket::connect(socket).await.unwrap(), next: 1 }
    }

    /// Connects and says hello.
    pub async fn greet(socket: &Path) -> Self {
        Self::over(PacketSocket::connect(socket).await.unwrap()).await
    }

    /// Says hello on a connected socket.
    pub async fn over(socket: PacketSocket) -> Self {
        let mut peer = Self { socket, next: 1 };
        let hello = Hello { version: PROTOCOL_VERSION, client: "peer".into() };
        assert!(matches!(peer.ask(RequestBody::Hello(hello)).await, ReplyBody::Welcome(_)));
        peer
    }

    /// Sends a request and returns its id.
    pub async fn send(&mut self, body: RequestBody, descriptors: &[BorrowedFd<'_>]) -> u64 {
        let id = self.next;
        self.next += 1;
        self.socket.send(&Request { id, body }.encode(), descriptors).await.unwrap();
        id
    }

    /// The next reply with its descriptors; long ones are read from their memfd.
    pub async fn receive(&mut self) -> (Reply, Vec<OwnedFd>) {
        let packet = tokio::time::timeout(PATIENCE, self.socket.recv()).await.expect("a reply in time");
        let packet = packet.unwrap().expect("the connection is open");
        let mut descriptors = packet.descriptors.unwrap();
        let mut reply = Reply::decode(&packet.bytes).unwrap();
        if let ReplyBody::Attached(bytes) = reply.body {
            reply = attached::read(reply.id, bytes, descriptors.remove(0)).unwrap();
        }
        (reply, descriptors)
    }

    /// Whether the daemon closes the connection.
    pub async fn is_closed(&mut self) -> bool {
        let received = tokio::time::timeout(PATIENCE, self.socket.recv()).await.expect("an end in time");
        !matches!(received, Ok(Some(_)))
    }

    /// The reply to this request; others must not come meanwhile.
    pub async fn reply_to(&mut self, id: u64) -> (ReplyBody, Vec<OwnedFd>) {
        let (reply, descriptors) = self.receive().await;
        assert_eq!(reply.id, id, "{reply:?}");
        (reply.body, descriptors)
    }

    /// Sends a request and receives its reply.
    pub async fn ask(&mut self, body: RequestBody) -> ReplyBody {
        let id = self.send(body, &[]).await;
        self.reply_to(id).await.0
    }

    /// Sends a request that is refused.
    pub async fn refused(&mut self, body: RequestBody) -> ProtocolError {
        error(self.ask(body).await)
    }

    /// Asks for a lease.
    pub async fn lease(&mut self, circuit: &str, wait: bool) -> Result<Leased, ProtocolError> {
        let id = self.send(RequestBody::Lease(LeaseRequest::new(circuit, wait)), &[]).await;
        let (body, descriptors) = self.reply_to(id).await;
        leased(body, descriptors)
    }

    /// Submits a partition.
    pub async fn submit(&mut self, submit: Submit) -> Result<Accepted, ProtocolError> {
        accepted(self.ask(RequestBody::Submit(submit)).await)
    }

    /// Submits a partition whose witness is in a memfd of our own.
    pub async fn submit_own(&mut self, submit: Submit, memfd: impl AsFd) -> Result<Accepted, ProtocolError> {
        let id = self.send(RequestBody::Submit(submit), &[memfd.as_fd()]).await;
        accepted(self.reply_to(id).await.0)
    }

    /// Waits for a job's end.
    pub async fn wait(&mut self, job: JobId) -> Result<JobResult, ProtocolError> {
        match self.ask(RequestBody::Await(AwaitRequest { job, progress: false })).await {
            ReplyBody::Result(result) => Ok(result),
            other => Err(error(other)),
        }
    }

    /// Waits for a job's end and collects what is told on the way.
    pub async fn follow(&mut self, job: JobId) -> (Vec<Progress>, Result<JobResult, ProtocolError>) {
        let id = self.send(RequestBody::Await(AwaitRequest { job, progress: true }), &[]).await;
        let mut told = Vec::new();
        loop {
            match self.reply_to(id).await.0 {
                ReplyBody::Progress(progress) => told.push(progress),
                ReplyBody::Result(result) => return (told, Ok(result)),
                other => return (told, Err(error(other))),
            }
        }
    }

    /// The daemon's status.
    pub async fn status(&mut self) -> Status {
        match self.ask(RequestBody::Status).await {
            ReplyBody::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// Asks for the status again and again until it is as wanted.
    pub async fn status_until(&mut self, wanted: impl Fn(&Status) -> bool) -> Status {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let status = self.status().await;
            if wanted(&status) {
                return status;
            }
            assert!(tokio::time::Instant::now() < until, "{status:#?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// A connected socket without any of the library's care, for [`Peer::over`] and for what it would not send.
pub fn connect_raw(path: &Path) -> OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
    connect(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    socket
}

/// The library's socket around a connected one.
pub fn cooked(socket: OwnedFd) -> PacketSocket {
    tokio_seqpacket::UnixSeqpacket::try_from(socket).unwrap().into()
}

/// The error that a reply is.
pub fn error(body: ReplyBody) -> ProtocolError {
    match body {
        ReplyBody::Error(error) => error,
        other => panic!("wanted an error: {other:?}"),
    }
}

/// The lease that a reply grants.
pub fn leased(body: ReplyBody, mut descriptors: Vec<OwnedFd>) -> Result<Leased, ProtocolError> {
    match body {
        ReplyBody::Lease(lease) => {
            assert_eq!(descriptors.len(), 1);
            let mapping = LeaseMapping::new(descriptors.remove(0), lease.bytes).unwrap();
            Ok(Leased { lease, mapping })
        }
        other => Err(error(other)),
    }
}

fn accepted(body: ReplyBody) -> Result<Accepted, ProtocolError> {
    match body {
        ReplyBody::Accepted(accepted) => Ok(accepted),
        other => Err(error(other)),
    }
}

impl Leased {
    /// Writes an encoded witness.
    pub fn write(&self, witness: &[u8]) {
        self.mapping.write_at(witness, 0).unwrap();
    }

    /// A job of one partition with the canonical witness in this lease.
    pub fn job(&self, key: &[u8], circuit: &str) -> Submit {
        submit(key, circuit, self.lease.bytes, WitnessSource::Lease(self.lease.id))
    }
}

/// A job of one partition.
pub fn submit(key: &[u8], circuit: &str, length: u64, witness: WitnessSource) -> Submit {
    Submit {
        key: IdempotencyKey::new(key).unwrap(),
        circuit: circuit.into(),
        circuit_id: None,
        partition: 0,
        partitions: 1,
        priority: Priority::Normal,
        encoding: WitnessEncoding::Canonical,
        witness,
        length,
        deadline: None,
    }
}

/// Asserts that something was refused with this code and that the message names what it should.
#[track_caller]
pub fn assert_refused<T>(result: Result<T, ProtocolError>, code: ErrorCode, needles: &[&str]) {
    let error = result.err().expect("a refusal");
    assert_eq!(error.code, code, "{error}");
    for needle in needles {
        assert!(error.message.contains(needle), "{error} lacks {needle:?}");
    }
}
