# The cuzk protocol, version 1: the reference for client authors.
#
# Transport: a SOCK_SEQPACKET Unix socket, by default /run/cuzk/cuzk.sock. One packet is one unpacked,
# single-segment Cap'n Proto message of at most 64 KiB (segment table included), with at most 16 file
# descriptors in SCM_RIGHTS. The client sends `Request`, the daemon sends `Reply`.
#
# Every request carries an id of the client's choosing; the reply, and any event before it, repeats it.
# Replies may come in any order. The first request on a connection is `hello`; anything before it, and an
# unknown version, is refused. A packet that is no valid message is answered with `malformed` (id 0 where
# the id cannot be read); the connection stays usable. An empty packet cannot be told from the end of the
# connection, and ends it.
#
# A reply that does not fit a packet comes as `attached`: descriptor 0 is a memfd, sealed
# F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, that holds the whole Reply message, with the same id.
#
# Names (of clients and circuits) are 1 to 128 bytes of UTF-8 without control characters.

@0xd4f1c07e9b3a6258;

const protocolVersion :UInt32 = 1;
const maxPacketBytes :UInt32 = 65536;
const maxDescriptors :UInt32 = 16;
const maxAttachedBytes :UInt32 = 67108864;
const maxNameBytes :UInt32 = 128;
const maxIdempotencyKeyBytes :UInt32 = 64;
const maxPartitions :UInt32 = 1024;
const maxInlineInputBytes :UInt32 = 32768;
# A result carries a proof's public inputs up to this size.

struct Request {
  id @0 :UInt64;
  union {
    hello @1 :Hello;
    circuits @2 :Void;
    # The circuits that this daemon serves.
    lease @3 :LeaseRequest;
    # Memory for one witness; waits while the daemon's memory budget is exhausted.
    release @4 :UInt64;
    # Gives a lease back (its id); one in use is given back as soon as its partition is done. A lease also
    # ends with its connection. Its memory reads as zeros from then on, unless it was the daemon's own end
    # that ended the connection: then the witness in it can be submitted to the next instance.
    submit @5 :Submit;
    await @6 :AwaitRequest;
    acknowledge @7 :Data;
    # The owner has the result of this job (its 16-byte id): the daemon may forget it.
    cancel @8 :Data;
    # Cancels a job (its id). Its partitions stop within one step; leases come back.
    status @9 :Void;
    find @10 :Data;
    # The job that this idempotency key names, answered by `accepted`: after a lost connection or a crash
    # of its own, a client learns what the daemon has before it makes a witness again.
    abandon @11 :UInt64;
    # Nobody waits any more for the reply to this connection's request of this id: if it is still to be
    # answered it no longer will be, and counts no longer. What a `submit` has begun stays begun; a lease that
    # was granted before is the client's to give back. Answered by `abandoned`, for any id.
    metrics @12 :Void;
    # What `status` counts and times, in the text format of Prometheus.
    trace @13 :TraceRequest;
    # Where the time of partitions went, as a Chrome trace.
  }
}

struct Reply {
  id @0 :UInt64;
  union {
    error @1 :Error;
    welcome @2 :Welcome;
    circuits @3 :List(CircuitInfo);
    lease @4 :Lease;
    # Descriptor 0 is the leased memfd.
    released @5 :Void;
    accepted @6 :Accepted;
    progress @7 :Progress;
    # An event: the reply to `await` is still to come.
    result @8 :JobResult;
    acknowledged @9 :Void;
    cancelled @10 :Void;
    status @11 :Status;
    attached @12 :UInt64;
    # The reply is in descriptor 0, a sealed memfd of this many bytes.
    abandoned @13 :Void;
    metrics @14 :Text;
    trace @15 :Text;
    # JSON in Chrome's trace event format.
  }
}

struct Hello {
  version @0 :UInt32;
  # The protocol version that the client speaks.
  client @1 :Text;
  # Name and version of the client program, for logs and status.
}

struct Welcome {
  version @0 :UInt32;
  build @1 :Text;
  # The daemon's build id.
  instance @2 :Data;
  # 16 bytes, new for each start of the daemon: tells a restart from a reconnection.
}

