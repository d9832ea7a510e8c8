//! The table's promises: idempotency, states, verdicts, cancelling, expiry, and that nothing stays behind.
use super::*;
use crate::daemon::config::Config;
use crate::daemon::store::{Record, StoredWitness};
use crate::daemon::users::{Countable, Users};
use crate::proto::{Priority, WitnessSource};
use crate::r1cs::WitnessEncoding;

const TTL: Duration = Duration::from_secs(60);

impl Release for u32 {
    fn num_bytes(&self) -> u64 {
        64
    }

    fn release(&mut self) {}
}

/// A table whose circuits are names and whose witnesses are numbers.
struct Bench {
    table: JobTable<&'static str, u32>,
    users: Users,
    now: Instant,
}

fn submit(key: &[u8], partition: u32, partitions: u32) -> Submit {
    Submit {
        key: IdempotencyKey::new(key).unwrap(),
        circuit: "spend".into(),
        circuit_id: None,
        partition,
        partitions,
        priority: Priority::Normal,
        encoding: WitnessEncoding::Canonical,
        witness: WitnessSource::Lease(1),
        length: 64,
        deadline: None,
    }
}

fn proof(byte: u8) -> PartitionProof {
    PartitionProof {
        proof: [byte; 192],
        public_inputs_hash: ContentId([byte; 32]),
        public_inputs: Vec::new(),
        attempts: 1,
        timeline: Vec::new(),
    }
}

fn failure(code: ErrorCode) -> Outcome {
    Outcome::Failed(ProtocolError::new(code, "for a test"))
}

impl Bench {
    fn new() -> Self {
        let limits = crate::daemon::config::Limits { jobs_per_uid: 3, ..Config::default().limits };
        Self { table: JobTable::new(), users: Users::new(limits), now: Instant::now() }
    }

    fn admit(&mut self, uid: u32, submit: &Submit, witness: u32) -> Result<Accepted, ProtocolError> {
        self.admit_checked(uid, submit, witness, ContentId([1; 32]))
    }

    /// The same with a witness that was checked against this circuit.
    fn admit_checked(
        &mut self,
        uid: u32,
        submit: &Submit,
        witness: u32,
        circuit_id: ContentId,
    ) -> Result<Accepted, ProtocolError> {
        let key_id = ContentId([2; 32]);
        let arrival = Arrival { uid, submit, circuit: "spend", circuit_id, key_id, witness };
        self.table.admit(arrival, || Ok(self.users.charge(uid, Countable::Job(1))?), self.now)
    }

    fn next(&mut self) -> Task<&'static str, u32> {
        self.table.next(self.now, Duration::ZERO, |_| false).expect("a partition waits")
    }

    fn complete(&mut self, task: &Task<&'static str, u32>, outcome: Outcome) {
        self.table.complete(task.job, task.partition, outcome, "cpu", self.now);
    }

    fn states(&mut self, uid: u32, job: JobId) -> Vec<PartitionState> {
        self.table.view(uid, job).unwrap().partitions.iter().map(|p| p.0).collect()
    }

    fn verdict(&mut self, uid: u32, job: JobId) -> Option<Verdict> {
        self.table.view(uid, job).unwrap().verdict
    }

    fn failed_with(&mut self, uid: u32, job: JobId) -> ErrorCode {
        self.verdict(uid, job).unwrap().unwrap_err().code
    }
}

