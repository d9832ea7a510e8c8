//! One connection: packets in, replies out. Requests that may wait run as tasks of their own, a bounded
//! number of them; replies go through a bounded queue, so that a peer that does not read stops being read,
//! and after a while is cut off. Leases belong to the connection and end with it; jobs do not.
mod requests;

use super::lease::Lease;
use super::service::Service;
use super::slow::drop_slowly;
use crate::proto::{
    ErrorCode, PROTOCOL_VERSION, Packet, PacketSocket, ProtocolError, RecvError, Reply, ReplyBody, Request,
    RequestBody, Welcome, WitnessSource, attached,
};
use std::{
    collections::HashMap,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time,
};

/// Replies that may wait for the peer to read.
const OUTGOING: usize = 16;
/// How long the peer may leave a reply unread before it is cut off.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// How long unanswered requests may take once the daemon has stopped.
const FAREWELL: Duration = Duration::from_secs(2);

/// A reply, and the descriptor that goes with it.
struct Outgoing {
    reply: Reply,
    descriptor: Option<OwnedFd>,
}

/// What the tasks of one connection share.
struct Session {
    service: Arc<Service>,
    uid: u32,
    leases: Mutex<HashMap<u64, Arc<Lease>>>,
    next_lease: AtomicU64,
    out: mpsc::Sender<Outgoing>,
}

/// The requests of a connection that wait to be answered.
#[derive(Default)]
struct Requests {
    tasks: JoinSet<()>,
    /// By the peer's ids, of which nothing keeps two from being the same.
    open: Vec<(u64, AbortHandle)>,
}

impl Requests {
    fn start(&mut self, id: u64, answer: impl Future<Output = ()> + Send + 'static) {
        self.open.push((id, self.tasks.spawn(answer)));
    }

    fn forget_finished(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|(_, task)| !task.is_finished());
    }

    /// Ends what answers a request, where it does not end by itself first.
    fn abandon(&mut self, abandoned: u64) {
        self.open.retain(|(id, task)| {
            if *id == abandoned {
                task.abort();
            }
            *id != abandoned
        });
    }
}

/// Serves a connection of user `uid` until the peer closes it, does not read, or the daemon has stopped.
pub async fn run(socket: PacketSocket, uid: u32, service: Arc<Service>) {
    let socket = Arc::new(socket);
    let (out, queue) = mpsc::channel(OUTGOING);
    let writer = tokio::spawn(write(socket.clone(), queue));
    let session =
        Arc::new(Session { service, uid, leases: Mutex::default(), next_lease: AtomicU64::new(1), out });
    let mut requests = Requests::default();
    let stopped = session.read(&socket, &mut requests).await;
    if stopped {
        // What waits is answered by "restarting" now.
        let answered = async { while requests.tasks.join_next().await.is_some() {} };
        let _in_time = time::timeout(FAREWELL, answered).await;
    }
    requests.tasks.shutdown().await;
    // Only the daemon's own end leaves the memory to the peer, to be submitted to the next instance.
    if session.service.scheduler.check_open().is_ok() {
        session.leases().values().for_each(|lease| lease.give_back());
    }
    // Only leases take long to drop; a thread more for each of many connections would be a waste.
    if session.leases().is_empty() {
        drop(session)
    } else {
        drop_slowly(session)
    }
    if stopped {
        let _in_time = time::timeout(FAREWELL, writer).await;
    } else {
        writer.abort();
    }
}

/// Sends replies until the queue ends or the peer does not take them.
async fn write(socket: Arc<PacketSocket>, mut queue: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { reply, descriptor }) = queue.recv().await {
        let sent = async {
            let (packet, attached) = attached::encode(&reply)?;
            let descriptors: Vec<_> = attached.iter().chain(&descriptor).map(AsFd::as_fd).collect();
            socket.send(&packet, &descriptors).await
        };
        match time::timeout(WRITE_TIMEOUT, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return,
            Ok(Err(error)) => return tracing::warn!("a reply could not be sent: {error}"),
            Err(_) => return tracing::warn!("a connection is cut off: it leaves its replies unread"),
        }
    }
}

impl Session {
    /// Reads requests. True: the daemon has stopped; false: the connection has ended.
    async fn read(self: &Arc<Self>, socket: &PacketSocket, requests: &mut Requests) -> bool {
        let mut greeted = false;
        let silence = time::sleep(HELLO_LIMIT);
        tokio::pin!(silence);
        loop {
            let received = tokio::select! {
                received = socket.recv() => received,
                () = &mut silence, if !greeted => {
                    tracing::debug!(UID = self.uid, "a connection of user {} is closed: it says no hello", self.uid);
                    return false;
                }
                () = self.service.scheduler.stopped() => return true,
                () = self.out.closed() => return false,
            };
            requests.forget_finished();
            match received {
                Ok(Some(packet)) => self.take(packet, &mut greeted, requests).await,
                Ok(None) => return false,
                Err(too_long @ RecvError::TooLong) => {
                    self.refuse(0, ProtocolError::new(ErrorCode::Malformed, too_long.to_string())).await;
                }
                Err(RecvError::Io(error)) => {
                    tracing::debug!("a connection failed: {error}");
                    return false;
                }
            }
        }
    }

