//! The client library: async here, blocking in [`blocking`].
//!
//! ```no_run
//! # async fn f(z: Vec<[u8; 32]>, inputs: usize) -> Result<(), cuzk::client::ClientError> {
//! use cuzk::client::Client;
//!
//! let client = Client::connect("/run/cuzk/cuzk.sock", "example 1.0").await?;
//! let result = client
//!     .prove("sapling-spend", move |witness| {
//!         for (i, value) in z.iter().enumerate() {
//!             match i.checked_sub(inputs) {
//!                 None => witness.set_input(i, value)?,
//!                 Some(i) => witness.set_aux(i, value)?,
//!             }
//!         }
//!         Ok::<_, cuzk::r1cs::WitnessError>(())
//!     })
//!     .await?;
//! println!("{} bytes of proof", result.proofs[0].proof.len());
//! # Ok(()) }
//! ```
//!
//! A [`Client`] connects again by itself when the daemon restarts, and a [`Job`] goes on there; what the
//! daemon no longer has it submits again, from memory that is still mapped here.
pub mod blocking;
mod connection;
mod error;
mod job;
mod lease;
mod mailbox;
mod prove;
mod retry;
mod watch;
mod writer;

pub use error::ClientError;
pub use job::{Job, JobOptions, Next, Witness};
pub use lease::Lease;
pub use retry::RetryPolicy;
pub use watch::{JobEvent, Watch};
pub use writer::WitnessWriter;

use crate::proto::{
    Accepted, CircuitInfo, ErrorCode, IdempotencyKey, JobId, JobResult, LeaseRequest, ReplyBody, RequestBody,
    Status, TraceRequest, Welcome,
};
use connection::Connection;
use mailbox::Answer;
use retry::Outage;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Mutex, time::timeout};

/// How long the answer to `hello` may take for a client without patience: a service manager may hold the
/// socket while the daemon starts.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// A daemon to talk to. Clones share one connection, which is made again when it is lost.
///
/// It belongs to the tokio runtime (with time and I/O enabled) that connected it.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    name: String,
    retry: RetryPolicy,
    current: Mutex<Option<Arc<Connection>>>,
}

impl Client {
    /// Connects to the daemon's socket. `name` tells name and version of the program, 1 to 128 bytes
    /// without control characters.
    pub async fn connect(path: impl AsRef<Path>, name: &str) -> Result<Self, ClientError> {
        Self::connect_with(path, name, RetryPolicy::default()).await
    }

    /// The same with another patience. The first connection is tried once in any case.
    pub async fn connect_with(
        path: impl AsRef<Path>,
        name: &str,
        retry: RetryPolicy,
    ) -> Result<Self, ClientError> {
        let inner =
            Inner { path: path.as_ref().to_owned(), name: name.to_owned(), retry, current: Mutex::default() };
        let client = Self { inner: Arc::new(inner) };
        client.connection().await?;
        Ok(client)
    }

    /// What the daemon says of itself: build and instance.
    pub async fn daemon(&self) -> Result<Welcome, ClientError> {
        Ok(self.connection().await?.welcome().clone())
    }

    /// The circuits that the daemon serves.
    pub async fn circuits(&self) -> Result<Vec<CircuitInfo>, ClientError> {
        match self.call(RequestBody::Circuits).await? {
            Answer::Reply(ReplyBody::Circuits(circuits)) => Ok(circuits),
            _ => Err(ClientError::unexpected("circuits")),
        }
    }

    /// What the daemon is doing.
    pub async fn status(&self) -> Result<Status, ClientError> {
        match self.call(RequestBody::Status).await? {
            Answer::Reply(ReplyBody::Status(status)) => Ok(status),
            _ => Err(ClientError::unexpected("status")),
        }
    }