#[test]
fn a_job_of_three_partitions_from_first_to_last() {
    let mut bench = Bench::new();
    let mut accepted = Vec::new();
    for partition in [2, 0, 1] {
        accepted.push(bench.admit(7, &submit(b"k", partition, 3), partition).unwrap());
    }
    let job = accepted[0].job;
    assert!(accepted.iter().all(|a| a.job == job));
    assert_eq!(accepted.iter().map(|a| a.missing).collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!(bench.states(7, job), [PartitionState::Queued; 3]);
    drop(bench.table.take_discarded());

    for partition in [2, 0, 1] {
        assert!(bench.verdict(7, job).is_none());
        let task = bench.next();
        assert_eq!(
            (task.job, task.partition, task.witness, task.circuit),
            (job, partition, partition, "spend")
        );
        bench.table.stage(job, partition, "evaluate");
        let view = bench.table.view(7, job).unwrap();
        assert_eq!(view.partitions[partition as usize], (PartitionState::Running, "evaluate"));
        bench.complete(&task, Outcome::Proved(proof(partition as u8)));
    }
    let result = bench.verdict(7, job).unwrap().unwrap();
    assert_eq!(result.proofs, [proof(0), proof(1), proof(2)], "in the order of the partitions");
    assert_eq!((&result.circuit[..], &result.backend[..]), ("spend", "cpu"));
    assert_eq!((result.circuit_id, result.key_id), (ContentId([1; 32]), ContentId([2; 32])));
    assert_eq!(bench.states(7, job), [PartitionState::Proved; 3]);
    assert_eq!(bench.table.take_discarded().0, ["spend"], "a result does not hold its circuit");

    bench.table.acknowledge(7, job).unwrap();
    assert_eq!(bench.table.view(7, job).err().unwrap().code, ErrorCode::UnknownJob);
    assert!(bench.table.statuses(usize::MAX, bench.now).0.is_empty());
    let counters = bench.table.counters();
    assert_eq!((counters.submitted, counters.proved, counters.failed, counters.cancelled), (3, 3, 0, 0));
}

#[test]
fn the_same_key_is_the_same_job() {
    let mut bench = Bench::new();
    let first = bench.admit(7, &submit(b"k", 0, 2), 1).unwrap();
    let again = bench.admit(7, &submit(b"k", 0, 2), 2).unwrap();
    assert_eq!(first, again);
    assert_eq!(bench.table.take_discarded().1, [2], "the second witness is not taken");
    assert_eq!(bench.table.find(7, &IdempotencyKey::new(b"k").unwrap()).unwrap(), first);
    let task = bench.next();
    assert_eq!(task.witness, 1);
    assert!(bench.table.next(bench.now, Duration::ZERO, |_| false).is_none());
    assert!(matches!(bench.table.lookup(7, &submit(b"k", 0, 2)), Ok(Known::Partition(a)) if a == first));
    assert!(matches!(bench.table.lookup(7, &submit(b"k", 1, 2)), Ok(Known::Job(Some("spend")))));
    assert!(matches!(bench.table.lookup(7, &submit(b"l", 0, 2)), Ok(Known::Nothing)));

    let other = bench.admit(8, &submit(b"k", 0, 2), 3).unwrap();
    assert_ne!(first.job, other.job, "keys are scoped to the user");
    assert_eq!(bench.table.counters().submitted, 2);
}

#[test]
fn conflicts_name_what_differs() {
    let mut bench = Bench::new();
    bench.admit(7, &submit(b"k", 0, 2), 1).unwrap();
    for (changed, needle) in [
        (Submit { circuit: "output".into(), ..submit(b"k", 1, 2) }, "circuit spend, found output"),
        (Submit { circuit_id: Some(ContentId([9; 32])), ..submit(b"k", 1, 2) }, "circuit id"),
        (submit(b"k", 1, 3), "number of partitions 2, found 3"),
        (Submit { priority: Priority::High, ..submit(b"k", 0, 2) }, "priority normal, found high"),
    ] {
        let error = bench.admit(7, &changed, 2).unwrap_err();
        assert_eq!(error.code, ErrorCode::KeyConflict);
        assert!(error.message.contains(needle), "{error}");
    }
    assert!(
        bench.admit(7, &Submit { circuit_id: Some(ContentId([1; 32])), ..submit(b"k", 1, 2) }, 2).is_ok()
    );
    for (partition, partitions, needle) in [
        (0, 0, "0 partitions"),
        (2, 2, "partition 2 of 2"),
        (0, 1025, "1025 partitions"),
        (u32::MAX, 3, "of 3"),
    ] {
        let error = bench.admit(7, &submit(b"new", partition, partitions), 3).unwrap_err();
        assert_eq!(error.code, ErrorCode::PartitionInvalid);
        assert!(error.message.contains(needle), "{error}");
    }
    assert_eq!(bench.table.statuses(usize::MAX, bench.now).0.len(), 1);
}

#[test]
fn a_failed_partition_fails_its_job_at_once() {
    let mut bench = Bench::new();
    let job = bench.admit(7, &submit(b"k", 0, 4), 0).unwrap().job;
    for partition in 1..3 {
        bench.admit(7, &submit(b"k", partition, 4), partition).unwrap();
    }
    let (first, second) = (bench.next(), bench.next());
    bench.complete(&first, failure(ErrorCode::Unsatisfied));
    let verdict = bench.verdict(7, job).unwrap().unwrap_err();
    assert_eq!((verdict.code, verdict.partition), (ErrorCode::Unsatisfied, 0));
    assert!(second.cancel.is_cancelled());
    use PartitionState::*;
    assert_eq!(bench.states(7, job), [Failed, Running, Cancelled, Missing]);
    assert_eq!(bench.table.take_discarded().1, [2], "the queued partition's witness comes back");
    assert!(!bench.table.has_work());

    bench.complete(&second, Outcome::Proved(proof(1)));
    assert_eq!(bench.states(7, job), [Failed, Cancelled, Cancelled, Missing]);
    assert_eq!(bench.failed_with(7, job), ErrorCode::Unsatisfied, "the first failure stays");
    assert_eq!(bench.admit(7, &submit(b"k", 3, 4), 3).unwrap_err().code, ErrorCode::Unsatisfied);
    assert!(bench.admit(7, &submit(b"k", 2, 4), 3).is_ok(), "answered like the first time");
    let counters = bench.table.counters();
    assert_eq!((counters.submitted, counters.proved, counters.failed, counters.cancelled), (3, 0, 1, 2));
}

#[test]
fn cancelling_wins_whatever_it_races_with() {
    let mut bench = Bench::new();
    let job = bench.admit(7, &submit(b"k", 0, 2), 0).unwrap().job;
    bench.admit(7, &submit(b"k", 1, 2), 1).unwrap();
    let task = bench.next();
    assert_eq!(bench.table.cancel(8, job, bench.now).unwrap_err().code, ErrorCode::UnknownJob);
    assert!(bench.table.cancel(7, job, bench.now).unwrap().is_some(), "it is logged");
    assert!(bench.table.cancel(7, job, bench.now).unwrap().is_none(), "once");
    assert!(task.cancel.is_cancelled());
    assert_eq!(bench.failed_with(7, job), ErrorCode::JobCancelled);
    assert_eq!(bench.table.take_discarded().1, [1]);
    assert_eq!(bench.states(7, job), [PartitionState::Running, PartitionState::Cancelled]);
    bench.complete(&task, Outcome::Proved(proof(0)));
    assert_eq!(bench.states(7, job), [PartitionState::Cancelled; 2]);
    assert_eq!(bench.failed_with(7, job), ErrorCode::JobCancelled);

    let done = bench.admit(7, &submit(b"l", 0, 1), 0).unwrap().job;
    let task = bench.next();
    bench.complete(&task, Outcome::Proved(proof(0)));
    bench.table.cancel(7, done, bench.now).unwrap();
    assert_eq!(bench.failed_with(7, done), ErrorCode::JobCancelled, "a result that was there is dropped");
}

#[test]
fn a_cancelled_job_may_be_forgotten_while_its_last_step_runs() {
    let mut bench = Bench::new();
    let job = bench.admit(7, &submit(b"k", 0, 1), 0).unwrap().job;
    let task = bench.next();
    assert_eq!(bench.table.acknowledge(7, job).unwrap_err().code, ErrorCode::Busy);
    bench.table.cancel(7, job, bench.now).unwrap();
    bench.table.acknowledge(7, job).unwrap();
    bench.complete(&task, Outcome::Cancelled);
    assert_eq!(bench.table.counters().cancelled, 1);
    assert!(bench.admit(7, &submit(b"k", 0, 1), 0).is_ok(), "the key is free again");
}

#[test]
fn stopping_leaves_no_verdict() {
    let mut bench = Bench::new();
    let job = bench.admit(7, &submit(b"k", 0, 1), 0).unwrap().job;
    let task = bench.next();
    bench.complete(&task, Outcome::Cancelled);
    assert!(bench.verdict(7, job).is_none());
}

#[test]
fn jobs_are_their_owners_alone() {
    let mut bench = Bench::new();
    let job = bench.admit(7, &submit(b"k", 0, 1), 0).unwrap().job;
    let codes = [
        bench.table.view(8, job).err().unwrap().code,
        bench.table.watch(8, job).err().unwrap().code,
        bench.table.acknowledge(8, job).unwrap_err().code,
        bench.table.find(8, &IdempotencyKey::new(b"k").unwrap()).unwrap_err().code,
    ];
    assert_eq!(codes, [ErrorCode::UnknownJob; 4]);
}

#[test]
fn results_and_incomplete_jobs_expire_but_active_ones_do_not() {
    let mut bench = Bench::new();
    let done = bench.admit(7, &submit(b"done", 0, 1), 0).unwrap().job;
    let task = bench.next();
    bench.complete(&task, Outcome::Proved(proof(0)));
    let running = bench.admit(7, &submit(b"running", 0, 2), 0).unwrap().job;
    let task = bench.next();
    let queued = bench.admit(7, &submit(b"queued", 0, 2), 0).unwrap().job;

    bench.table.expire(bench.now + TTL - Duration::from_millis(1), TTL);
    assert_eq!(bench.table.statuses(usize::MAX, bench.now).0.len(), 3);
    bench.table.expire(bench.now + TTL, TTL);
    assert!(bench.table.view(7, done).is_err());
    assert!(bench.table.view(7, running).is_ok() && bench.table.view(7, queued).is_ok());

    bench.now += TTL;
    bench.complete(&task, Outcome::Proved(proof(0)));
    bench.table.expire(bench.now + TTL - Duration::from_millis(1), TTL);
    assert!(bench.table.view(7, running).is_ok(), "its time starts anew with each change");
    bench.table.expire(bench.now + TTL, TTL);
    assert!(bench.table.view(7, running).is_err(), "its second partition never came");
    assert!(bench.table.view(7, queued).is_ok());
}

#[test]
fn a_status_lists_unfinished_jobs_first_and_has_an_end() {
    let mut bench = Bench::new();
    let done: Vec<_> = [b"a", b"b"]
        .map(|key| {
            let job = bench.admit(7, &submit(key, 0, 1), 0).unwrap().job;
            let task = bench.next();
            bench.complete(&task, Outcome::Proved(proof(0)));
            job
        })
        .into();
    let open: Vec<_> = [b"c", b"d"].map(|key| bench.admit(8, &submit(key, 0, 3), 0).unwrap().job).into();
    for (most, listed) in [
        (8, vec![open[0], open[1], done[1], done[0]]),
        (7, vec![open[0], open[1], done[1]]),
        (5, vec![open[0]]),
        (2, vec![]),
    ] {
        let (jobs, omitted) = bench.table.statuses(most, bench.now);
        assert_eq!(jobs.iter().map(|job| job.job).collect::<Vec<_>>(), listed, "{most}");
        assert_eq!(omitted as usize, 4 - listed.len());
    }
}

#[test]
fn quotas_count_jobs_until_they_are_forgotten() {
    let mut bench = Bench::new();
    let jobs: Vec<_> = (0..3u8).map(|i| bench.admit(7, &submit(&[i], 0, 2), i.into()).unwrap().job).collect();
    let refused = bench.admit(7, &submit(b"more", 0, 2), 9).unwrap_err();
    assert_eq!(refused.code, ErrorCode::QuotaExceeded);
    assert_eq!(bench.table.take_discarded().1, [9]);
    assert!(bench.admit(7, &submit(&[0], 1, 2), 3).is_ok(), "a further partition is no further job");
    bench.table.cancel(7, jobs[2], bench.now).unwrap();
    assert!(bench.admit(7, &submit(b"more", 0, 2), 9).is_err());
    bench.table.acknowledge(7, jobs[2]).unwrap();
    assert!(bench.admit(7, &submit(b"more", 0, 2), 9).is_ok());
}

#[test]
fn watchers_learn_of_every_change_and_of_the_end() {
    let mut bench = Bench::new();
    let job = bench.admit(7, &submit(b"k", 0, 1), 0).unwrap().job;
    let mut watch = bench.table.watch(7, job).unwrap();
    let mut changed = || {
        let seen = watch.has_changed();
        watch.mark_unchanged();
        seen.ok()
    };
    assert_eq!(changed(), Some(false));
    let task = bench.next();
    assert_eq!(changed(), Some(true));
    bench.table.stage(job, 0, "copy");
    assert_eq!(changed(), Some(true));
    bench.complete(&task, Outcome::Proved(proof(0)));
    assert_eq!(changed(), Some(true));
    bench.table.wake_watchers();
    assert_eq!(changed(), Some(true));
    bench.table.acknowledge(7, job).unwrap();
    assert_eq!(changed(), None);
}

#[test]
fn a_witness_checked_for_another_circuit_does_not_enter_a_job() {
    let mut bench = Bench::new();
    bench.admit(7, &submit(b"k", 0, 2), 5).unwrap();
    let refusal = bench.admit_checked(7, &submit(b"k", 1, 2), 6, ContentId([9; 32])).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::CircuitChanged);
    assert_eq!(bench.table.take_discarded().1, [6]);
    assert!(bench.admit(7, &submit(b"k", 1, 2), 7).is_ok());
}