enum WitnessEncoding {
  # z = (1, public inputs, auxiliary), without a header.
  canonical @0;
  # 32 bytes each, little-endian integers below r.
  montgomery @1;
  # 32 bytes each, little-endian limbs of value * 2^256 mod r.
  packed @2;
  # Blocks of bits, small and whole values; docs/packed-witness.md.
}

enum KeyTier {
  notLoaded @0;
  loading @1;
  host @2;
  # In the host's memory, and on no device.
  failed @3;
  device @4;
  # Also on a device.
}

struct CircuitInfo {
  name @0 :Text;
  circuitId @1 :Data;
  # 32 bytes: BLAKE3 of the compiled circuit. Empty until loaded.
  keyId @2 :Data;
  # 32 bytes: BLAKE3 of the key file. Empty until loaded.
  publicInputs @3 :UInt64;
  # Without the leading 1.
  auxiliary @4 :UInt64;
  constraints @5 :UInt64;
  domainLog2 @6 :UInt32;
  tier @7 :KeyTier;
  problem @8 :Text;
  # Why the circuit cannot be served; empty where it can.
  references @9 :UInt32;
  # Leases, jobs and proofs that hold it: while there are any it makes room for nobody.
  keyBytes @10 :UInt64;
  circuitBytes @11 :UInt64;
  # What they take of the memory budget; 0 until loaded.
}

struct LeaseRequest {
  circuit @0 :Text;
  wait @1 :Bool;
  # False: answer `busy` at once where memory is short.
  priority @2 :Priority = normal;
  # Of the job that the witness is for. Those who wait are served by priority; within one, users take turns.
}

struct Lease {
  id @0 :UInt64;
  bytes @1 :UInt64;
  # 32 * (1 + public inputs + auxiliary): the size of the memfd, rounded up to whole pages there.
  publicInputs @2 :UInt64;
  auxiliary @3 :UInt64;
  circuitId @4 :Data;
}

enum Priority {
  low @0;
  normal @1;
  high @2;
  critical @3;
}

struct Submit {
  # One partition of a job. The first submit with a key makes the job; the same key, from the same user,
  # names the same job ever after, and a partition submitted twice is answered like the first time.
  key @0 :Data;
  # The caller's idempotency key, 1 to 64 bytes.
  circuit @1 :Text;
  circuitId @2 :Data;
  # What the client compiled its witness for; empty: whatever the daemon has.
  partition @3 :UInt32;
  partitions @4 :UInt32;
  # 0-based index and number of partitions of the job, which every partition repeats.
  priority @5 :Priority;
  encoding @6 :WitnessEncoding;
  witness :union {
    lease @7 :UInt64;
    # A lease of this connection. It is in use until the partition's proof is verified (or failed or
    # cancelled), then free for the next witness.
    memfd @8 :MemfdRange;
    # Descriptor 0: a memfd of the client's own, sealed F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE.
  }
  length @9 :UInt64;
  # Bytes of the encoded witness. Canonical and montgomery: exactly 32 * (1 + public inputs + auxiliary).
  deadlineMs @10 :UInt64;
  # How long after its first partition is accepted the job's result is of any use; 0: for ever. A job that
  # is not done by then fails with `deadlineExceeded`. Among jobs of one priority and user the earlier deadline
  # goes first. The job's first partition to be accepted says it for all.
}

struct MemfdRange {
  offset @0 :UInt64;
  # Where the witness begins; a multiple of the page size.
}

struct Accepted {
  # The partition is the daemon's from now on. Where the service manager keeps descriptors for it, that holds over a
  # crash, a restart and an upgrade of the daemon, too: connect again, and `find` or `await` the same job.
  job @0 :Data;
  # 16 bytes.
  missing @1 :UInt32;
  # Partitions still to be submitted.
}

struct AwaitRequest {
  job @0 :Data;
  progress @1 :Bool;
  # True: first a `progress` event for each partition with its present state (`missing` ones are to be
  # submitted), then one for each change of state or stage.
}

enum PartitionState {
  missing @0;
  queued @1;
  running @2;
  proved @3;
  failed @4;
  cancelled @5;
}

struct Progress {
  job @0 :Data;
  partition @1 :UInt32;
  state @2 :PartitionState;
  stage @3 :Text;
  # While running: the stage of the proof; see Span.
}

struct JobResult {
  job @0 :Data;
  circuit @1 :Text;
  circuitId @2 :Data;
  keyId @3 :Data;
  build @4 :Text;
  backend @5 :Text;
  # Which prover made the proofs, e.g. "cpu".
  proofs @6 :List(PartitionProof);
  # In the order of the partitions.
}

