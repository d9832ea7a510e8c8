//! The verbs that speak to a daemon, with a real one.
use crate::{
    daemon::{Builder, Daemon},
    support::{Run, changed, command, fixtures, line},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, path::Path, process::Stdio, thread::sleep, time::Duration};

/// A daemon that serves the merkle circuit, with matrix C.
pub fn serving() -> Daemon {
    let at = |name: &str| fixtures().join(name).display().to_string();
    let definition = format!("key = '{}'\ncircuit = '{}'", at("merkle.zkey"), at("merkle.r1cs"));
    Builder::new().circuit("merkle", &definition).start()
}

pub fn ask(daemon: &Daemon, arguments: &str) -> Run {
    line(&format!("--socket {} {arguments}", daemon.socket().display()))
}

#[test]
fn proves_through_the_daemon_and_tells_what_it_did() {
    let daemon = serving();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();

    let circuits = ask(&daemon, "circuits --json").ended(0).json();
    let circuit = &circuits["circuits"][0];
    assert_eq!((&circuit["name"], &circuit["state"]), (&"merkle".into(), &"host".into()));
    assert_eq!((&circuit["constraints"], &circuit["public_inputs"]), (&1677.into(), &2.into()));
    assert!(ask(&daemon, "circuits").ended(0).stdout.contains("merkle"));

    let (proof, public) = (path("proof.json"), path("public.json"));
    let prove = format!("prove merkle --witness merkle.wtns --out {proof} --public {public}");
    let run = ask(&daemon, &format!("{prove} --priority high --json")).ended(0).json();
    assert_eq!(run["circuit_id"], circuit["circuit_id"]);
    assert_eq!(run["key_id"], circuit["key_id"]);
    assert_eq!(run["proofs"][0]["attempts"], 1);
    let stages = run["proofs"][0]["timeline"].as_array().unwrap();
    for stage in ["queued", "copy", "msm_h", "verify"] {
        assert!(stages.iter().any(|s| s["stage"] == stage), "{stage}: {run}");
    }
    let expected = fs::read_to_string(fixtures().join("merkle.public.json")).unwrap();
    assert_eq!(
        run["proofs"][0]["public_inputs"],
        serde_json::from_str::<serde_json::Value>(&expected).unwrap()
    );
    line(&format!("verify --vk merkle.verification_key.json --proof {proof} --public {public}")).ended(0);

    let (proof, public) = (path("proofs.bin"), path("publics.json"));
    let prove =
        format!("prove merkle --witness merkle.wtns --witness merkle.wtns --out {proof} --public {public}");
    ask(&daemon, &format!("{prove} --idempotency-key two")).ended(0);
    line(&format!("verify --vk merkle.zkey --proof {proof} --public {public}")).ended(0);

    let status = ask(&daemon, "status --json").ended(0).json();
    assert_eq!(status["state"], "ready");
    assert_eq!(status["pid"], daemon.pid());
    assert_eq!(status["counters"]["proved"], 3);
    assert_eq!(status["circuits"], circuits["circuits"]);
    assert_eq!(status["memory"]["leases"], 0);
    let text = ask(&daemon, "status").ended(0).stdout;
    assert!(text.contains("3 proved") && text.contains("merkle"), "{text}");
}

#[test]
fn refusals_have_their_status() {
    let daemon = serving();
    let directory = tempfile::tempdir().unwrap();
    let message = ask(&daemon, "prove other --witness merkle.wtns --json").failed(3, "unknownCircuit");
    assert!(message.contains("other"), "{message}");
    ask(&daemon, "cancel 00000000-0000-7000-8000-000000000000 --json").failed(3, "unknownJob");
    ask(&daemon, "prove merkle --witness /nonexistent --json").failed(6, "file");
    ask(&daemon, "prove merkle --witness merkle.zkey --json").failed(6, "file");

    // The last value: every row that mentions it is unsatisfied.
    let wrong = changed(directory.path(), "merkle.wtns", |bytes| bytes[76 + 1681 * 32] ^= 1);
    let prove = format!("prove merkle --witness {} --json", wrong.display());
    let named = line(&format!("circuit check merkle.r1cs --json --witness {}", wrong.display())).json();
    let row = named["witnesses"][0]["first_unsatisfied"].to_string();
    let message = ask(&daemon, &prove).failed(1, "unsatisfied");
    assert!(message.contains(&row), "{message}: constraint {row}");
    // It serves on.
    ask(&daemon, "prove merkle --witness merkle.wtns").ended(0);
}