    /// Decodes a packet and answers it, or starts a task that will.
    async fn take(self: &Arc<Self>, packet: Packet, greeted: &mut bool, requests: &mut Requests) {
        let Request { id, body } = match Request::decode(&packet.bytes) {
            Ok(request) => request,
            Err(error) => return self.refuse(error.id, error.into()).await,
        };
        let descriptors = match packet.descriptors {
            Ok(descriptors) => descriptors,
            Err(error) => return self.refuse(id, error.into()).await,
        };
        if let RequestBody::Hello(hello) = &body {
            if hello.version != PROTOCOL_VERSION {
                let message = format!("protocol version {}, wanted {PROTOCOL_VERSION}", hello.version);
                return self.refuse(id, ProtocolError::new(ErrorCode::UnsupportedVersion, message)).await;
            }
            tracing::debug!(UID = self.uid, "user {} connects with {}", self.uid, hello.client);
            *greeted = true;
        } else if !*greeted {
            let message = "the first request of a connection must be hello";
            return self.refuse(id, ProtocolError::new(ErrorCode::HelloExpected, message)).await;
        }
        let takes_descriptor = matches!(&body, RequestBody::Submit(submit) if matches!(submit.witness, WitnessSource::Memfd { .. }));
        if !takes_descriptor && !descriptors.is_empty() {
            let message = format!("{} descriptors came with a request that takes none", descriptors.len());
            return self.refuse(id, ProtocolError::new(ErrorCode::DescriptorUnexpected, message)).await;
        }
        self.dispatch(id, body, descriptors, requests).await;
    }

    /// Answers at once what needs no waiting, and starts a task for what may wait.
    async fn dispatch(
        self: &Arc<Self>,
        id: u64,
        body: RequestBody,
        descriptors: Vec<OwnedFd>,
        requests: &mut Requests,
    ) {
        let (service, uid, session) = (&self.service, self.uid, self.clone());
        let answer = match body {
            RequestBody::Lease(request) => {
                let answer = async move { session.answer_lease(id, &request).await };
                return self.start(id, answer, requests).await;
            }
            RequestBody::Submit(submit) => {
                let answer = async move { session.answer_submit(id, &submit, descriptors).await };
                return self.start(id, answer, requests).await;
            }
            RequestBody::Await(request) => {
                let answer = async move { session.answer_await(id, &request).await };
                return self.start(id, answer, requests).await;
            }
            RequestBody::Hello(_) => Ok(ReplyBody::Welcome(Welcome {
                version: PROTOCOL_VERSION,
                build: crate::BUILD_ID.to_owned(),
                instance: service.instance,
            })),
            RequestBody::Circuits => Ok(ReplyBody::Circuits(service.circuits())),
            RequestBody::Release(lease) => self.release(lease).map(|()| ReplyBody::Released),
            RequestBody::Acknowledge(job) => {
                service.scheduler.acknowledge(uid, job).map(|()| ReplyBody::Acknowledged)
            }
            RequestBody::Cancel(job) => service.scheduler.cancel(uid, job).map(|()| ReplyBody::Cancelled),
            RequestBody::Find(key) => service.scheduler.find(uid, &key).map(ReplyBody::Accepted),
            RequestBody::Status => Ok(ReplyBody::Status(service.status())),
            RequestBody::Metrics => service.metrics().map(ReplyBody::Metrics),
            RequestBody::Trace(request) => service.trace(request).map(ReplyBody::Trace),
            RequestBody::Abandon(request) => {
                requests.abandon(request);
                Ok(ReplyBody::Abandoned)
            }
        };
        self.answer(id, answer).await;
    }

    /// Starts a task for a request that may wait, if the connection may have one more.
    async fn start(
        &self,
        id: u64,
        answer: impl Future<Output = ()> + Send + 'static,
        requests: &mut Requests,
    ) {
        let limit = self.service.users.requests_per_connection() as usize;
        if requests.open.len() < limit {
            requests.start(id, answer);
            return;
        }
        let message = format!(
            "this connection has {} unanswered requests, wanted at most limits.requests_per_connection = {limit}",
            requests.open.len()
        );
        self.refuse(id, ProtocolError::new(ErrorCode::QuotaExceeded, message)).await;
    }

    async fn answer(&self, id: u64, answer: Result<ReplyBody, ProtocolError>) {
        match answer {
            Ok(body) => self.reply(id, body, None).await,
            Err(refusal) => self.refuse(id, refusal).await,
        }
    }

    async fn reply(&self, id: u64, body: ReplyBody, descriptor: Option<OwnedFd>) {
        // Fails when the connection has ended, and then nobody waits for the reply.
        let _ = self.out.send(Outgoing { reply: Reply { id, body }, descriptor }).await;
    }

    async fn refuse(&self, id: u64, refusal: ProtocolError) {
        self.service.scheduler.count_refusal();
        self.reply(id, ReplyBody::Error(refusal), None).await;
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<u64, Arc<Lease>>> {
        // The map changes in single steps: a poisoned one is still consistent.
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_lease_id(&self) -> u64 {
        self.next_lease.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