/// A keeper that nobody answers: the table never waits for one.
fn keeper(dir: &tempfile::TempDir) -> crate::daemon::store::Keeper {
    let manager = crate::daemon::store::ServiceManager::at(dir.path().join("nobody").as_os_str()).unwrap();
    crate::daemon::store::Keeper::start(manager, ["cuzk-probe".to_owned()]).unwrap()
}

impl Bench {
    fn begin(&mut self, dir: &tempfile::TempDir, key: &[u8], partition: u32) -> Result<Begun, ProtocolError> {
        let request = submit(key, partition, 2);
        let (circuit_id, key_id) = (ContentId([1; 32]), ContentId([2; 32]));
        let arrival = Arrival { uid: 7, submit: &request, circuit: "spend", circuit_id, key_id, witness: 0 };
        let charge = || Ok(self.users.charge(7, Countable::Job(1))?);
        self.table.begin(&arrival, charge, |admitted| Record::new(admitted, keeper(dir)), self.now)
    }

    fn place(&mut self, dir: &tempfile::TempDir, key: &[u8], partition: u32) -> Place {
        match self.begin(dir, key, partition) {
            Ok(Begun::Place(place)) => place,
            _ => panic!("there is a place"),
        }
    }
}

fn stored(name: &str) -> Option<StoredWitness> {
    let encoding = WitnessEncoding::Canonical;
    Some(StoredWitness { name: name.into(), leased: true, offset: 0, length: 64, encoding })
}

