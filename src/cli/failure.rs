//! How the command ends: the exit statuses that scripts rely on, and failures that carry one.
use crate::{
    catalog::{DefinitionError, MaterialError},
    client::ClientError,
    formats::FormatError,
    groth16::KeyError,
    proto::{ErrorCode, Retry},
};
use std::{fmt, path::Path};

/// Exit statuses, stable from version to version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, and the answer is yes.
    Ok = 0,
    /// Done, and the answer is no: a proof that does not verify, a witness that does not satisfy its
    /// circuit, a key that is another circuit's.
    No = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The daemon refuses, and would refuse again.
    Refused = 3,
    /// The daemon cannot now; the same command may succeed later.
    Later = 4,
    /// No daemon answers at the socket.
    Unreachable = 5,
    /// A file cannot be read or written, or is not what it should be.
    File = 6,
    /// The command was interrupted.
    Interrupted = 130,
    /// A defect or a failing machine: neither the arguments nor the files are at fault.
    Internal = 70,
}

/// The table of exit statuses, for the help and the manual pages.
pub const EXIT_STATUS: &str = "\
Exit status:
  0    done, and the answer is yes
  1    done, and the answer is no: the proof does not verify, the witness does
       not satisfy the circuit, the files do not belong together
  2    the command line makes no sense
  3    the daemon refuses, and would refuse again
  4    the daemon cannot now; the same command may succeed later
  5    no daemon answers at the socket
  6    a file cannot be read or written, or is not what it should be
  70   a defect or a failing machine
  130  interrupted

With --json, one JSON document goes to standard output, also after a failure:
  {\"error\": {\"exit\": 3, \"code\": \"unknownCircuit\", \"message\": \"…\"}}";

/// Why a verb did not do what it was asked, with its exit status.
#[derive(Debug)]
pub struct Failure {
    /// The status to exit with.
    pub exit: Exit,
    /// A stable name of the reason: the protocol's `ErrorCode` where the daemon refused.
    pub code: String,
    /// One sentence that names the thing, the value found and the value wanted.
    pub message: String,
}

/// The outcome of a verb.
pub type Outcome = Result<Exit, Failure>;

impl Failure {
    /// A failure of the given kind.
    pub fn new(exit: Exit, code: &str, message: impl fmt::Display) -> Self {
        Self { exit, code: code.to_owned(), message: message.to_string() }
    }

    /// A file that cannot be used; the message names it already.
    pub fn file(message: impl fmt::Display) -> Self {
        Self::new(Exit::File, "file", message)
    }

    /// For `map_err`: a file that cannot be used, named here.
    pub fn at<E: fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self + '_ {
        move |error| Self::file(format_args!("{}: {error}", path.display()))
    }

    /// Arguments that are each fine, but not together.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// A fault of ours or of the machine.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(Exit::Internal, "internal", message)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::new(Exit::No, "mismatch", error)
    }
}

/// The last failure before giving up.
fn root(error: &ClientError) -> &ClientError {
    match error {
        ClientError::GaveUp { last, .. } => root(last),
        other => other,
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match root(&error) {
            ClientError::Refused(refusal) => match (refusal.code, refusal.retry) {
                (ErrorCode::Unsatisfied, _) => Exit::No,
                (ErrorCode::Internal | ErrorCode::SelfCheckFailed, _) => Exit::Internal,
                (_, Retry::Never) => Exit::Refused,
                (_, Retry::Later | Retry::Reconnect) => Exit::Later,
            },
            ClientError::Connect { .. } | ClientError::Disconnected { .. } => Exit::Unreachable,
            _ => Exit::Internal,
        };
        let code = match (error.code(), exit) {
            (Some(code), _) => code.name(),
            (None, Exit::Unreachable) => "unreachable",
            (None, _) => "internal",
        };
        Self::new(exit, code, error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Self {
        Self::file(error)
    }
}

impl From<DefinitionError> for Failure {
    fn from(error: DefinitionError) -> Self {
        match error {
            DefinitionError::Name { .. } => Self::usage(error),
            _ => Self::file(error),
        }
    }
}

impl From<MaterialError> for Failure {
    fn from(error: MaterialError) -> Self {
        match error {
            MaterialError::Counts(_) | MaterialError::Mismatch { .. } | MaterialError::Differs { .. } => {
                Self::new(Exit::No, "mismatch", error)
            }
            MaterialError::CircuitMissing { .. } => Self::usage(error),
            _ => Self::file(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{algebra::PointError, formats::Defect, proto::ProtocolError};
    use std::{io, path::PathBuf, time::Duration};

    fn refused(code: ErrorCode) -> ClientError {
        ProtocolError::new(code, "no").into()
    }

    #[test]
    fn refusals_end_by_whether_to_try_again() {
        for code in ErrorCode::ALL {
            let wanted = match code {
                ErrorCode::Unsatisfied => Exit::No,
                ErrorCode::Internal | ErrorCode::SelfCheckFailed => Exit::Internal,
                code if code.retry() == Retry::Never => Exit::Refused,
                _ => Exit::Later,
            };
            let failure = Failure::from(refused(*code));
            assert_eq!((failure.exit, failure.code.as_str()), (wanted, code.name()));
            let given_up = ClientError::GaveUp { after: Duration::ZERO, last: Box::new(refused(*code)) };
            let failure = Failure::from(given_up);
            assert_eq!((failure.exit, failure.code.as_str()), (wanted, code.name()));
        }
        assert_eq!(Failure::from(refused(ErrorCode::Busy)).exit, Exit::Later);
        assert_eq!(Failure::from(refused(ErrorCode::Draining)).exit, Exit::Later);
        assert_eq!(Failure::from(refused(ErrorCode::UnknownCircuit)).exit, Exit::Refused);
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_unreachable() {
        let connect = || ClientError::Connect { path: "/s".into(), source: io::ErrorKind::NotFound.into() };
        let ended = ClientError::Disconnected { reason: "end of file".into() };
        let given_up = ClientError::GaveUp { after: Duration::ZERO, last: Box::new(connect()) };
        for error in [connect(), ended, given_up] {
            let failure = Failure::from(error);
            assert_eq!((failure.exit, failure.code.as_str()), (Exit::Unreachable, "unreachable"));
        }
    }

    #[test]
    fn damage_is_no_disagreement() {
        let point = Defect::Point { group: "G1", index: 0, error: PointError::NotOnCurve };
        let count = Defect::Count { what: "h", found: 1, wanted: 2 };
        let file = |defect| FormatError::malformed("h", 0, defect);
        assert_eq!(Failure::from(MaterialError::from(file(point))).exit, Exit::File);
        assert_eq!(Failure::from(MaterialError::Counts(file(count))).exit, Exit::No);
        let missing = MaterialError::CircuitMissing { path: PathBuf::new() };
        assert_eq!(Failure::from(missing).exit, Exit::Usage);
    }
}
