//! Cooperative cancellation of long computations: a flag that the owner raises and the computation
//! looks at between bounded pieces of work.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A shared flag; clones observe the same flag.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

/// The computation stopped because its [`CancelToken`] was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

impl CancelToken {
    /// Not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag; it stays raised.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Has it been raised?
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails once the flag is raised.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}
