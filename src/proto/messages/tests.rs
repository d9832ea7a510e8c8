//! Every message survives its encoding; no bytes whatever make a decoder panic or accept what the
//! schema forbids.
use super::*;
use crate::{
    proto::{MAX_PACKET_BYTES, PROTOCOL_VERSION, cuzk_capnp},
    r1cs::WitnessEncoding,
};
use proptest::{
    array::{uniform5, uniform32},
    collection::vec,
    option,
    prelude::*,
    sample::select,
};
use std::time::Duration;

/// Any value of a wire enumeration.
fn any_of<T: Copy + std::fmt::Debug>(all: &'static [T]) -> impl Strategy<Value = T> {
    select(all)
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 ._äλ-]{1,40}"
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,30}"
}

fn job_id() -> impl Strategy<Value = JobId> {
    any::<[u8; 16]>().prop_map(JobId)
}

fn content_id() -> impl Strategy<Value = ContentId> {
    uniform32(any::<u8>()).prop_map(ContentId)
}

fn key() -> impl Strategy<Value = IdempotencyKey> {
    vec(any::<u8>(), 1..=64).prop_map(|bytes| IdempotencyKey::new(&bytes).unwrap())
}

fn milliseconds() -> impl Strategy<Value = Duration> {
    any::<u32>().prop_map(|ms| Duration::from_millis(ms.into()))
}

fn nanoseconds() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn submit() -> impl Strategy<Value = Submit> {
    let encoding =
        select(&[WitnessEncoding::Canonical, WitnessEncoding::Montgomery, WitnessEncoding::Packed][..]);
    let witness = prop_oneof![
        any::<u64>().prop_map(WitnessSource::Lease),
        any::<u64>().prop_map(|offset| WitnessSource::Memfd { offset }),
    ];
    let deadline = option::of((1..u64::MAX).prop_map(Duration::from_millis));
    (
        (key(), name(), option::of(content_id()), any::<(u32, u32)>()),
        (any_of(Priority::ALL), encoding, witness, any::<u64>(), deadline),
    )
        .prop_map(
            |(
                (key, circuit, circuit_id, (partition, partitions)),
                (priority, encoding, witness, length, deadline),
            )| {
                Submit {
                    key,
                    circuit,
                    circuit_id,
                    partition,
                    partitions,
                    priority,
                    encoding,
                    witness,
                    length,
                    deadline,
                }
            },
        )
}

fn request() -> impl Strategy<Value = Request> {
    let body = prop_oneof![
        (any::<u32>(), name()).prop_map(|(version, client)| RequestBody::Hello(Hello { version, client })),
        Just(RequestBody::Circuits),
        (name(), any::<bool>(), any_of(Priority::ALL)).prop_map(|(circuit, wait, priority)| {
            RequestBody::Lease(LeaseRequest { circuit, wait, priority })
        }),
        any::<u64>().prop_map(RequestBody::Release),
        submit().prop_map(RequestBody::Submit),
        (job_id(), any::<bool>())
            .prop_map(|(job, progress)| RequestBody::Await(AwaitRequest { job, progress })),
        job_id().prop_map(RequestBody::Acknowledge),
        job_id().prop_map(RequestBody::Cancel),
        Just(RequestBody::Status),
        key().prop_map(RequestBody::Find),
        any::<u64>().prop_map(RequestBody::Abandon),
        Just(RequestBody::Metrics),
        (option::of(job_id()), any::<u32>())
            .prop_map(|(job, last)| RequestBody::Trace(TraceRequest { job, last })),
    ];
    (any::<u64>(), body).prop_map(|(id, body)| Request { id, body })
}

fn circuit_info() -> impl Strategy<Value = CircuitInfo> {
    (
        (name(), option::of(content_id()), option::of(content_id())),
        any::<(u64, u64, u64, u32)>(),
        any_of(KeyTier::ALL),
        text(),
        any::<(u32, u64, u64)>(),
    )
        .prop_map(
            |(
                (name, circuit_id, key_id),
                (public_inputs, auxiliary, constraints, domain_log2),
                tier,
                problem,
                (references, key_bytes, circuit_bytes),
            )| {
                CircuitInfo {
                    name,
                    circuit_id,
                    key_id,
                    public_inputs,
                    auxiliary,
                    constraints,
                    domain_log2,
                    tier,
                    problem,
                    references,
                    key_bytes,
                    circuit_bytes,
                }
            },
        )
}

