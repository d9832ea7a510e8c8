//! Jobs under a real systemd, which kills the daemon, restarts it and hands it its jobs again. These run inside the box,
//! with the package installed there.
use crate::circuits::{Chain, canonical};
use cuzk::{
    algebra::Canonical,
    client::{Client, JobOptions, Next, Witness},
    groth16::{PreparedVerifyingKey, Proof, VerifyingKey},
    proto::{ErrorCode, IdempotencyKey, JobId, JobResult},
    r1cs::WitnessEncoding,
    shm::OwnBuffer,
};
use rand::RngExt;
use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const SOCKET: &str = "/run/cuzk/cuzk.sock";
const CLIENTS: u64 = 8;
const JOBS_OF_EACH: u64 = 25;
const KILLS: usize = 20;
const RELOADS: usize = 20;
/// How long anything may take; nothing is expected to take that long.
const PATIENCE: Duration = Duration::from_secs(240);

fn run(command: &str) -> (bool, String) {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.success(), text.trim().to_owned())
}

fn must(command: &str) -> String {
    let (well, text) = run(command);
    assert!(well, "{command}: {text}");
    text
}

fn show(property: &str) -> String {
    must(&format!("systemctl show --value -p {property} cuzk.service"))
}

fn journal() -> String {
    must("journalctl --sync; journalctl --no-pager -o cat _SYSTEMD_UNIT=cuzk.service")
}

fn until(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "not in time: {what}\n{}", journal());
        thread::sleep(Duration::from_millis(20));
    }
}

/// The package, with a chain of so many squarings, and a limit on starts that kills do not reach.
fn install(length: usize) -> (Chain, VerifyingKey) {
    must("DEBIAN_FRONTEND=noninteractive dpkg -i /mnt/test/cuzk.deb");
    fs::create_dir("/srv/keys").unwrap();
    let chain = Chain { length };
    let (definition, key) = chain.write(Path::new("/srv/keys"), "chain");
    must("chmod -R a+rX /srv/keys");
    fs::create_dir_all("/etc/cuzk/circuits").unwrap();
    fs::write("/etc/cuzk/circuits/chain.toml", definition).unwrap();
    fs::create_dir_all("/run/systemd/system/cuzk.service.d").unwrap();
    fs::write("/run/systemd/system/cuzk.service.d/kills.conf", "[Unit]\nStartLimitIntervalSec=0\n").unwrap();
    must("systemctl daemon-reload && systemctl start cuzk.service");
    (chain, key)
}

/// One job of the test.
struct Wanted {
    key: IdempotencyKey,
    /// What each partition's chain begins with.
    starts: Vec<u64>,
    /// Witnesses in memfds of the client's own, not in leases.
    own: bool,
}

impl Wanted {
    /// Of one partition mostly, and of three now and then.
    fn new(number: u64) -> Self {
        let partitions = if number.is_multiple_of(5) { 3 } else { 1 };
        Self {
            key: IdempotencyKey::new(format!("job {number}").as_bytes()).unwrap(),
            starts: (0..partitions).map(|partition| 1000 * number + partition).collect(),
            own: number % 3 == 1,
        }
    }

    fn check(&self, chain: &Chain, key: &PreparedVerifyingKey, result: &JobResult) {
        assert_eq!(result.proofs.len(), self.starts.len());
        for (proof, start) in result.proofs.iter().zip(&self.starts) {
            let inputs = &chain.witness(*start)[1..3];
            key.verify(&Proof::from_bytes(&proof.proof).unwrap(), inputs).unwrap();
            assert_eq!(
                proof.public_inputs,
                inputs.iter().map(|i| Canonical::to_le_bytes(*i)).collect::<Vec<_>>()
            );
        }
    }