#[test]
fn a_partition_is_proved_once_it_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    let place = bench.place(&dir, b"k", 0);
    assert!(!bench.table.has_work() && bench.table.next(bench.now, Duration::ZERO, |_| false).is_none());
    // Whoever submits it again waits for the first.
    assert!(matches!(bench.table.lookup(7, &submit(b"k", 0, 2)), Ok(Known::Arriving(_))));
    assert!(matches!(bench.begin(&dir, b"k", 0), Ok(Begun::Arriving)));
    let second = bench.place(&dir, b"k", 1);
    assert_eq!((second.job, &second.journal.0), (place.job, &place.journal.0));
    let accepted = bench.table.confirm(place.job, 0, "spend", 5, stored("a"), bench.now).unwrap();
    assert_eq!(accepted, Accepted { job: place.job, missing: 0 });
    let task = bench.next();
    assert_eq!((task.partition, task.witness), (0, 5));
    // The second could not be stored; the job goes on without it.
    bench.table.withdraw(place.job, 1, bench.now);
    assert_eq!(bench.states(7, place.job), [PartitionState::Running, PartitionState::Missing]);
}

#[test]
fn a_job_that_could_not_be_stored_was_never_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    for _ in 0..10 {
        // More than the user may have at once.
        let place = bench.place(&dir, b"k", 0);
        bench.table.withdraw(place.job, 0, bench.now);
        assert!(!bench.table.has(place.job));
    }
    // One that is cancelled on its way is refused when it arrives.
    let place = bench.place(&dir, b"k", 0);
    bench.table.cancel(7, place.job, bench.now).unwrap();
    let refusal = bench.table.confirm(place.job, 0, "spend", 5, stored("a"), bench.now).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::JobCancelled);
    bench.table.acknowledge(7, place.job).unwrap();
    let refusal = bench.table.confirm(place.job, 0, "spend", 5, stored("a"), bench.now).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::UnknownJob);
    assert_eq!(bench.table.take_discarded().1, [5, 5]);
}

