//! One connection: requests go out from whoever makes them, one task brings each reply to its mailbox.
use super::{
    ClientError, Lease,
    lease::Grant,
    mailbox::{Answer, Mail, Mailbox},
};
use crate::proto::{
    Hello, PROTOCOL_VERSION, PacketSocket, ProtocolError, RecvError, Reply, ReplyBody, Request, RequestBody,
    Welcome, attached, packet::Packet,
};
use std::{
    collections::HashMap,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{sync::Notify, task::JoinHandle};

/// A connection that has said hello. Dropped, it closes, and its leases end.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    welcome: Welcome,
    _tasks: Tasks,
}

/// The connection's tasks, which end with it.
#[derive(Debug)]
struct Tasks([JoinHandle<()>; 2]);

/// What the connection's users and its tasks share.
#[derive(Debug)]
pub(super) struct Shared {
    socket: PacketSocket,
    next_id: AtomicU64,
    requests: Mutex<Requests>,
    /// What is to be told without waiting for a reply: at most as much as there are leases and requests.
    farewells: Mutex<Vec<RequestBody>>,
    told: Notify,
}

#[derive(Debug, Default)]
struct Requests {
    open: HashMap<u64, Arc<Mailbox>>,
    closed: Option<Closed>,
}

/// Why a connection is closed.
#[derive(Clone, Debug)]
enum Closed {
    Disconnected(Arc<str>),
    Refused(ProtocolError),
    Violation(Arc<str>),
}

impl From<Closed> for ClientError {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Disconnected(reason) => Self::Disconnected { reason },
            Closed::Refused(refusal) => Self::Refused(refusal),
            Closed::Violation(what) => Self::Violation { what },
        }
    }
}