    /// Proves it, whatever the daemon goes through meanwhile. The result is not acknowledged.
    async fn prove(&self, client: &Client, chain: &Chain) -> JobResult {
        let options = JobOptions::new("chain").partitions(self.starts.len() as u32).key(self.key.clone());
        let mut job = client.job(options).unwrap();
        loop {
            match job.advance().await.unwrap() {
                Next::Fill { partition, mut lease } => {
                    let bytes = canonical(&chain.witness(self.starts[partition as usize]));
                    let witness = if self.own {
                        let own = OwnBuffer::create(bytes.len() as u64).unwrap();
                        own.write_at(&bytes, 0).unwrap();
                        let own = Arc::new(own.seal().unwrap());
                        Witness::own(own, WitnessEncoding::Canonical, Some(lease.circuit_id()))
                    } else {
                        lease.write_at(&bytes, 0).unwrap();
                        Witness::canonical(lease)
                    };
                    job.submit(partition, witness).await.unwrap();
                }
                Next::Done(result) => return result,
            }
        }
    }
}

async fn found(client: &Client, key: &IdempotencyKey) -> Option<JobId> {
    client.find(key).await.unwrap().map(|accepted| accepted.job)
}

/// Kills the daemon at random moments, and reloads it in between.
fn kill_and_reload(kills: &AtomicUsize) {
    let (mut reloads, mut last) = (0, String::from("0"));
    while kills.load(Ordering::SeqCst) < KILLS || reloads < RELOADS {
        thread::sleep(Duration::from_millis(rand::rng().random_range(50..900)));
        if reloads < RELOADS && rand::rng().random_bool(0.5) {
            // It is refused while the daemon is being started again.
            reloads += usize::from(run("systemctl reload cuzk.service").0);
        }
        if kills.load(Ordering::SeqCst) < KILLS {
            // As soon as there is another process: also while it starts.
            until("a process to kill", || show("MainPID") != "0" && show("MainPID") != last);
            last = show("MainPID");
            if run(&format!("kill -KILL {last}")).0 {
                kills.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

#[test]
#[ignore = "runs inside the box"]
fn kills_and_reloads() {
    let (chain, key) = install(1000);
    let (chain, key) = (Arc::new(chain), Arc::new(PreparedVerifyingKey::new(&key)));
    let kills = Arc::new(AtomicUsize::new(0));
    let killer = {
        let kills = Arc::clone(&kills);
        thread::spawn(move || kill_and_reload(&kills))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (chain, key, kills) = (Arc::clone(&chain), Arc::clone(&key), Arc::clone(&kills));
            runtime.spawn(async move {
                let client = Client::connect(SOCKET, "outlive").await.unwrap();
                let mut proved = Vec::new();
                for job in 0..JOBS_OF_EACH {
                    // The jobs are spread over the kills.
                    while (kills.load(Ordering::SeqCst) as u64) < job * KILLS as u64 / JOBS_OF_EACH {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    let wanted = Wanted::new(number * JOBS_OF_EACH + job);
                    let result = wanted.prove(&client, &chain).await;
                    wanted.check(&chain, &key, &result);
                    proved.push((wanted, result));
                }
                proved
            })
        })
        .collect();
    runtime.block_on(async {
        let mut proved = Vec::new();
        for client in clients {
            proved.extend(client.await.unwrap());
        }
        killer.join().unwrap();
        let restarts: usize = show("NRestarts").parse().unwrap();
        assert!(restarts >= KILLS, "{restarts} restarts");
        // The kills met jobs in their midst.
        let journal = self::journal();
        let taken: Vec<_> = journal.lines().filter(|line| line.starts_with("taken back")).collect();
        let in_midst = taken.iter().filter(|line| !line.contains(": 0 jobs that go on")).count();
        assert!(in_midst >= KILLS / 2, "{taken:#?}");
        println!("{} starts took back jobs, {in_midst} of them unfinished ones", taken.len());
        // Nothing is lost, nothing is there twice, and every answer is still the same.
        let client = Client::connect(SOCKET, "outlive").await.unwrap();
        let ids: HashSet<_> = proved.iter().map(|(_, result)| result.job).collect();
        assert_eq!((proved.len(), ids.len()), (200, 200));
        let there: HashSet<_> = client.status().await.unwrap().jobs.iter().map(|job| job.job).collect();
        assert_eq!(there, ids);
        for (wanted, result) in &proved {
            assert_eq!(found(&client, &wanted.key).await, Some(result.job));
            assert_eq!(client.await_job(result.job).await.unwrap(), *result);
            client.acknowledge(result.job).await.unwrap();
        }
    });
    until("an empty store", || show("NFileDescriptorStore") == "0");
    println!("all as expected");
}

/// A job under way, and where it is to be found.
async fn begun(client: &Client, chain: &Chain, number: u64) -> (Wanted, JobId) {
    let wanted = Wanted::new(number);
    let mut job = client.job(JobOptions::new("chain").key(wanted.key.clone())).unwrap();
    let Next::Fill { mut lease, .. } = job.advance().await.unwrap() else { panic!("it wants a witness") };
    lease.write_at(&canonical(&chain.witness(wanted.starts[0])), 0).unwrap();
    job.submit(0, Witness::canonical(lease)).await.unwrap();
    (wanted, job.id().unwrap())
}

#[test]
#[ignore = "runs inside the box"]
fn restarts_and_upgrades() {
    let (chain, key) = install(10_000);
    let key = PreparedVerifyingKey::new(&key);
    // What runs is cut off, so that something is left each time.
    fs::create_dir_all("/etc/cuzk/cuzk.toml.d").unwrap();
    fs::write("/etc/cuzk/cuzk.toml.d/50-stop.toml", "stop_timeout = '10ms'\n").unwrap();
    must("systemctl restart cuzk.service");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(SOCKET, "outlive").await.unwrap();
        let mut number = 1;
        for change in [
            "systemctl restart cuzk.service",
            "kill -ABRT $(systemctl show --value -p MainPID cuzk.service)",
            "DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i /mnt/test/cuzk.deb",
            "systemctl daemon-reload && systemctl restart cuzk.service",
        ] {
            let mut jobs = Vec::new();
            for _ in 0..3 {
                jobs.push(begun(&client, &chain, number).await);
                // Of one partition each.
                number += if number % 5 == 4 { 2 } else { 1 };
            }
            let pid = show("MainPID");
            must(change);
            until("another process", || !["0", &pid].contains(&&show("MainPID")[..]));
            for (wanted, id) in jobs {
                assert_eq!(found(&client, &wanted.key).await, Some(id), "{change}");
                wanted.check(&chain, &key, &client.await_job(id).await.unwrap());
                client.acknowledge(id).await.unwrap();
            }
        }
        let journal = self::journal();
        assert!(journal.contains("taken back from the service manager"), "{journal}");

        // A stop keeps the store from systemd 254 on; before, jobs are lost, and said to be.
        let (wanted, id) = begun(&client, &chain, 101).await;
        must("systemctl stop cuzk.service && systemctl start cuzk.service");
        let told = self::journal();
        let told = told.lines().rfind(|line| line.starts_with("stopped: ")).unwrap_or_default().to_owned();
        let keeps = must("systemctl --version").split(' ').nth(1).unwrap().parse::<u32>().unwrap() >= 254;
        match client.await_job(id).await {
            Ok(result) => {
                assert!(keeps && told.contains("1 jobs stay with the service manager"), "{told}");
                wanted.check(&chain, &key, &result);
                client.acknowledge(id).await.unwrap();
            }
            Err(lost) => {
                assert!(
                    !keeps && told.contains("1 jobs stay") && told.contains("dropped by a stop"),
                    "{told}"
                );
                assert_eq!(lost.code(), Some(ErrorCode::JobLost), "{lost}");
                // What still has its witness submits it again.
                wanted.check(&chain, &key, &wanted.prove(&client, &chain).await);
            }
        }
    });
    println!("all as expected");
}