    /// What [`Self::status`] counts and times, in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        match self.call(RequestBody::Metrics).await? {
            Answer::Reply(ReplyBody::Metrics(text)) => Ok(text),
            _ => Err(ClientError::unexpected("metrics")),
        }
    }

    /// Where the time of partitions went: JSON in Chrome's trace event format.
    pub async fn trace(&self, request: TraceRequest) -> Result<String, ClientError> {
        match self.call(RequestBody::Trace(request)).await? {
            Answer::Reply(ReplyBody::Trace(text)) => Ok(text),
            _ => Err(ClientError::unexpected("trace")),
        }
    }

    /// Memory for one witness of a circuit. Where memory is short it waits, or fails with
    /// [`ErrorCode::Busy`] at once where `wait` is false.
    pub async fn lease(&self, circuit: &str, wait: bool) -> Result<Lease, ClientError> {
        let request = LeaseRequest::new(circuit, wait);
        match self.call(RequestBody::Lease(request)).await? {
            Answer::Lease(lease) => Ok(lease),
            Answer::Reply(_) => Err(ClientError::unexpected("lease")),
        }
    }

    /// The job that an idempotency key of this user's names, if any.
    pub async fn find(&self, key: &IdempotencyKey) -> Result<Option<Accepted>, ClientError> {
        accepted_or_unknown(self.call(RequestBody::Find(key.clone())).await)
    }

    /// Waits for a job's result, over restarts of the daemon if need be. It fails with [`ErrorCode::JobLost`] where
    /// a restart has lost the job: a [`Job`] then submits it again by itself.
    pub async fn await_job(&self, job: JobId) -> Result<JobResult, ClientError> {
        let mut outage = Outage::new(self.inner.retry);
        loop {
            let attempt = async { Watch::open(self.connection().await?, job, false).await?.result().await };
            match attempt.await {
                Err(error) if error.wants_reconnection() => outage.wait(error).await?,
                result => return result,
            }
        }
    }

    /// Follows a job: each partition's state now, then its changes, then the result. It ends with the
    /// connection; a [`Job`] follows over restarts.
    pub async fn watch(&self, job: JobId) -> Result<Watch, ClientError> {
        Watch::open(self.connection().await?, job, true).await
    }

    /// Cancels a job: its partitions stop within one step.
    pub async fn cancel(&self, job: JobId) -> Result<(), ClientError> {
        match self.call(RequestBody::Cancel(job)).await? {
            Answer::Reply(ReplyBody::Cancelled) => Ok(()),
            _ => Err(ClientError::unexpected("cancel")),
        }
    }

    /// Tells the daemon that the job's result is safe here, and can be forgotten there.
    pub async fn acknowledge(&self, job: JobId) -> Result<(), ClientError> {
        match self.call(RequestBody::Acknowledge(job)).await? {
            Answer::Reply(ReplyBody::Acknowledged) => Ok(()),
            _ => Err(ClientError::unexpected("acknowledge")),
        }
    }

    /// The present connection, or a new one where it is lost; tried once.
    async fn connection(&self) -> Result<Arc<Connection>, ClientError> {
        let mut current = self.inner.current.lock().await;
        if let Some(connection) = &*current
            && !connection.is_closed()
        {
            return Ok(Arc::clone(connection));
        }
        *current = None;
        let open = Connection::open(&self.inner.path, &self.inner.name);
        let patience = self.inner.retry.deadline;
        let limit = if patience.is_zero() { HELLO_LIMIT } else { patience };
        let connection = match timeout(limit, open).await {
            Ok(connection) => Arc::new(connection?),
            Err(_elapsed) => {
                let reason = format!("no answer to `hello` within {} s", limit.as_secs());
                return Err(ClientError::Disconnected { reason: reason.into() });
            }
        };
        *current = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Makes a request that may be made again on another connection.
    async fn call(&self, body: RequestBody) -> Result<Answer, ClientError> {
        let mut outage = Outage::new(self.inner.retry);
        loop {
            let attempt = async { self.connection().await?.call(body.clone(), &[]).await };
            match attempt.await {
                Err(error) if error.wants_reconnection() => outage.wait(error).await?,
                result => return result,
            }
        }
    }
}

fn accepted_or_unknown(answer: Result<Answer, ClientError>) -> Result<Option<Accepted>, ClientError> {
    match answer {
        Ok(Answer::Reply(ReplyBody::Accepted(accepted))) => Ok(Some(accepted)),
        Ok(_) => Err(ClientError::unexpected("find")),
        Err(error) if error.code() == Some(ErrorCode::UnknownJob) => Ok(None),
        Err(error) => Err(error),
    }
}
