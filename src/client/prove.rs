//! The simple path: give the code that makes the witnesses, get the proofs.
use super::{Client, ClientError, JobOptions, Next, Witness, WitnessWriter};
use crate::proto::JobResult;
use std::{error::Error, io};
use tokio::task::spawn_blocking;

/// What the caller's code may fail with.
type FillError = Box<dyn Error + Send + Sync>;

impl Client {
    /// Proves one statement: leases memory, has `fill` write the whole witness into it (on a thread where
    /// blocking is allowed), submits it, waits for the proof, and acknowledges it.
    pub async fn prove<F, E>(&self, circuit: &str, fill: F) -> Result<JobResult, ClientError>
    where
        F: FnOnce(&mut WitnessWriter<'_>) -> Result<(), E> + Send + 'static,
        E: Into<FillError>,
    {
        let mut fill = Some(fill);
        self.prove_job(JobOptions::new(circuit), move |_, witness| match fill.take() {
            Some(fill) => fill(witness).map_err(Into::into),
            None => Err(FillError::from("the only witness is wanted twice")),
        })
        .await
    }

    /// Proves a circuit's `partitions`, in one job. `fill` writes the witness of the partition it is given;
    /// while it does, the one before is proved. It is called again for a partition whose proof a daemon
    /// lost.
    pub async fn prove_partitions<F, E>(
        &self,
        circuit: &str,
        partitions: u32,
        fill: F,
    ) -> Result<JobResult, ClientError>
    where
        F: FnMut(u32, &mut WitnessWriter<'_>) -> Result<(), E> + Send + 'static,
        E: Into<FillError>,
    {
        self.prove_job(JobOptions::new(circuit).partitions(partitions), fill).await
    }

    /// The same with all options.
    pub async fn prove_job<F, E>(&self, options: JobOptions, mut fill: F) -> Result<JobResult, ClientError>
    where
        F: FnMut(u32, &mut WitnessWriter<'_>) -> Result<(), E> + Send + 'static,
        E: Into<FillError>,
    {
        let packed = options.packed;
        let mut job = self.job(options)?;
        loop {
            match job.advance().await? {
                Next::Fill { partition, lease } => {
                    let made = spawn_blocking(move || {
                        (Witness::write(lease, packed, |witness| fill(partition, witness)), fill)
                    });
                    let (witness, again) = made.await.map_err(io::Error::other)?;
                    fill = again;
                    job.submit(partition, witness?).await?;
                }
                Next::Done(result) => {
                    // The result counts; where the daemon does not hear of it, its time to live ends there.
                    let _heard = job.acknowledge().await;
                    return Ok(result);
                }
            }
        }
    }
}