fn error() -> impl Strategy<Value = ProtocolError> {
    (any_of(ErrorCode::ALL), text(), any_of(Retry::ALL), milliseconds(), any::<(u64, u32, u32)>()).prop_map(
        |(code, message, retry, retry_after, (index, partition, queue_length))| ProtocolError {
            code,
            message,
            retry,
            retry_after,
            index,
            partition,
            queue_length,
        },
    )
}

fn proof() -> impl Strategy<Value = PartitionProof> {
    let span = (text(), nanoseconds(), nanoseconds()).prop_map(|(stage, start, duration)| Span {
        stage,
        start,
        duration,
    });
    (vec(any::<u8>(), 192), content_id(), vec(uniform32(any::<u8>()), 0..4), any::<u32>(), vec(span, 0..4))
        .prop_map(|(proof, public_inputs_hash, public_inputs, attempts, timeline)| PartitionProof {
            proof: proof.try_into().unwrap(),
            public_inputs_hash,
            public_inputs,
            attempts,
            timeline,
        })
}

fn job_result() -> impl Strategy<Value = JobResult> {
    (job_id(), name(), content_id(), content_id(), text(), text(), vec(proof(), 0..4)).prop_map(
        |(job, circuit, circuit_id, key_id, build, backend, proofs)| JobResult {
            job,
            circuit,
            circuit_id,
            key_id,
            build,
            backend,
            proofs,
        },
    )
}

fn job_status() -> impl Strategy<Value = JobStatus> {
    let partition =
        (any_of(PartitionState::ALL), text()).prop_map(|(state, stage)| PartitionStatus { state, stage });
    (job_id(), any::<u32>(), name(), any_of(Priority::ALL), milliseconds(), vec(partition, 0..4)).prop_map(
        |(job, uid, circuit, priority, age, partitions)| JobStatus {
            job,
            uid,
            circuit,
            priority,
            age,
            partitions,
        },
    )
}

fn status() -> impl Strategy<Value = Status> {
    let state = select(BackendState::ALL);
    let device = (text(), any::<u64>(), any::<u64>(), vec(text(), 0..4));
    let current = (job_id(), any::<u32>(), name(), text(), milliseconds()).prop_map(
        |(job, partition, circuit, stage, running)| CurrentPartition {
            job,
            partition,
            circuit,
            stage,
            running,
        },
    );
    let idle = uniform5(nanoseconds()).prop_map(|[no_work, witness, memory, key, epilogue]| IdleTimes {
        no_work,
        witness,
        memory,
        key,
        epilogue,
    });
    let times = (any::<u32>(), nanoseconds(), idle, vec(current, 0..3));
    let backend = (text(), text(), any::<u32>(), state, any::<u64>(), device, times).prop_map(
        |(
            name,
            why,
            running,
            state,
            retries,
            (device, memory, memory_kept, circuits),
            (slots, busy, idle, current),
        )| BackendStatus {
            name,
            why,
            running,
            state,
            retries,
            device,
            memory,
            memory_kept,
            circuits,
            slots,
            busy,
            idle,
            current,
        },
    );
    let memory = any::<((u64, u64, u64, u64, u64, u64, u32), [u64; 4])>().prop_map(
        |(
            (total, used, leases, keys, circuits, working, waiting),
            [peak, locked, resident, peak_resident],
        )| MemoryStatus {
            total,
            used,
            leases,
            keys,
            circuits,
            working,
            waiting,
            peak,
            locked,
            resident,
            peak_resident,
        },
    );
    let counters = any::<(u64, u64, u64, u64, u64, u64)>().prop_map(
        |(submitted, proved, failed, cancelled, self_check_retries, refused)| Counters {
            submitted,
            proved,
            failed,
            cancelled,
            self_check_retries,
            refused,
        },
    );
    let queue = (any_of(Priority::ALL), any::<(u32, u32)>(), milliseconds()).prop_map(
        |(priority, (partitions, users), oldest)| QueueStatus { priority, partitions, users, oldest },
    );
    let buffers = (text(), any::<u32>(), any::<u64>()).prop_map(|(stage, buffers, bytes)| StageBuffers {
        stage,
        buffers,
        bytes,
    });
    (
        (text(), any::<u32>(), milliseconds(), any_of(DaemonState::ALL), vec(backend, 0..3)),
        (memory, vec(circuit_info(), 0..3), vec(job_status(), 0..3), counters, any::<(u32, u32)>(), text()),
        (vec(queue, 0..4), vec(buffers, 0..4)),
    )
        .prop_map(
            |(
                (build, pid, uptime, state, backends),
                (memory, circuits, jobs, counters, (connections, omitted_jobs), message),
                (queues, buffers),
            )| {
                Status {
                    build,
                    pid,
                    uptime,
                    state,
                    backends,
                    memory,
                    circuits,
                    jobs,
                    omitted_jobs,
                    counters,
                    connections,
                    message,
                    queues,
                    buffers,
                }
            },
        )
}

