//! Cooperative cancellation of long computations: a flag that the owner raises and the computation
//! looks at between bounded pieces of work. The looks are counted: they are the computation's heartbeat.
//! A computation may also be asked to make way for a more urgent one: it stops likewise, and is begun again later;
//! unless it is settled by then, with so little left to do that stopping would only waste what is done.
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// Nobody wants it to stop.
const GO_ON: u8 = 0;
/// Another one is more urgent.
const MAKE_WAY: u8 = 1;
/// Its result is no longer wanted.
const CANCELLED: u8 = 2;

/// A shared flag; clones observe the same flag.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<State>);

#[derive(Debug, Default)]
struct State {
    raised: AtomicU8,
    settled: AtomicBool,
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
        self.0.raised.fetch_max(CANCELLED, Ordering::Relaxed);
    }

    /// Whether the flag is raised because the result is no longer wanted.
    pub fn is_cancelled(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed) == CANCELLED
    }

    /// Raises the flag for a more urgent computation: this one's result is still wanted, later.
    pub fn preempt(&self) {
        self.0.raised.fetch_max(MAKE_WAY, Ordering::Relaxed);
    }

    /// Whether it stops for a more urgent computation, and for no other reason.
    pub fn is_preempted(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed) == MAKE_WAY && !self.is_settled()
    }

    /// From now on nothing but a cancellation stops it.
    pub fn settle(&self) {
        self.0.settled.store(true, Ordering::Relaxed);
    }

    /// Whether nothing but a cancellation stops it.
    pub fn is_settled(&self) -> bool {
        self.0.settled.load(Ordering::Relaxed)
    }

    /// Fails once the flag is raised.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn check(&self) -> Result<(), Cancelled> {
        self.0.looks.fetch_add(1, Ordering::Relaxed);
        match self.0.raised.load(Ordering::Relaxed) {
            GO_ON => Ok(()),
            MAKE_WAY if self.is_settled() => Ok(()),
            _ => Err(Cancelled),
        }
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

    #[test]
    fn what_is_settled_does_not_make_way() {
        let token = CancelToken::new();
        token.preempt();
        token.settle();
        assert!(token.check().is_ok() && !token.is_preempted());
        token.cancel();
        assert_eq!(token.check(), Err(Cancelled));
    }

    #[test]
    fn making_way_stops_and_a_cancellation_outlasts_it() {
        let token = CancelToken::new();
        token.preempt();
        assert_eq!(token.check(), Err(Cancelled));
        assert!(token.is_preempted() && !token.is_cancelled());
        token.cancel();
        token.preempt();
        assert!(token.is_cancelled() && !token.is_preempted());
        assert_eq!(token.check(), Err(Cancelled));
    }
}
