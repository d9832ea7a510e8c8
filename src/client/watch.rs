//! Following a job to its end.
use super::{
    ClientError,
    connection::{Connection, Ticket},
    mailbox::{Answer, Mail},
};
use crate::proto::{AwaitRequest, JobId, JobResult, Progress, ReplyBody, RequestBody};
use std::sync::Arc;

/// A job that is being followed on one connection.
#[derive(Debug)]
pub struct Watch {
    ticket: Ticket,
    ended: bool,
    /// Keeps the connection open.
    _connection: Arc<Connection>,
}

/// What happens to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// A partition's present state. Where the caller is slow, only the latest of a partition is told.
    Progress(Progress),
    /// The job is done; nothing follows.
    Done(JobResult),
}

impl Watch {
    pub(super) async fn open(
        connection: Arc<Connection>,
        job: JobId,
        progress: bool,
    ) -> Result<Self, ClientError> {
        let ticket = connection.request(RequestBody::Await(AwaitRequest { job, progress }), &[]).await?;
        Ok(Self { ticket, ended: false, _connection: connection })
    }

    /// Waits for what happens next; None after the end. The job's failure is an error and its end, as is
    /// the connection's.
    pub async fn event(&mut self) -> Option<Result<JobEvent, ClientError>> {
        if self.ended {
            return None;
        }
        let event = match self.ticket.next().await {
            Mail::Progress(progress) => return Some(Ok(JobEvent::Progress(progress))),
            Mail::End(Ok(Answer::Reply(ReplyBody::Result(result)))) => Ok(JobEvent::Done(result)),
            Mail::End(Ok(_)) => Err(ClientError::unexpected("await")),
            Mail::End(Err(error)) => Err(error),
        };
        self.ended = true;
        Some(event)
    }

    /// Waits for the job's result.
    pub async fn result(mut self) -> Result<JobResult, ClientError> {
        loop {
            match self.event().await {
                Some(Ok(JobEvent::Done(result))) => return Ok(result),
                Some(Ok(JobEvent::Progress(_))) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(ClientError::unexpected("await")),
            }
        }
    }
}
