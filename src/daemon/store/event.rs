//! What happens to a job, as its journal tells it: plain types, and their encoding by `schema/store.capnp`.
use super::store_capnp::{self, entry};
use crate::proto::messages::wire::{self, DecodeProblem, Segment};
use crate::proto::{
    ContentId, DecodeError, IdempotencyKey, JobId, JobResult, MAX_PARTITIONS, Priority, ProtocolError, Reply,
    ReplyBody,
};
use crate::r1cs::WitnessEncoding;
use std::time::Duration;

/// The longest entry: a proof with its inputs and its timeline takes far less.
const MAX_ENTRY: usize = 1 << 20;
/// Bytes of an entry's length.
const LENGTH: usize = 4;

/// A job as it was admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Its id.
    pub job: JobId,
    /// Its owner.
    pub uid: u32,
    /// Its owner's key.
    pub key: IdempotencyKey,
    /// The circuit's name.
    pub circuit: String,
    /// The circuit that its witnesses are for.
    pub circuit_id: ContentId,
    /// The key that it is proved with.
    pub key_id: ContentId,
    /// How many partitions it has.
    pub partitions: u32,
    /// Its urgency.
    pub priority: Priority,
    /// How long after its admission its result is of any use, in whole milliseconds; None: for ever.
    pub deadline: Option<Duration>,
    /// The build id of the daemon that admitted it.
    pub build: String,
    /// What its results may take, as charged to its owner.
    pub result_bytes: u64,
}

/// A witness in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWitness {
    /// The name of its memfd.
    pub name: String,
    /// A lease, whose size alone is sealed; otherwise a memfd of the client's own.
    pub leased: bool,
    /// Where it begins.
    pub offset: u64,
    /// Bytes of the encoded witness.
    pub length: u64,
    /// Its encoding.
    pub encoding: WitnessEncoding,
}

/// One entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The job was admitted.
    Admitted(Admitted),
    /// A partition's witness is in the store.
    Submitted(u32, StoredWitness),
    /// A prover has begun with a partition.
    Began(u32),
    /// The prover gave it back unproved.
    Returned(u32),
    /// A partition's proof, alone in a result.
    Proved(u32, JobResult),
    /// The job failed or was cancelled.
    Failed(ProtocolError),
    /// The job is of no more interest.
    Forgotten,
}

/// An event, and when it was written: the time since the system was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// On CLOCK_BOOTTIME, in whole milliseconds.
    pub at: Duration,
    /// What happened.
    pub event: Event,
}

/// Entries that say nothing that this version understands.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// An entry passes the end of the journal, or is longer than any.
    #[error("entry {index} has {announced} bytes, {found} are there, and at most {MAX_ENTRY} are wanted")]
    Length {
        /// The entry's number, from 0.
        index: usize,
        /// Its length.
        announced: usize,
        /// Bytes behind its length.
        found: usize,
    },
    /// An entry is no valid message.
    #[error("entry {index}: {problem}")]
    Entry {
        /// The entry's number, from 0.
        index: usize,
        /// What is wrong with it.
        problem: DecodeProblem,
    },
    /// An entry holds a message of the protocol of another kind than it should.
    #[error("entry {index} holds another message than {wanted}")]
    Kind {
        /// The entry's number, from 0.
        index: usize,
        /// What it should hold.
        wanted: &'static str,
    },
}

const ENCODINGS: [WitnessEncoding; 3] =
    [WitnessEncoding::Canonical, WitnessEncoding::Montgomery, WitnessEncoding::Packed];

/// A value's number in the order of its kind.
fn number_of<T: PartialEq>(all: &[T], value: &T) -> u16 {
    all.iter().zip(0..).find_map(|(it, number)| (it == value).then_some(number)).unwrap_or(u16::MAX)
}

fn value_of<T: Copy>(field: &'static str, all: &[T], found: u16) -> Result<T, DecodeProblem> {
    all.get(usize::from(found)).copied().ok_or(DecodeProblem::UnknownValue { field, found })
}

fn message(body: ReplyBody) -> Vec<u8> {
    Reply { id: 0, body }.encode()
}

