//! Identifiers: of jobs, daemon instances, circuits, keys, and the caller's own idempotency keys.
use super::wire::{self, DecodeProblem};
use crate::proto::MAX_IDEMPOTENCY_KEY_BYTES;
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// A text or byte string that is no such identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no {kind}, wanted {wanted}")]
pub struct InvalidId {
    /// What was to be read.
    pub kind: &'static str,
    /// What was found.
    pub found: String,
    /// The form wanted.
    pub wanted: &'static str,
}

/// A job's id, made by the daemon; written as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub [u8; 16]);

impl JobId {
    /// A new id; later ones sort after earlier ones (UUID version 7).
    pub fn generate() -> Self {
        Self(Uuid::now_v7().into_bytes())
    }

    /// Whether the job was made before that instance of the daemon was started.
    pub fn is_before(&self, instance: InstanceId) -> bool {
        // Ids of both kinds are UUIDs of version 7, and begin with the milliseconds since 1970, in 48 bits.
        self.0[6] >> 4 == 7 && self.0[..6] < instance.0[..6]
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_bytes(self.0).hyphenated().fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

impl FromStr for JobId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        Uuid::try_parse(text).map(|uuid| Self(uuid.into_bytes())).map_err(|_| InvalidId {
            kind: "job id",
            found: text.to_owned(),
            wanted: "a UUID",
        })
    }
}

/// One run of the daemon: a new one after each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstanceId(pub [u8; 16]);

impl InstanceId {
    /// A new id.
    pub fn generate() -> Self {
        Self(Uuid::now_v7().into_bytes())
    }
}

/// The BLAKE3 hash that names a compiled circuit, a key file or a list of public inputs; written in hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(pub [u8; 32]);

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentId({self})")
    }
}

impl FromStr for ContentId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid =
            || InvalidId { kind: "content id", found: text.to_owned(), wanted: "64 hexadecimal digits" };
        let digits: Vec<u8> = text
            .chars()
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect::<Option<_>>()
            .ok_or_else(invalid)?;
        if digits.len() != 64 {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(bytes))
    }
}

/// The caller's name for a job, 1 to 64 bytes: the same key from the same user is the same job, also
/// after a restart.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Vec<u8>);

impl IdempotencyKey {
    /// A key of the caller's own; names what is proved, e.g. a sector and its challenge.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidId> {
        if !(1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&bytes.len()) {
            return Err(InvalidId {
                kind: "idempotency key",
                found: String::from_utf8_lossy(bytes).into_owned(),
                wanted: "1 to 64 bytes",
            });
        }
        Ok(Self(bytes.to_vec()))
    }

    /// A key that no other job has.
    pub fn unique() -> Self {
        Self(Uuid::now_v7().into_bytes().to_vec())
    }

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({})", self.0.escape_ascii())
    }
}

impl JobId {
    pub(super) fn read(
        field: &'static str,
        data: capnp::Result<capnp::data::Reader<'_>>,
    ) -> Result<Self, DecodeProblem> {
        wire::fixed(field, data, "16").map(Self)
    }
}

impl ContentId {
    pub(super) fn read(
        field: &'static str,
        data: capnp::Result<capnp::data::Reader<'_>>,
    ) -> Result<Self, DecodeProblem> {
        wire::fixed(field, data, "32").map(Self)
    }

    pub(super) fn read_optional(
        field: &'static str,
        data: capnp::Result<capnp::data::Reader<'_>>,
    ) -> Result<Option<Self>, DecodeProblem> {
        Ok(wire::fixed_or_empty(field, data, "0 or 32")?.map(Self))
    }

    /// Empty for None.
    pub(super) fn bytes_or_empty(id: &Option<Self>) -> &[u8] {
        id.as_ref().map_or(&[], |id| &id.0)
    }
}

impl IdempotencyKey {
    pub(super) fn read(
        field: &'static str,
        data: capnp::Result<capnp::data::Reader<'_>>,
    ) -> Result<Self, DecodeProblem> {
        let data = data?;
        Self::new(data).map_err(|_| DecodeProblem::FieldLength {
            field,
            found: data.len(),
            wanted: "1 to 64",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_before_a_daemon_that_was_started_later() {
        let (early, instance) = (JobId::generate(), InstanceId::generate());
        assert!(!early.is_before(InstanceId(early.0)));
        assert!(early.is_before(InstanceId([0xff; 16])));
        assert!(!JobId::generate().is_before(InstanceId([0; 16])));
        // What no daemon has made is from no time.
        assert!(!JobId([1; 16]).is_before(instance));
    }
}