#[test]
fn a_suspect_is_proved_alone_and_first() {
    use crate::daemon::store::tests::left;
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    for (key, suspects) in [(b"a", vec![]), (b"b", vec![0]), (b"c", vec![])] {
        let (story, record) = left(key, keeper(&dir));
        let (id, charge) = (story.admitted.job, bench.users.charge(7, Countable::Job(1)).unwrap());
        assert!(bench.table.restore(story, record, suspects, charge, (bench.now, bench.now)).is_ok());
        assert_eq!(bench.states(7, id), [PartitionState::Queued], "though its circuit is not there yet");
        bench.table.confirm(id, 0, "spend", key[0].into(), None, bench.now).unwrap();
    }
    let suspect = bench.next();
    assert_eq!(suspect.witness, u32::from(b'b'));
    assert!(
        !bench.table.has_work() && bench.table.next(bench.now, Duration::ZERO, |_| false).is_none(),
        "nothing runs beside it"
    );
    bench.complete(&suspect, failure(ErrorCode::Unsatisfied));
    let (one, other) = (bench.next(), bench.next());
    assert_eq!((one.witness, other.witness), (u32::from(b'a'), u32::from(b'c')));
    // One that comes while others run waits for their end, and nothing is begun before it.
    let (story, record) = left(b"d", keeper(&dir));
    let (id, charge) = (story.admitted.job, bench.users.charge_anyway(7, Countable::Job(1)));
    assert!(bench.table.restore(story, record, vec![0], charge, (bench.now, bench.now)).is_ok());
    bench.table.confirm(id, 0, "spend", 9, None, bench.now).unwrap();
    assert!(bench.table.next(bench.now, Duration::ZERO, |_| false).is_none());
    bench.complete(&one, failure(ErrorCode::Unsatisfied));
    assert!(!bench.table.has_work());
    bench.complete(&other, failure(ErrorCode::Unsatisfied));
    assert_eq!(bench.next().witness, 9);
}