struct PartitionProof {
  proof @0 :Data;
  # a || b || c, compressed as in bellman: 48 + 96 + 48 bytes.
  publicInputsHash @1 :Data;
  # 32 bytes: BLAKE3 of the public inputs (without the leading 1), 32-byte little-endian each.
  publicInputs @2 :Data;
  # The inputs themselves, 32-byte little-endian each; empty where they exceed maxInlineInputBytes.
  attempts @3 :UInt32;
  # 1, or 2 after a failed self-check.
  timeline @4 :List(Span);
}

struct Span {
  stage @0 :Text;
  # lease (waiting for memory), witness (the client has it and writes), queued, pin (its pages are locked for the
  # device), slot (waiting for the device), key (its way to the device), copy, evaluate, quotient, msm_h, msm_l,
  # msm_a, msm_b1, msm_b2, wipe, assemble, verify.
  startNs @1 :UInt64;
  # Since the partition was submitted; since its memory was asked for, where it is its lease's first.
  durationNs @2 :UInt64;
}

struct Error {
  code @0 :ErrorCode;
  message @1 :Text;
  # One sentence that names the thing, the value found and the value wanted.
  retry @2 :Retry;
  retryAfterMs @3 :UInt32;
  # A hint; 0: none.
  index @4 :UInt64;
  # notCanonical: the value's index in z. unsatisfied: the first unsatisfied constraint. Otherwise 0.
  partition @5 :UInt32;
  # The partition at fault, for errors that answer `await`.
  queueLength @6 :UInt32;
  # Partitions that wait for a prover, where that is why.
}

enum Retry {
  never @0;
  # The same request will fail again.
  later @1;
  # The same request may succeed later.
  reconnect @2;
  # Reconnect (the daemon is restarting), then retry.
}

enum ErrorCode {
  internal @0;
  malformed @1;
  # The packet is no valid message, or a field is outside what this file allows.
  unsupportedVersion @2;
  helloExpected @3;
  unsupportedRequest @4;
  tooManyDescriptors @5;
  controlTruncated @6;
  # The kernel truncated the control data: descriptors were lost.
  descriptorMissing @7;
  descriptorUnexpected @8;
  permissionDenied @9;
  quotaExceeded @10;
  busy @11;
  # Memory is short, or there are as many jobs as are allowed: later.
  draining @12;
  unknownCircuit @13;
  circuitUnavailable @14;
  # Configured, but its key or circuit could not be loaded; the message says why.
  circuitChanged @15;
  # `circuitId` is not the one the daemon has.
  neverFits @16;
  # Needs more memory than the budget has in all.
  unknownLease @17;
  leaseInUse @18;
  notMemfd @19;
  sealMissing @20;
  witnessShort @21;
  # The memfd or the length is smaller than the witness must be.
  witnessOversized @22;
  offsetInvalid @23;
  # Unaligned, or offset + length overflows or passes the end.
  witnessLength @24;
  notCanonical @25;
  firstNotOne @26;
  packedInvalid @27;
  unsatisfied @28;
  selfCheckFailed @29;
  # The proof did not verify, twice, and the witness is not known to be at fault.
  keyConflict @30;
  # The idempotency key names a job with another circuit, number of partitions or priority.
  partitionInvalid @31;
  unknownJob @32;
  jobCancelled @33;
  deviceMemory @34;
  # A device ran out of memory in the middle of a proof.
  jobLost @35;
  # `await`: the job's id is from before the daemon's start, and the daemon has no such job: it was lost with the one before,
  # or had been acknowledged or had expired. Submitting it again is safe: its idempotency key is free.
  daemonDied @36;
  # The daemon died, again and again, while it was proving a partition of this job, in the end while it was proving
  # nothing else. It is not tried once more.
  deadlineExceeded @37;
  # The job was not done in the time that its owner gave it.
}

struct TraceRequest {
  job @0 :Data;
  # The partitions of this job; empty: of any.
  last @1 :UInt32;
  # At most so many, those that ended last; 0: as many as the daemon remembers.
}

