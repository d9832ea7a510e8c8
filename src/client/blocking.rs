//! The client for programs without an asynchronous runtime: the same, one call at a time.
use super::{ClientError, JobEvent, JobOptions, Lease, Next, RetryPolicy, Witness, WitnessWriter};
use crate::proto::{Accepted, CircuitInfo, IdempotencyKey, JobId, JobResult, Status, TraceRequest, Welcome};
use std::{error::Error, path::Path, sync::Arc};
use tokio::runtime::{Builder, Runtime};

/// A daemon to talk to; see [`super::Client`]. A thread of its own drives the connection, so that what is
/// given back between two calls reaches the daemon at once.
#[derive(Debug)]
pub struct Client {
    client: super::Client,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects to the daemon's socket; see [`super::Client::connect`].
    pub fn connect(path: impl AsRef<Path>, name: &str) -> Result<Self, ClientError> {
        Self::connect_with(path, name, RetryPolicy::default())
    }

    /// The same with another patience.
    pub fn connect_with(path: impl AsRef<Path>, name: &str, retry: RetryPolicy) -> Result<Self, ClientError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let client = runtime.block_on(super::Client::connect_with(path, name, retry))?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// What the daemon says of itself.
    pub fn daemon(&self) -> Result<Welcome, ClientError> {
        self.runtime.block_on(self.client.daemon())
    }

    /// The circuits that the daemon serves.
    pub fn circuits(&self) -> Result<Vec<CircuitInfo>, ClientError> {
        self.runtime.block_on(self.client.circuits())
    }

    /// What the daemon is doing.
    pub fn status(&self) -> Result<Status, ClientError> {
        self.runtime.block_on(self.client.status())
    }

    /// What [`Self::status`] counts and times, in the text format of Prometheus.
    pub fn metrics(&self) -> Result<String, ClientError> {
        self.runtime.block_on(self.client.metrics())
    }

    /// Where the time of partitions went: JSON in Chrome's trace event format.
    pub fn trace(&self, request: TraceRequest) -> Result<String, ClientError> {
        self.runtime.block_on(self.client.trace(request))
    }

    /// Memory for one witness; see [`super::Client::lease`].
    pub fn lease(&self, circuit: &str, wait: bool) -> Result<Lease, ClientError> {
        self.runtime.block_on(self.client.lease(circuit, wait))
    }

    /// The job that an idempotency key of this user's names, if any.
    pub fn find(&self, key: &IdempotencyKey) -> Result<Option<Accepted>, ClientError> {
        self.runtime.block_on(self.client.find(key))
    }

    /// Waits for a job's result; see [`super::Client::await_job`].
    pub fn await_job(&self, job: JobId) -> Result<JobResult, ClientError> {
        self.runtime.block_on(self.client.await_job(job))
    }

    /// Follows a job; see [`super::Client::watch`].
    pub fn watch(&self, job: JobId) -> Result<Watch, ClientError> {
        let watch = self.runtime.block_on(self.client.watch(job))?;
        Ok(Watch { watch, runtime: Arc::clone(&self.runtime) })
    }

    /// Cancels a job.
    pub fn cancel(&self, job: JobId) -> Result<(), ClientError> {
        self.runtime.block_on(self.client.cancel(job))
    }

    /// Tells the daemon that the job's result is safe here.
    pub fn acknowledge(&self, job: JobId) -> Result<(), ClientError> {
        self.runtime.block_on(self.client.acknowledge(job))
    }

    /// Begins a job; see [`super::Job`].
    pub fn job(&self, options: JobOptions) -> Result<Job, ClientError> {
        Ok(Job { job: self.client.job(options)?, runtime: Arc::clone(&self.runtime) })
    }

    /// Proves one statement; `fill` writes the whole witness, on this thread.
    pub fn prove<E>(
        &self,
        circuit: &str,
        fill: impl FnOnce(&mut WitnessWriter<'_>) -> Result<(), E>,
    ) -> Result<JobResult, ClientError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut fill = Some(fill);
        self.prove_job(JobOptions::new(circuit), |_, witness| match fill.take() {
            Some(fill) => fill(witness).map_err(Into::into),
            None => Err(Box::<dyn Error + Send + Sync>::from("the only witness is wanted twice")),
        })
    }

    /// Proves a circuit's `partitions` in one job; see [`super::Client::prove_partitions`].
    pub fn prove_partitions<E>(
        &self,
        circuit: &str,
        partitions: u32,
        fill: impl FnMut(u32, &mut WitnessWriter<'_>) -> Result<(), E>,
    ) -> Result<JobResult, ClientError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.prove_job(JobOptions::new(circuit).partitions(partitions), fill)
    }

    /// The same with all options.
    pub fn prove_job<E>(
        &self,
        options: JobOptions,
        mut fill: impl FnMut(u32, &mut WitnessWriter<'_>) -> Result<(), E>,
    ) -> Result<JobResult, ClientError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let packed = options.packed;
        let mut job = self.job(options)?;
        loop {
            match job.advance()? {
                Next::Fill { partition, lease } => {
                    let witness = Witness::write(lease, packed, |witness| fill(partition, witness))?;
                    job.submit(partition, witness)?;
                }
                Next::Done(result) => {
                    // The result counts; where the daemon does not hear of it, its time to live ends there.
                    let _heard = job.acknowledge();
                    return Ok(result);
                }
            }
        }
    }
}

/// A job from its first lease to its result; see [`super::Job`].
#[derive(Debug)]
pub struct Job {
    job: super::Job,
    runtime: Arc<Runtime>,
}

impl Job {
    /// The job's idempotency key.
    pub fn key(&self) -> &IdempotencyKey {
        self.job.key()
    }

    /// The daemon's id of the job, once it has one.
    pub fn id(&self) -> Option<JobId> {
        self.job.id()
    }

    /// Waits until there is something to do.
    pub fn advance(&mut self) -> Result<Next, ClientError> {
        self.runtime.block_on(self.job.advance())
    }

    /// Hands over the witness of a partition.
    pub fn submit(&mut self, partition: u32, witness: Witness) -> Result<(), ClientError> {
        self.runtime.block_on(self.job.submit(partition, witness))
    }

    /// Tells the daemon that the result is safe here.
    pub fn acknowledge(&mut self) -> Result<(), ClientError> {
        self.runtime.block_on(self.job.acknowledge())
    }
}

/// A job that is being followed; see [`super::Watch`].
#[derive(Debug)]
pub struct Watch {
    watch: super::Watch,
    runtime: Arc<Runtime>,
}

impl Watch {
    /// Waits for what happens next; None after the end.
    pub fn event(&mut self) -> Option<Result<JobEvent, ClientError>> {
        self.runtime.block_on(self.watch.event())
    }
}