#[test]
fn a_job_is_restored_once() {
    use crate::daemon::store::tests::left;
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    for again in [false, true] {
        let (story, record) = left(b"k", keeper(&dir));
        let charge = bench.users.charge_anyway(7, Countable::Job(1));
        let restored = bench.table.restore(story, record, Vec::new(), charge, (bench.now, bench.now));
        assert_eq!(restored.is_err(), again, "its key names a job already");
    }
    assert_eq!(bench.table.count(), (1, 0));
}

#[test]
fn a_partition_that_made_way_is_the_next_of_its_priority() {
    let mut bench = Bench::new();
    for (key, witness) in [(b"a", 1), (b"b", 2)] {
        bench.admit(7, &submit(key, 0, 1), witness).unwrap();
    }
    let first = bench.next();
    let (job, submitted) = (first.job, first.submitted);
    bench.now += Duration::from_secs(1);
    bench.table.requeue(first, bench.now);
    assert_eq!(bench.states(7, job), [PartitionState::Queued]);
    assert_eq!(bench.table.buffers()["queued"], (2, 128));
    let again = bench.next();
    assert_eq!((again.job, again.witness, again.submitted), (job, 1, submitted));
    bench.complete(&again, Outcome::Proved(proof(1)));
    assert!(bench.verdict(7, job).unwrap().is_ok());

    let other = bench.next();
    let job = other.job;
    bench.table.cancel(7, job, bench.now).unwrap();
    bench.table.requeue(other, bench.now);
    assert_eq!(bench.states(7, job), [PartitionState::Cancelled], "its job has ended meanwhile");
    assert!(!bench.table.has_work());
}

#[test]
fn a_suspect_that_made_way_stays_one() {
    let mut backlog = super::backlog::Backlog::default();
    let now = Instant::now();
    let rank = crate::daemon::queue::Rank { priority: Priority::Normal, uid: 7, since: now, deadline: None };
    let [suspect, other] = [JobId([1; 16]), JobId([2; 16])].map(|job| (job, 0));
    backlog.push(rank, suspect, true);
    backlog.push(rank, other, false);
    let pop = |backlog: &mut super::backlog::Backlog| backlog.pop(now, Duration::ZERO, |_| false);
    assert_eq!(pop(&mut backlog), Some(suspect));
    backlog.began(true);
    assert!(!backlog.has_work(), "it is alone");
    backlog.ended();
    backlog.push_front(rank, suspect, true);
    assert_eq!((pop(&mut backlog), backlog.len()), (Some(suspect), 1));
    backlog.began(true);
    backlog.ended();
    assert!(backlog.has_work() && pop(&mut backlog) == Some(other));
}

#[test]
fn a_job_that_misses_its_deadline_fails() {
    let mut bench = Bench::new();
    let deadline = Some(Duration::from_secs(5));
    let job = bench.admit(7, &Submit { deadline, ..submit(b"late", 0, 2) }, 1).unwrap().job;
    bench.admit(7, &Submit { deadline: None, ..submit(b"late", 1, 2) }, 2).unwrap();
    let running = bench.next();
    bench.now += Duration::from_secs(4);
    assert!(bench.table.end_overdue(bench.now).is_empty());
    bench.now += Duration::from_secs(1);
    assert_eq!(bench.table.end_overdue(bench.now).len(), 1);
    assert_eq!(bench.failed_with(7, job), ErrorCode::DeadlineExceeded);
    assert!(running.cancel.is_cancelled() && !bench.table.has_work());
    bench.complete(&running, Outcome::Cancelled);
    assert!(bench.table.end_overdue(bench.now).is_empty(), "once");
}