struct Status {
  build @0 :Text;
  pid @1 :UInt32;
  uptimeMs @2 :UInt64;
  state @3 :DaemonState;
  backends @4 :List(BackendStatus);
  memory @5 :MemoryStatus;
  circuits @6 :List(CircuitInfo);
  jobs @7 :List(JobStatus);
  counters @8 :Counters;
  connections @9 :UInt32;
  message @10 :Text;
  # The last line of STATUS=, e.g. why a reload was refused.
  omittedJobs @11 :UInt32;
  # Jobs that are not among `jobs`, which has at most 65,536 partitions: unfinished jobs come first there,
  # oldest first, then finished ones, newest first.
  queues @12 :List(QueueStatus);
  # Of those that are not empty, the most urgent first.
  buffers @13 :List(StageBuffers);
  # Witness buffers in flight, by what is done with them.
}

struct QueueStatus {
  priority @0 :Priority;
  partitions @1 :UInt32;
  users @2 :UInt32;
  # How many users they belong to.
  oldestMs @3 :UInt64;
  # How long the one that has waited longest has waited.
}

struct StageBuffers {
  stage @0 :Text;
  # witness (the client has it), queued, or the stage of the proof.
  buffers @1 :UInt32;
  bytes @2 :UInt64;
}

enum DaemonState {
  loading @0;
  ready @1;
  draining @2;
}

struct BackendStatus {
  name @0 :Text;
  # "cpu", or "cuda:" and the first digits of the device's UUID.
  why @1 :Text;
  # Why this backend and no other, e.g. "built without cuda"; for one that proves nothing: why it does not.
  running @2 :UInt32;
  state @3 :BackendState;
  retries @4 :UInt64;
  # Its proofs that did not verify and were made again.
  device @5 :Text;
  # Model, UUID and PCI address; empty for the CPU.
  memoryBytes @6 :UInt64;
  # The device's memory that is taken, and what circuits and keys keep of it.
  memoryKept @7 :UInt64;
  circuits @8 :List(Text);
  # Names of the circuits that are on the device.
  slots @9 :UInt32;
  # Partitions that it takes on at once: one is computed, the others are made ready or brought to their end.
  busyNs @10 :UInt64;
  # Time, since its start, in which it computed or copied.
  idle @11 :IdleTimes;
  current @12 :List(CurrentPartition);
}

struct IdleTimes {
  # The rest of the time, in nanoseconds, by what was missing.
  noWork @0 :UInt64;
  witness @1 :UInt64;
  # Clients held memory and had not submitted.
  memory @2 :UInt64;
  # Requests waited for memory.
  key @3 :UInt64;
  # A circuit was being loaded.
  epilogue @4 :UInt64;
  # Partitions were being made ready, assembled or verified on the host, and no slot was free for another.
}

struct CurrentPartition {
  job @0 :Data;
  partition @1 :UInt32;
  circuit @2 :Text;
  stage @3 :Text;
  runningMs @4 :UInt64;
  # Since it left the queue.
}

enum BackendState {
  ready @0;
  quarantined @1;
  # It could not be used at the start, or did not give the known answer; nothing is proved on it.
  lost @2;
  # The device failed for good: the daemon is about to end.
}

struct MemoryStatus {
  totalBytes @0 :UInt64;
  usedBytes @1 :UInt64;
  leases @2 :UInt64;
  keys @3 :UInt64;
  circuits @4 :UInt64;
  working @5 :UInt64;
  # Provers' own vectors.
  waiting @6 :UInt32;
  # Requests waiting for memory.
  peakBytes @7 :UInt64;
  # The most that was ever used.
  lockedBytes @8 :UInt64;
  # Of the used ones, what is locked for devices to copy from.
  residentBytes @9 :UInt64;
  peakResidentBytes @10 :UInt64;
  # What the kernel counts as the process's own, now and at most: less where keys are in files.
}

struct JobStatus {
  job @0 :Data;
  uid @1 :UInt32;
  circuit @2 :Text;
  priority @3 :Priority;
  ageMs @4 :UInt64;
  partitions @5 :List(PartitionStatus);
}

struct PartitionStatus {
  state @0 :PartitionState;
  stage @1 :Text;
}

struct Counters {
  submitted @0 :UInt64;
  proved @1 :UInt64;
  failed @2 :UInt64;
  cancelled @3 :UInt64;
  selfCheckRetries @4 :UInt64;
  refused @5 :UInt64;
}