impl From<ClientError> for Closed {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Disconnected { reason } => Self::Disconnected(reason),
            ClientError::Refused(refusal) => Self::Refused(refusal),
            ClientError::Violation { what } => Self::Violation(what),
            other => Self::Violation(other.to_string().into()),
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl Connection {
    /// Connects and says hello.
    pub(super) async fn open(path: &Path, client: &str) -> Result<Self, ClientError> {
        let socket = PacketSocket::connect(path)
            .await
            .map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        Self::over(socket, client).await
    }

    /// Says hello over a connected socket.
    pub(super) async fn over(socket: PacketSocket, client: &str) -> Result<Self, ClientError> {
        let shared = Arc::new(Shared {
            socket,
            next_id: AtomicU64::new(1),
            requests: Mutex::default(),
            farewells: Mutex::default(),
            told: Notify::new(),
        });
        let tasks = Tasks([
            tokio::spawn(Arc::clone(&shared).receive()),
            tokio::spawn(Arc::clone(&shared).say_farewells()),
        ]);
        let hello = Hello { version: PROTOCOL_VERSION, client: client.to_owned() };
        match shared.call(RequestBody::Hello(hello), &[]).await? {
            Answer::Reply(ReplyBody::Welcome(welcome)) if welcome.version == PROTOCOL_VERSION => {
                Ok(Self { shared, welcome, _tasks: tasks })
            }
            Answer::Reply(ReplyBody::Welcome(welcome)) => Err(ClientError::violation(format!(
                "it answers protocol version {PROTOCOL_VERSION} with version {}",
                welcome.version
            ))),
            _ => Err(ClientError::unexpected("hello")),
        }
    }

    /// What the daemon said of itself.
    pub(super) fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The daemon has closed it, or broken the protocol.
    pub(super) fn is_closed(&self) -> bool {
        self.shared.requests().closed.is_some()
    }

    /// The id of a lease of this very connection.
    pub(super) fn lease_id(&self, lease: &Lease) -> Option<u64> {
        lease.id_on(&self.shared)
    }

    /// Makes a request whose replies come one by one.
    pub(super) async fn request(
        &self,
        body: RequestBody,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Ticket, ClientError> {
        self.shared.request(body, descriptors).await
    }

    /// Makes a request and waits for the reply that ends it.
    pub(super) async fn call(
        &self,
        body: RequestBody,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Answer, ClientError> {
        self.shared.call(body, descriptors).await
    }
}

/// A request under way. Dropped, its replies are no longer wanted.
#[derive(Debug)]
pub(super) struct Ticket {
    id: u64,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
}

impl Ticket {
    /// What comes next; after the end nothing does.
    pub(super) async fn next(&self) -> Mail {
        self.mailbox.next().await
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let unanswered = self.shared.requests().open.remove(&self.id).is_some();
        if unanswered {
            // Its answer may take hours: the daemon need not keep it, nor count it.
            self.shared.say(RequestBody::Abandon(self.id));
        }
    }
}

impl Shared {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_request(self: &Arc<Self>) -> Result<Ticket, ClientError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::<Mailbox>::default();
        let mut requests = self.requests();
        if let Some(closed) = &requests.closed {
            return Err(closed.clone().into());
        }
        requests.open.insert(id, Arc::clone(&mailbox));
        Ok(Ticket { id, mailbox, shared: Arc::clone(self) })
    }

    async fn request(
        self: &Arc<Self>,
        body: RequestBody,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Ticket, ClientError> {
        let ticket = self.open_request()?;
        let packet = Request { id: ticket.id, body }.encode();
        match self.socket.send(&packet, descriptors).await {
            Ok(()) => Ok(ticket),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error.into()),
            Err(error) => Err(ClientError::Disconnected { reason: error.to_string().into() }),
        }
    }

    async fn call(
        self: &Arc<Self>,
        body: RequestBody,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Answer, ClientError> {
        let ticket = self.request(body, descriptors).await?;
        loop {
            if let Mail::End(end) = ticket.next().await {
                return end;
            }
        }
    }

    /// Tells the daemon something that needs no reply, and does not wait.
    pub(super) fn say(&self, farewell: RequestBody) {
        self.farewells.lock().unwrap_or_else(PoisonError::into_inner).push(farewell);
        self.told.notify_one();
    }

    /// The task that tells it.
    async fn say_farewells(self: Arc<Self>) {
        loop {
            self.told.notified().await;
            let farewells =
                std::mem::take(&mut *self.farewells.lock().unwrap_or_else(PoisonError::into_inner));
            for body in farewells {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                let packet = Request { id, body }.encode();
                // When it cannot be sent, the connection is at its end, and so are its leases and requests.
                if self.socket.send(&packet, &[]).await.is_err() {
                    return;
                }
            }
        }
    }

    /// The task that receives, until the connection ends.
    async fn receive(self: Arc<Self>) {
        let reason = loop {
            match self.socket.recv().await {
                Ok(Some(packet)) => {
                    if let Err(violation) = self.deliver(packet) {
                        break violation.into();
                    }
                }
                Ok(None) => break Closed::Disconnected("the daemon closed it".into()),
                Err(RecvError::Io(error)) => break Closed::Disconnected(error.to_string().into()),
                Err(error) => break Closed::Violation(error.to_string().into()),
            }
        };
        let mut requests = self.requests();
        for mailbox in requests.open.drain().map(|(_, mailbox)| mailbox) {
            mailbox.put_end(Err(reason.clone().into()));
        }
        requests.closed = Some(reason);
    }

    /// Brings a packet to its mailbox. An error ends the connection.
    fn deliver(self: &Arc<Self>, packet: Packet) -> Result<(), ClientError> {
        let violation = |error: &dyn std::fmt::Display| ClientError::violation(error.to_string());
        let mut descriptors = packet.descriptors.map_err(|error| violation(&error))?;
        let mut reply = Reply::decode(&packet.bytes).map_err(|error| violation(&error))?;
        if let ReplyBody::Attached(bytes) = reply.body {
            let memfd = descriptors.pop().ok_or_else(|| violation(&"an attached reply without a memfd"))?;
            reply = attached::read(reply.id, bytes, memfd).map_err(|error| violation(&error))?;
        }
        let Reply { id, body } = reply;
        let mailbox = self.requests().open.get(&id).cloned();
        match (body, mailbox) {
            // Requests have other ids: this is about the connection, of which there are too many, or about
            // a request that could not be read.
            (ReplyBody::Error(error), None) if id == 0 => Err(error.into()),
            (ReplyBody::Progress(progress), mailbox) => match mailbox {
                Some(mailbox) => mailbox.put_progress(progress),
                None => Ok(()),
            },
            (body, mailbox) => {
                let end = self.end_of(body, descriptors);
                self.requests().open.remove(&id);
                // A lease that nobody waits for any more gives itself back here.
                if let Some(mailbox) = mailbox {
                    mailbox.put_end(end);
                }
                Ok(())
            }
        }
    }

    /// The end of a request, by the reply.
    fn end_of(
        self: &Arc<Self>,
        body: ReplyBody,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Answer, ClientError> {
        match body {
            ReplyBody::Error(error) => Err(error.into()),
            ReplyBody::Lease(terms) => {
                let grant = Grant::new(terms.id, self);
                let memfd =
                    descriptors.pop().ok_or_else(|| ClientError::violation("a lease without a memfd"))?;
                Lease::new(grant, terms, memfd).map(Answer::Lease)
            }
            body => Ok(Answer::Reply(body)),
        }
    }
}