fn reply() -> impl Strategy<Value = Reply> {
    let body = prop_oneof![
        error().prop_map(ReplyBody::Error),
        (any::<u32>(), text(), any::<[u8; 16]>()).prop_map(|(version, build, instance)| {
            ReplyBody::Welcome(Welcome { version, build, instance: InstanceId(instance) })
        }),
        vec(circuit_info(), 0..4).prop_map(ReplyBody::Circuits),
        (any::<(u64, u64, u64, u64)>(), content_id()).prop_map(
            |((id, bytes, public_inputs, auxiliary), circuit_id)| ReplyBody::Lease(Lease {
                id,
                bytes,
                public_inputs,
                auxiliary,
                circuit_id
            })
        ),
        Just(ReplyBody::Released),
        (job_id(), any::<u32>()).prop_map(|(job, missing)| ReplyBody::Accepted(Accepted { job, missing })),
        (job_id(), any::<u32>(), any_of(PartitionState::ALL), text()).prop_map(
            |(job, partition, state, stage)| ReplyBody::Progress(Progress { job, partition, state, stage })
        ),
        job_result().prop_map(ReplyBody::Result),
        Just(ReplyBody::Acknowledged),
        Just(ReplyBody::Cancelled),
        status().prop_map(ReplyBody::Status),
        text().prop_map(ReplyBody::Metrics),
        text().prop_map(ReplyBody::Trace),
        any::<u64>().prop_map(ReplyBody::Attached),
    ];
    (any::<u64>(), body).prop_map(|(id, body)| Reply { id, body })
}

/// A valid packet with some of its bytes replaced, and perhaps cut.
fn mutated(packet: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (packet, vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), option::of(any::<prop::sample::Index>()))
        .prop_map(|(mut packet, changes, cut)| {
            for (at, value) in changes {
                let at = at.index(packet.len());
                packet[at] = value;
            }
            if let Some(cut) = cut {
                packet.truncate(cut.index(packet.len()));
            }
            packet
        })
}

proptest! {
    #[test]
    fn requests_survive_their_encoding(request in request()) {
        let packet = request.encode();
        prop_assert!(packet.len() <= MAX_PACKET_BYTES);
        prop_assert_eq!(Request::decode(&packet), Ok(request));
    }

    #[test]
    fn replies_survive_their_encoding(reply in reply()) {
        prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..400)) {
        let _ = Request::decode(&bytes);
        let _ = Reply::decode(&bytes);
        // The same behind a segment table that fits, so that the reader proper sees them.
        let words = bytes.len() / 8;
        let mut framed = [[0; 4], (words as u32).to_le_bytes()].concat();
        framed.extend_from_slice(&bytes[..words * 8]);
        let _ = Request::decode(&framed);
        let _ = Reply::decode(&framed);
    }

    #[test]
    fn mutated_requests_are_decoded_or_refused(packet in mutated(request().prop_map(|r| r.encode()))) {
        let _ = Request::decode(&packet);
    }

    #[test]
    fn mutated_replies_are_decoded_or_refused(packet in mutated(reply().prop_map(|r| r.encode()))) {
        let _ = Reply::decode(&packet);
    }

    #[test]
    fn ids_survive_their_text(job in job_id(), content in content_id()) {
        prop_assert_eq!(job.to_string().parse(), Ok(job));
        prop_assert_eq!(content.to_string().parse(), Ok(content));
    }
}

