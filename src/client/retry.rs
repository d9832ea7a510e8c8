//! Patience: how long and how often a client tries again.
use super::ClientError;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How a client deals with a daemon that restarts, or that is short of memory for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The pause after the first failure; it doubles with each further one.
    pub first_delay: Duration,
    /// The longest pause.
    pub longest_delay: Duration,
    /// How long one request may fail, all pauses included, before the client gives up.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    /// 50 ms, doubling up to 2 s, for five minutes: a restart with large keys to load takes some.
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(50),
            longest_delay: Duration::from_secs(2),
            deadline: Duration::from_secs(300),
        }
    }
}

impl RetryPolicy {
    /// Never try again.
    pub const NEVER: Self =
        Self { first_delay: Duration::ZERO, longest_delay: Duration::ZERO, deadline: Duration::ZERO };

    /// The pause after this many failures before it.
    fn delay(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.first_delay.saturating_mul(factor).min(self.longest_delay)
    }
}

/// A series of failures, from the first one to the next success.
#[derive(Debug)]
pub(super) struct Outage {
    policy: RetryPolicy,
    since: Option<Instant>,
    failures: u32,
}

impl Outage {
    pub(super) fn new(policy: RetryPolicy) -> Self {
        Self { policy, since: None, failures: 0 }
    }

    /// Something succeeded.
    pub(super) fn over(&mut self) {
        self.since = None;
        self.failures = 0;
    }

    /// Pauses after a failure; gives the failure back where another attempt is of no use or too late.
    pub(super) async fn wait(&mut self, error: ClientError) -> Result<(), ClientError> {
        if !error.may_pass() || self.policy.deadline.is_zero() {
            return Err(error);
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let delay = self.policy.delay(self.failures).max(error.retry_after());
        let after = since.elapsed();
        if after.saturating_add(delay) > self.policy.deadline {
            return Err(ClientError::GaveUp { after, last: Box::new(error) });
        }
        self.failures = self.failures.saturating_add(1);
        sleep(delay).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{ErrorCode, ProtocolError};

    #[test]
    fn pauses_double_up_to_the_longest() {
        let policy = RetryPolicy {
            first_delay: Duration::from_millis(50),
            longest_delay: Duration::from_millis(300),
            deadline: Duration::from_secs(1),
        };
        let delays: Vec<_> = (0..5).map(|failures| policy.delay(failures).as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 300, 300]);
        assert_eq!(policy.delay(u32::MAX).as_millis(), 300);
    }

    #[tokio::test]
    async fn what_cannot_pass_is_given_back_at_once() {
        let refusal = || ClientError::from(ProtocolError::new(ErrorCode::Unsatisfied, "no"));
        let error = Outage::new(RetryPolicy::default()).wait(refusal()).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Unsatisfied));
        let busy = || ClientError::from(ProtocolError::new(ErrorCode::Busy, "later"));
        let error = Outage::new(RetryPolicy::NEVER).wait(busy()).await.unwrap_err();
        assert!(matches!(error, ClientError::Refused(_)));
    }

    #[tokio::test]
    async fn the_daemons_hint_counts_against_the_deadline() {
        let policy = RetryPolicy { deadline: Duration::from_secs(60), ..RetryPolicy::default() };
        let busy = ProtocolError::new(ErrorCode::Busy, "later").with_retry_after(Duration::from_secs(61));
        let error = Outage::new(policy).wait(busy.into()).await.unwrap_err();
        assert!(matches!(error, ClientError::GaveUp { .. }));
        assert_eq!(error.code(), Some(ErrorCode::Busy));
    }
}
