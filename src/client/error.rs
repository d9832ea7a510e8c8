//! What can fail in a client.
use crate::{
    proto::{ErrorCode, ProtocolError, Retry},
    shm::Refusal,
};
use std::{error::Error, io, path::PathBuf, sync::Arc, time::Duration};

/// A failure as a client sees it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The daemon refused the request, or the job failed; the code says which.
    #[error(transparent)]
    Refused(#[from] ProtocolError),
    /// No connection could be made.
    #[error("cannot connect to the daemon at {}: {source}", path.display())]
    Connect {
        /// The daemon's socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The connection ended.
    #[error("the connection to the daemon ended: {reason}")]
    Disconnected {
        /// How it ended.
        reason: Arc<str>,
    },
    /// The daemon sent what the protocol does not allow.
    #[error("the daemon broke the protocol: {what}")]
    Violation {
        /// What it did.
        what: Arc<str>,
    },
    /// The daemon did not come back, or did not do better, in time.
    #[error("gave up after {} s: {last}", after.as_secs())]
    GaveUp {
        /// How long it was tried.
        after: Duration,
        /// The last failure.
        last: Box<ClientError>,
    },
    /// The caller's own code could not make the witness.
    #[error("the witness could not be made: {0}")]
    Witness(#[source] Box<dyn Error + Send + Sync>),
    /// Memory for a witness could not be had or mapped.
    #[error(transparent)]
    Memory(#[from] Refusal),
    /// The operating system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ClientError {
    /// The code of a refusal by the daemon, also of the last one before giving up.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(error) => Some(error.code),
            Self::GaveUp { last, .. } => last.code(),
            _ => None,
        }
    }

    /// The connection is of no more use, or there is none: another one may do better.
    pub(super) fn lost_connection(&self) -> bool {
        match self {
            Self::Disconnected { .. } => true,
            // With the daemon gone for a moment, the socket is too, or nobody listens, or too many wait.
            Self::Connect { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::WouldBlock
            ),
            _ => false,
        }
    }

    /// The same request may succeed on another connection.
    pub(super) fn wants_reconnection(&self) -> bool {
        match self {
            Self::Refused(error) => error.retry == Retry::Reconnect,
            other => other.lost_connection(),
        }
    }

    /// The same request may succeed if it is made again, later or on another connection.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Refused(error) => error.retry != Retry::Never,
            other => other.lost_connection(),
        }
    }

    /// The daemon's hint when to try again, or zero.
    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Refused(error) => error.retry_after,
            _ => Duration::ZERO,
        }
    }

    /// A violation of the protocol.
    pub(super) fn violation(what: impl Into<Arc<str>>) -> Self {
        Self::Violation { what: what.into() }
    }

    /// A violation: a reply of another kind than the request wants.
    pub(super) fn unexpected(request: &'static str) -> Self {
        Self::violation(format!("its reply to `{request}` is of another kind"))
    }
}