impl Timed {
    /// The entry, with its length before it.
    pub fn encode(&self) -> Vec<u8> {
        let message = wire::encode(|builder| self.write(builder.init_root()));
        let mut entry = u32::try_from(message.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
        entry.extend(message);
        entry
    }

    fn write(&self, mut to: entry::Builder<'_>) {
        to.set_at_ms(wire::milliseconds(self.at));
        match &self.event {
            Event::Admitted(job) => {
                let mut to = to.init_admitted();
                to.set_job(&job.job.0);
                to.set_uid(job.uid);
                to.set_key(job.key.as_bytes());
                to.set_circuit(&job.circuit[..]);
                to.set_circuit_id(&job.circuit_id.0);
                to.set_key_id(&job.key_id.0);
                to.set_partitions(job.partitions);
                to.set_priority(number_of(Priority::ALL, &job.priority));
                to.set_deadline_ms(wire::deadline_ms(job.deadline));
                to.set_build(&job.build[..]);
                to.set_result_bytes(job.result_bytes);
            }
            Event::Submitted(partition, witness) => {
                let mut to = to.init_submitted();
                to.set_partition(*partition);
                to.set_name(&witness.name[..]);
                to.set_leased(witness.leased);
                to.set_offset(witness.offset);
                to.set_length(witness.length);
                to.set_encoding(number_of(&ENCODINGS, &witness.encoding));
            }
            Event::Began(partition) => to.set_began(*partition),
            Event::Returned(partition) => to.set_returned(*partition),
            Event::Proved(partition, result) => {
                let mut to = to.init_proved();
                to.set_partition(*partition);
                to.set_result(&message(ReplyBody::Result(result.clone())));
            }
            Event::Failed(error) => to.set_failed(&message(ReplyBody::Error(error.clone()))),
            Event::Forgotten => to.set_forgotten(()),
        }
    }
}

fn admitted(from: store_capnp::admitted::Reader<'_>) -> Result<Admitted, DecodeProblem> {
    let partitions = from.get_partitions();
    if !(1..=MAX_PARTITIONS).contains(&partitions) {
        return Err(DecodeProblem::ListLength {
            field: "partitions",
            found: partitions,
            max: MAX_PARTITIONS,
        });
    }
    let key = from.get_key()?;
    Ok(Admitted {
        job: JobId(wire::fixed("job", from.get_job(), "16")?),
        uid: from.get_uid(),
        key: IdempotencyKey::new(key).map_err(|_| DecodeProblem::FieldLength {
            field: "key",
            found: key.len(),
            wanted: "1 to 64",
        })?,
        circuit: wire::name("circuit", from.get_circuit())?,
        circuit_id: ContentId(wire::fixed("circuitId", from.get_circuit_id(), "32")?),
        key_id: ContentId(wire::fixed("keyId", from.get_key_id(), "32")?),
        partitions,
        priority: value_of("priority", Priority::ALL, from.get_priority())?,
        deadline: wire::deadline(from.get_deadline_ms()),
        build: wire::text("build", from.get_build())?,
        result_bytes: from.get_result_bytes(),
    })
}

/// What an entry says, before the messages of the protocol in it are read.
enum Said<'a> {
    Event(Event),
    Proved(u32, &'a [u8]),
    Failed(&'a [u8]),
}

fn said<'a>(from: &entry::Reader<'a>) -> Result<Said<'a>, DecodeProblem> {
    use entry::Which;
    Ok(Said::Event(match from.which() {
        Ok(Which::Admitted(job)) => Event::Admitted(admitted(job?)?),
        Ok(Which::Submitted(from)) => {
            let from = from?;
            let witness = StoredWitness {
                name: wire::name("name", from.get_name())?,
                leased: from.get_leased(),
                offset: from.get_offset(),
                length: from.get_length(),
                encoding: value_of("encoding", &ENCODINGS, from.get_encoding())?,
            };
            Event::Submitted(from.get_partition(), witness)
        }
        Ok(Which::Began(partition)) => Event::Began(partition),
        Ok(Which::Returned(partition)) => Event::Returned(partition),
        Ok(Which::Proved(from)) => {
            let from = from?;
            return Ok(Said::Proved(from.get_partition(), from.get_result()?));
        }
        Ok(Which::Failed(error)) => return Ok(Said::Failed(error?)),
        Ok(Which::Forgotten(())) => Event::Forgotten,
        Err(capnp::NotInSchema(found)) => return Err(DecodeProblem::UnknownValue { field: "entry", found }),
    }))
}

fn decode_one(index: usize, bytes: &[u8]) -> Result<Timed, EventError> {
    let at_fault = |problem| EventError::Entry { index, problem };
    let reply =
        |bytes: &[u8]| Reply::decode_attached(bytes).map_err(|DecodeError { problem, .. }| at_fault(problem));
    let segment = Segment::from_packet(bytes, MAX_ENTRY).map_err(at_fault)?;
    segment.read(|message| {
        let root = message.get_root::<entry::Reader<'_>>().map_err(|e| at_fault(e.into()))?;
        let event = match said(&root).map_err(at_fault)? {
            Said::Event(event) => event,
            Said::Proved(partition, bytes) => match reply(bytes)?.body {
                ReplyBody::Result(result) => Event::Proved(partition, result),
                _ => return Err(EventError::Kind { index, wanted: "a result" }),
            },
            Said::Failed(bytes) => match reply(bytes)?.body {
                ReplyBody::Error(error) => Event::Failed(error),
                _ => return Err(EventError::Kind { index, wanted: "an error" }),
            },
        };
        Ok(Timed { at: Duration::from_millis(root.get_at_ms()), event })
    })
}