#[test]
fn one_connection_too_many_is_told_to_come_later() {
    let daemon = Builder::new().config("limits.connections_per_uid = 1").start();
    let first = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Unix,
        nix::sys::socket::SockType::SeqPacket,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
        None,
    )
    .unwrap();
    let address = nix::sys::socket::UnixAddr::new(&daemon.socket()).unwrap();
    nix::sys::socket::connect(std::os::fd::AsRawFd::as_raw_fd(&first), &address).unwrap();
    for _ in 0..20 {
        ask(&daemon, "status --json").failed(4, "quotaExceeded");
    }
}

#[test]
fn a_daemon_that_hangs_is_not_waited_for_for_ever() {
    let daemon = serving();
    let pid = Pid::from_raw(daemon.pid().cast_signed());
    kill(pid, Signal::SIGSTOP).unwrap();
    let prove = "prove merkle --witness merkle.wtns --patience 1 --json";
    let message = ask(&daemon, prove).failed(5, "unreachable");
    kill(pid, Signal::SIGCONT).unwrap();
    assert!(message.contains("no answer to `hello` within 1 s"), "{message}");
    ask(&daemon, prove).ended(0);
}

#[test]
fn a_definition_that_would_block_fails_and_does_not_delay_the_others() {
    let builder = Builder::new();
    let fifo = builder.dir().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let merkle = format!("key = '{}'", fixtures().join("merkle.zkey").display());
    let daemon =
        builder.circuit("merkle", &merkle).circuit("fifo", &format!("key = '{}'", fifo.display())).start();
    let circuits = ask(&daemon, "circuits --json").ended(0).json();
    let fifo = circuits["circuits"].as_array().unwrap().iter().find(|c| c["name"] == "fifo").unwrap();
    assert_eq!(fifo["state"], "failed");
    assert!(fifo["problem"].as_str().unwrap().contains("is a FIFO"), "{fifo}");
    ask(&daemon, "prove merkle --witness merkle.wtns").ended(0);
}

#[test]
fn a_circuit_that_is_added_is_there_after_a_reload() {
    let mut daemon = Builder::new().start();
    assert_eq!(ask(&daemon, "circuits").ended(0).stdout, "no circuits\n");
    ask(&daemon, "prove merkle --witness merkle.wtns --json").failed(3, "unknownCircuit");
    let dir = daemon.dir().join("circuits");
    line(&format!("circuit add merkle --key merkle.zkey --dir {}", dir.display())).ended(0);
    reload(&mut daemon);
    ask(&daemon, "prove merkle --witness merkle.wtns").ended(0);
}

fn reload(daemon: &mut Daemon) {
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for("RELOADING=1");
    daemon.wait_for("READY=1");
}

/// Starts a job of as many partitions as a job can have, and returns once the daemon has it.
fn long_job(daemon: &Daemon) -> (std::process::Child, String) {
    let mut prove = command();
    prove.arg("--socket").arg(daemon.socket()).args(["prove", "merkle", "--json"]);
    for _ in 0..1024 {
        prove.args([Path::new("--witness"), &fixtures().join("merkle.wtns")]);
    }
    let mut child = prove.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    loop {
        let status = ask(daemon, "status --json").ended(0).json();
        let active = |job: &&serde_json::Value| {
            job["partitions"]
                .as_array()
                .unwrap()
                .iter()
                .any(|p| p["state"] == "running" || p["state"] == "queued")
        };
        if let Some(job) = status["jobs"].as_array().unwrap().iter().find(active) {
            assert_eq!(job["partitions"].as_array().unwrap().len(), 1024);
            return (child, job["job"].as_str().unwrap().to_owned());
        }
        assert_eq!(child.try_wait().unwrap(), None, "the job ended before it was seen");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupted_prove_cancels_its_job() {
    let daemon = serving();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (child, job) = long_job(&daemon);
        kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{signal}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["error"]["code"], "interrupted");
        assert!(document["error"]["message"].as_str().unwrap().contains(&job), "{document}");
    }
    let status = ask(&daemon, "status --json").ended(0).json();
    assert!(status["counters"]["cancelled"].as_u64() > Some(0), "{status}");
    ask(&daemon, "prove merkle --witness merkle.wtns").ended(0);
}

#[test]
fn a_job_is_cancelled_from_another_process() {
    let daemon = serving();
    let (child, job) = long_job(&daemon);
    let run = ask(&daemon, &format!("cancel {job} --json")).ended(0).json();
    assert_eq!((&run["job"], &run["cancelled"]), (&job.into(), &true.into()));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"]["code"], "jobCancelled");
}
