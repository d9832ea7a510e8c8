//! The way to the daemon that the verbs share.
use super::Failure;
use crate::client::{Client, RetryPolicy, blocking};
use std::{path::Path, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// How this program calls itself towards the daemon.
const NAME: &str = concat!("cuzk ", env!("CARGO_PKG_VERSION"));

/// For one question: no second attempt.
pub fn ask(socket: &Path) -> Result<blocking::Client, Failure> {
    Ok(blocking::Client::connect_with(socket, NAME, RetryPolicy::NEVER)?)
}

/// Runs `work` with a client that goes on for `patience` when the daemon restarts or is short of memory.
/// That nobody listens at all is known at once.
pub fn with_client<T, F>(
    socket: &Path,
    patience: Duration,
    work: impl FnOnce(Client) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let runtime: Runtime = Builder::new_current_thread().enable_all().build().map_err(Failure::internal)?;
    runtime.block_on(async {
        let retry = RetryPolicy { deadline: patience, ..RetryPolicy::default() };
        work(Client::connect_with(socket, NAME, retry).await?).await
    })
}