/// The events of a journal's body.
///
/// # Errors
/// [`EventError`] names the first entry that is not understood.
pub fn decode(mut body: &[u8]) -> Result<Vec<Timed>, EventError> {
    let mut events = Vec::new();
    while !body.is_empty() {
        let index = events.len();
        let short = |found| EventError::Length { index, announced: LENGTH, found };
        let (length, rest) = body.split_first_chunk::<LENGTH>().ok_or_else(|| short(body.len()))?;
        let announced = u32::from_le_bytes(*length) as usize;
        if announced > rest.len().min(MAX_ENTRY) {
            return Err(EventError::Length { index, announced, found: rest.len() });
        }
        let (entry, rest) = rest.split_at(announced);
        events.push(decode_one(index, entry)?);
        body = rest;
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{ErrorCode, PartitionProof, Span};
    use proptest::{collection::vec, prelude::*, sample::select};

    fn content_id() -> impl Strategy<Value = ContentId> {
        any::<[u8; 32]>().prop_map(ContentId)
    }

    fn admitted() -> impl Strategy<Value = Event> {
        let ids = (any::<[u8; 16]>(), any::<u32>(), vec(any::<u8>(), 1..=64), "[a-z]{1,20}");
        let deadline = proptest::option::of((1..u64::MAX).prop_map(Duration::from_millis));
        let priority = (select(Priority::ALL), deadline);
        let rest = (content_id(), content_id(), 1..=MAX_PARTITIONS, priority, "[ -~]{0,30}");
        (ids, rest).prop_map(
            |((job, uid, key, circuit), (circuit_id, key_id, partitions, (priority, deadline), build))| {
                let key = IdempotencyKey::new(&key).unwrap();
                let job = JobId(job);
                let admitted = Admitted {
                    job,
                    uid,
                    key,
                    circuit,
                    circuit_id,
                    key_id,
                    partitions,
                    priority,
                    deadline,
                    build,
                    result_bytes: 5,
                };
                Event::Admitted(admitted)
            },
        )
    }

    fn submitted() -> impl Strategy<Value = Event> {
        let place = any::<(u32, bool, u64, u64)>();
        (place, "[a-z]{1,20}", select(&ENCODINGS[..])).prop_map(
            |((partition, leased, offset, length), name, encoding)| {
                Event::Submitted(partition, StoredWitness { name, leased, offset, length, encoding })
            },
        )
    }

    fn proved() -> impl Strategy<Value = Event> {
        let inputs = vec(any::<[u8; 32]>(), 0..20);
        (any::<u32>(), any::<[u8; 16]>(), content_id(), inputs, any::<u8>()).prop_map(
            |(partition, job, id, public_inputs, byte)| {
                let span = Span {
                    stage: "queued".into(),
                    start: Duration::ZERO,
                    duration: Duration::from_nanos(byte.into()),
                };
                let proof = PartitionProof {
                    proof: [byte; 192],
                    public_inputs_hash: id,
                    public_inputs,
                    attempts: 1,
                    timeline: vec![span],
                };
                let result = JobResult {
                    job: JobId(job),
                    circuit: "spend".into(),
                    circuit_id: id,
                    key_id: id,
                    build: "1".into(),
                    backend: "cpu".into(),
                    proofs: vec![proof],
                };
                Event::Proved(partition, result)
            },
        )
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            admitted(),
            submitted(),
            any::<u32>().prop_map(Event::Began),
            any::<u32>().prop_map(Event::Returned),
            proved(),
            (select(ErrorCode::ALL), "\\PC{0,40}", any::<u32>()).prop_map(|(code, text, partition)| {
                Event::Failed(ProtocolError::new(code, text).with_partition(partition))
            }),
            Just(Event::Forgotten),
        ]
    }

    fn timed() -> impl Strategy<Value = Timed> {
        (any::<u64>(), event()).prop_map(|(at, event)| Timed { at: Duration::from_millis(at), event })
    }

    proptest! {
        #[test]
        fn events_come_back(events in vec(timed(), 0..6)) {
            let body: Vec<u8> = events.iter().flat_map(Timed::encode).collect();
            prop_assert_eq!(decode(&body).unwrap(), events);
        }

        #[test]
        fn truncated_entries_are_refused(event in timed(), cut in any::<prop::sample::Index>()) {
            let entry = event.encode();
            let cut = 1 + cut.index(entry.len() - 1);
            prop_assert!(decode(&entry[..cut]).is_err());
        }

        #[test]
        fn damaged_entries_do_no_harm(event in timed(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut entry = event.encode();
            let at = at.index(entry.len());
            entry[at] = byte;
            // The journal's hash finds it first; here it must only not panic, nor take memory for a mere claim.
            let _ = decode(&entry);
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn an_entry_of_a_later_version_is_refused_by_its_number() {
        let entry = Timed { at: Duration::ZERO, event: Event::Forgotten }.encode();
        // The union's discriminant is the only 6 of this message: member 6 of the union, of 16 bits.
        let at = entry.iter().position(|byte| *byte == 6).unwrap();
        let mut later = entry.clone();
        later[at] = 99;
        let error = decode(&later).unwrap_err();
        assert_eq!(error.to_string(), "entry 0: entry has the unknown value 99");
    }
}
