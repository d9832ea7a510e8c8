# What a daemon remembers of a job beyond its own end: the entries of the job's journal, format 1. Nobody but
# cuzk-daemon reads or writes them; src/daemon/store/journal.rs tells how they lie in a memfd, which the service
# manager keeps. An entry is a length (32 bits, little-endian) and an unpacked, single-segment message.
#
# A daemon of another version reads them after an upgrade: members and fields are only ever added. A reader
# that meets a member that it does not know refuses the whole journal; a change that older readers
# must not overlook raises the journal's format.

@0xb7c1d2f6a90e4c35;

struct Entry {
  atMs @0 :UInt64;
  # When it was written, on CLOCK_BOOTTIME.
  union {
    admitted @1 :Admitted;
    # The first entry.
    submitted @2 :Submitted;
    # A partition's witness is in the store; its submitter is told so afterwards.
    began @3 :UInt32;
    # A prover has begun with this partition. What follows is `returned`, `proved` or `failed`, or the daemon died.
    returned @4 :UInt32;
    # The prover gave this partition back unproved, in good order.
    proved @5 :Proved;
    failed @6 :Data;
    # The job failed or was cancelled: a Reply of the protocol with its error.
    forgotten @7 :Void;
    # Its owner has acknowledged it, or it expired.
  }
}

struct Admitted {
  job @0 :Data;
  # 16 bytes.
  uid @1 :UInt32;
  key @2 :Data;
  # The owner's idempotency key, 1 to 64 bytes.
  circuit @3 :Text;
  circuitId @4 :Data;
  keyId @5 :Data;
  # 32 bytes each.
  partitions @6 :UInt32;
  priority @7 :UInt16;
  # As in the protocol's enumeration.
  build @8 :Text;
  # The build id of the daemon that admitted it.
  resultBytes @9 :UInt64;
  # What its results may take, as charged to its owner.
  deadlineMs @10 :UInt64;
  # How long after this entry its result is of any use; 0: for ever.
}

struct Submitted {
  partition @0 :UInt32;
  name @1 :Text;
  # Of the witness's memfd in the store.
  leased @2 :Bool;
  # A lease, whose size alone is sealed; otherwise a memfd of the client's own.
  offset @3 :UInt64;
  length @4 :UInt64;
  # Bytes of the encoded witness, and where in the memfd they begin.
  encoding @5 :UInt16;
  # As in the protocol's enumeration.
}

struct Proved {
  partition @0 :UInt32;
  result @1 :Data;
  # A Reply of the protocol with a JobResult that has this partition's proof alone.
}