fn problem(packet: &[u8]) -> DecodeProblem {
    Request::decode(packet).unwrap_err().problem
}

/// A request whose fields the typed API would not let through.
fn raw_request(fill: impl Fn(cuzk_capnp::request::Builder<'_>)) -> Vec<u8> {
    wire::encode(|message| {
        let mut root: cuzk_capnp::request::Builder<'_> = message.init_root();
        root.set_id(7);
        fill(root);
    })
}

#[test]
fn framing_is_checked() {
    let good = Request { id: 1, body: RequestBody::Status }.encode();
    assert!(matches!(problem(&[]), DecodeProblem::Size { found: 0, .. }));
    assert!(matches!(problem(&good[..7]), DecodeProblem::Size { found: 7, .. }));
    assert!(matches!(problem(&[0; 8]), DecodeProblem::Size { found: 8, .. }));
    assert!(matches!(problem(&vec![0; MAX_PACKET_BYTES + 1]), DecodeProblem::Size { .. }));
    assert!(matches!(problem(&good[..good.len() - 1]), DecodeProblem::Length { .. }));
    assert!(matches!(problem(&[&good[..], &[0]].concat()), DecodeProblem::Length { .. }));
    let mut two_segments = good.clone();
    two_segments[0] = 1;
    assert_eq!(problem(&two_segments), DecodeProblem::Segments { found: 2 });
    let mut most_segments = good.clone();
    most_segments[..4].fill(0xff);
    assert_eq!(problem(&most_segments), DecodeProblem::Segments { found: 1 << 32 });
    let mut huge_segment = good;
    huge_segment[4..8].fill(0xff);
    assert!(matches!(problem(&huge_segment), DecodeProblem::Length { .. }));
}

#[test]
fn fields_are_held_to_the_schema() {
    let long = "x".repeat(129);
    for (packet, text) in [
        (raw_request(|r| r.init_hello().set_client("")), "client has 0 bytes, wanted 1 to 128"),
        (raw_request(|r| r.init_hello().set_client(&long[..])), "client has 129 bytes, wanted 1 to 128"),
        (raw_request(|r| r.init_hello().set_client("a\nb")), "client is not free of control characters"),
        (raw_request(|mut r| r.set_cancel(&[0; 15])), "cancel has 15 bytes, wanted 16"),
        (raw_request(|mut r| r.set_acknowledge(&[])), "acknowledge has 0 bytes, wanted 16"),
        (raw_request(|mut r| r.set_find(&[])), "find has 0 bytes, wanted 1 to 64"),
        (raw_request(|mut r| r.set_find(&[0; 65])), "find has 65 bytes, wanted 1 to 64"),
        (
            raw_request(|r| {
                let mut submit = r.init_submit();
                submit.set_key(&[1]);
                submit.set_circuit("c");
                submit.set_circuit_id(&[0; 31]);
            }),
            "circuitId has 31 bytes, wanted 0 or 32",
        ),
    ] {
        let error = Request::decode(&packet).unwrap_err();
        assert_eq!((error.id, error.code()), (7, ErrorCode::Malformed));
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn text_must_be_utf8() {
    let mut packet = raw_request(|r| r.init_hello().set_client("abcd"));
    let at = packet.windows(4).position(|window| window == b"abcd").unwrap();
    packet[at] = 0xff;
    assert_eq!(problem(&packet), DecodeProblem::Text { field: "client", wanted: "UTF-8" });
}

#[test]
fn an_unknown_request_is_told_from_a_malformed_one() {
    let mut packet = Request { id: 9, body: RequestBody::Status }.encode();
    // The union's discriminant follows the root pointer (8 bytes) and the id (8 bytes).
    packet[24..26].copy_from_slice(&999u16.to_le_bytes());
    let error = Request::decode(&packet).unwrap_err();
    assert_eq!(error.problem, DecodeProblem::UnknownMessage { found: 999, version: PROTOCOL_VERSION });
    assert_eq!((error.id, error.code()), (9, ErrorCode::UnsupportedRequest));
}

/// A reply with a list of this pointer: kind 1, offset 0, the element size and count given.
fn circuits_with_list(element_size: u8, count: u32, body: &[u8]) -> Vec<u8> {
    let mut packet = Reply { id: 3, body: ReplyBody::Circuits(Vec::new()) }.encode();
    let pointer = u64::from(count) << 35 | u64::from(element_size) << 32 | 1;
    let at = packet.len() - 16; // the list pointer, then the tag word of the empty list
    packet[at..at + 8].copy_from_slice(&pointer.to_le_bytes());
    packet.truncate(at + 8);
    packet.extend_from_slice(body);
    let words = (packet.len() - 8) as u32 / 8;
    packet[4..8].copy_from_slice(&words.to_le_bytes());
    packet
}

#[test]
fn small_messages_cannot_claim_large_lists() {
    const VOID: u8 = 0;
    const BYTE: u8 = 2;
    const COMPOSITE: u8 = 7;
    // 2^29 - 1 elements of no size.
    let void = Reply::decode(&circuits_with_list(VOID, (1 << 29) - 1, &[])).unwrap_err();
    assert!(matches!(void.problem, DecodeProblem::Encoding { .. }), "{void}");
    // As many empty structs behind one tag word.
    let tag = (u64::from(u32::MAX >> 2) << 2).to_le_bytes();
    let empty = Reply::decode(&circuits_with_list(COMPOSITE, 0, &tag)).unwrap_err();
    assert!(matches!(empty.problem, DecodeProblem::Encoding { .. }), "{empty}");
    // Bytes read as structs: no more entries than the message has words.
    let bytes = Reply::decode(&circuits_with_list(BYTE, 256, &[0; 256])).unwrap_err();
    assert!(matches!(bytes.problem, DecodeProblem::ListLength { found: 256, .. }), "{bytes}");
}

#[test]
fn one_object_cannot_be_read_twice() {
    let result = JobResult {
        job: JobId([0; 16]),
        circuit: "c".into(),
        circuit_id: ContentId([1; 32]),
        key_id: ContentId([2; 32]),
        build: "b".repeat(1000),
        backend: "p".repeat(100),
        proofs: Vec::new(),
    };
    let packet = Reply { id: 0, body: ReplyBody::Result(result) }.encode();
    // Text pointers hold the length with its final zero in their upper 29 bits.
    let word_at = |index: usize| u64::from_le_bytes(packet[index * 8..][..8].try_into().unwrap());
    let pointer_to = |bytes| (0..packet.len() / 8).find(|&index| word_at(index) >> 35 == bytes).unwrap();
    let (build, backend) = (pointer_to(1001), pointer_to(101));
    // The backend is made to point at the build's long text: together they exceed what the message holds.
    let mut aliased = packet.clone();
    let pointer = word_at(build).wrapping_sub(((backend - build) as u64) << 2);
    aliased[backend * 8..][..8].copy_from_slice(&pointer.to_le_bytes());
    assert!(Reply::decode(&packet).is_ok());
    let error = Reply::decode(&aliased).unwrap_err();
    assert!(matches!(error.problem, DecodeProblem::Encoding { .. }), "{error}");
}

#[test]
fn codes_have_distinct_names_and_say_whether_to_retry() {
    let names: std::collections::HashSet<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), ErrorCode::ALL.len());
    assert_eq!(ErrorCode::Busy.retry(), Retry::Later);
    assert_eq!(ErrorCode::Draining.retry(), Retry::Reconnect);
    assert_eq!(ErrorCode::Unsatisfied.retry(), Retry::Never);
}
