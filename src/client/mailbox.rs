//! Where the replies to one request wait for whoever made it.
//!
//! A mailbox is bounded whatever the daemon sends: of a job's progress it keeps the latest event of each
//! partition, and of replies the one that ends the request.
use super::{ClientError, Lease};
use crate::proto::{MAX_PARTITIONS, Progress, ReplyBody};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// What ends a request.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "made once a reply and consumed at once")]
pub(super) enum Answer {
    /// A reply that is complete in itself.
    Reply(ReplyBody),
    /// A lease, mapped already; it gives itself back where nobody takes it.
    Lease(Lease),
}

/// What a mailbox holds next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives on the stack, from one function to the next")]
pub(super) enum Mail {
    /// More is to come.
    Progress(Progress),
    /// The end.
    End(Result<Answer, ClientError>),
}

#[derive(Debug, Default)]
pub(super) struct Mailbox {
    content: Mutex<Content>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Content {
    progress: BTreeMap<u32, Progress>,
    end: Option<Result<Answer, ClientError>>,
}

impl Mailbox {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in an event; replaces an older one of the same partition.
    pub(super) fn put_progress(&self, progress: Progress) -> Result<(), ClientError> {
        if progress.partition >= MAX_PARTITIONS {
            let what = format!("progress of partition {}, wanted below {MAX_PARTITIONS}", progress.partition);
            return Err(ClientError::violation(what));
        }
        self.content().progress.insert(progress.partition, progress);
        self.arrived.notify_one();
        Ok(())
    }

    /// Puts in the end, unless it is there already.
    pub(super) fn put_end(&self, end: Result<Answer, ClientError>) {
        self.content().end.get_or_insert(end);
        self.arrived.notify_one();
    }

    /// Takes out what came, events first; waits where nothing did. For one taker.
    pub(super) async fn next(&self) -> Mail {
        loop {
            {
                let mut content = self.content();
                if let Some((_, progress)) = content.progress.pop_first() {
                    return Mail::Progress(progress);
                }
                if let Some(end) = content.end.take() {
                    return Mail::End(end);
                }
            }
            self.arrived.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{JobId, PartitionState};

    fn progress(partition: u32, state: PartitionState) -> Progress {
        Progress { job: JobId([0; 16]), partition, state, stage: String::new() }
    }

    #[tokio::test]
    async fn only_the_latest_event_of_a_partition_is_kept_and_the_end_comes_last() {
        let mailbox = Mailbox::default();
        mailbox.put_end(Ok(Answer::Reply(ReplyBody::Cancelled)));
        mailbox.put_progress(progress(1, PartitionState::Queued)).unwrap();
        mailbox.put_progress(progress(0, PartitionState::Queued)).unwrap();
        mailbox.put_progress(progress(1, PartitionState::Proved)).unwrap();
        mailbox.put_end(Ok(Answer::Reply(ReplyBody::Released)));
        let Mail::Progress(first) = mailbox.next().await else { panic!() };
        assert_eq!(first, progress(0, PartitionState::Queued));
        let Mail::Progress(second) = mailbox.next().await else { panic!() };
        assert_eq!(second, progress(1, PartitionState::Proved));
        let Mail::End(end) = mailbox.next().await else { panic!() };
        assert!(matches!(end, Ok(Answer::Reply(ReplyBody::Cancelled))));
    }

    #[test]
    fn a_mailbox_cannot_be_flooded() {
        let mailbox = Mailbox::default();
        let error = mailbox.put_progress(progress(MAX_PARTITIONS, PartitionState::Queued)).unwrap_err();
        assert!(matches!(error, ClientError::Violation { .. }));
    }
}
