//! Cooperative cancellation of long computations: a flag that the owner raises and the computation
//! looks at between bounded pieces of work. The looks are counted: they are the computation's heartbeat.
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// A shared flag; clones observe the same flag.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<State>);

#[derive(Debug, Default)]
struct State {
    raised: AtomicBool,
    looks: AtomicU64,
}

/// The computation stopped because its [`CancelToken`] was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

impl CancelToken {
    /// A flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag; it stays raised.
    pub fn cancel(&self) {
        self.0.raised.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is raised.
    pub fn is_cancelled(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed)
    }

    /// Fails once the flag is raised.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn check(&self) -> Result<(), Cancelled> {
        self.0.looks.fetch_add(1, Ordering::Relaxed);
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// How often [`CancelToken::check`] was called: a computation that is not stuck makes this grow.
    pub fn looks(&self) -> u64 {
        self.0.looks.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_flag_and_the_count() {
        let (owner, computation) = (CancelToken::new(), CancelToken::new());
        let watched = computation.clone();
        assert_eq!(computation.check(), Ok(()));
        assert_eq!((watched.looks(), owner.looks()), (1, 0));
        watched.cancel();
        assert_eq!(computation.check(), Err(Cancelled));
        assert!(computation.is_cancelled() && !owner.is_cancelled());
        assert_eq!(watched.looks(), 2);
    }
}
