//! The daemon's own life: start, second instance, reload, stop.
use crate::{
    circuits::{Chain, canonical},
    daemon::{Builder, Daemon},
    peer::{Peer, assert_refused},
    with_chain,
};
use cuzk::proto::{BackendState, DaemonState, ErrorCode, KeyTier};
use nix::sys::{
    signal::Signal,
    socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket},
};
use std::{
    fs,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt},
    },
    process::{Command, Output, Stdio},
};

/// Proves something with circuit "chain".
async fn prove(daemon: &Daemon, chain: &Chain, key: &[u8]) {
    let mut peer = Peer::greet(&daemon.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&chain.witness(5)));
    let job = peer.submit(leased.job(key, "chain")).await.unwrap().job;
    peer.wait(job).await.unwrap();
}

#[tokio::test]
async fn ready_means_that_the_circuits_are_hot() {
    let (builder, _, _) = with_chain(10);
    let (late, _) = Chain { length: 10 }.write(builder.dir(), "late");
    let builder = builder.circuit("broken", "key = '/nonexistent'");
    let daemon = builder.circuit("late", &format!("{late}preload = false")).start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let status = peer.status().await;
    let tiers: Vec<_> = status.circuits.iter().map(|c| (&c.name[..], c.tier)).collect();
    assert_eq!(tiers, [("broken", KeyTier::Failed), ("chain", KeyTier::Host), ("late", KeyTier::NotLoaded)]);
    assert_eq!(
        (status.state, status.pid, &status.build[..]),
        (DaemonState::Ready, daemon.pid(), cuzk::BUILD_ID)
    );
    let told = daemon.told();
    let position =
        |what: &str| told.iter().position(|l| l.starts_with(what)).unwrap_or_else(|| panic!("{told:?}"));
    let first = told.iter().find(|l| l.starts_with("STATUS=")).unwrap();
    assert!(first.contains("loading ") && first.contains(" %"), "progress is told: {told:?}");
    assert!(position("EXTEND_TIMEOUT_USEC=") < position("READY=1"), "{told:?}");
    assert!(told.iter().any(|l| l == "STATUS=circuits ready: 1; not served: broken"), "{told:?}");
    assert!(status.message.contains("not served: broken"), "{}", status.message);
    // Used for the first time, it is loaded.
    peer.lease("late", true).await.unwrap();
    assert_refused(peer.lease("broken", true).await, ErrorCode::CircuitUnavailable, &["/nonexistent"]);
    assert_refused(peer.lease("other", true).await, ErrorCode::UnknownCircuit, &["\"other\""]);
    daemon.stop();
}

#[tokio::test]
async fn what_proves_is_chosen_and_told() {
    let daemon = Builder::new().config("prover.backend = 'cpu'").start();
    let status = Peer::greet(&daemon.socket()).await.status().await;
    let [cpu] = &status.backends[..] else { panic!("{:?}", status.backends) };
    assert_eq!((&cpu.name[..], cpu.state, cpu.memory), ("cpu", BackendState::Ready, 0));
    assert_eq!(cpu.why, "prover.backend is \"cpu\"");
    daemon.stop();

    // Whether there are other devices or none at all, and in a build that has no CUDA, too.
    let mut daemon = Builder::new().config("prover.devices = ['GPU-deaddeaddead']").spawn();
    assert_eq!(daemon.wait().code(), Some(78));
    assert!(daemon.log().contains("prover.devices"), "{}", daemon.log());
}

#[test]
fn the_version_tells_the_build_and_its_kernels() {
    let output = Command::new(env!("CARGO_BIN_EXE_cuzk-daemon")).arg("--version").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (first, second) = said.split_once('\n').unwrap();
    assert_eq!(first, format!("cuzk-daemon {}", cuzk::BUILD_ID));
    assert!(second.contains("CUDA"), "{said}");
}

#[test]
fn it_stops_with_zero_and_takes_its_socket_away() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut daemon = Builder::new().start();
        assert_eq!(fs::metadata(daemon.socket()).unwrap().mode() & 0o777, 0o660);
        daemon.signal(signal);
        assert!(daemon.wait().success());
        assert!(daemon.told().iter().any(|l| l == "STOPPING=1"));
        assert!(!daemon.socket().exists());
    }
}

#[tokio::test]
async fn a_second_instance_leaves_the_first_alone() {
    let (builder, chain, _) = with_chain(10);
    let mut second = builder.command();
    let daemon = builder.start();
    let inode = fs::metadata(daemon.socket()).unwrap().ino();
    let output = second.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(73));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("process {}", daemon.pid())) && said.contains("socket"), "{said}");
    assert_eq!(fs::metadata(daemon.socket()).unwrap().ino(), inode);
    prove(&daemon, &chain, b"k").await;
    daemon.stop();
}

#[tokio::test]
async fn what_a_killed_instance_leaves_is_taken_over() {
    let (builder, chain, _) = with_chain(10);
    let mut daemon = builder.start();
    daemon.signal(Signal::SIGKILL);
    assert!(!daemon.wait().success());
    assert!(daemon.socket().exists());
    let daemon = daemon.restart();
    prove(&daemon, &chain, b"k").await;
    daemon.stop();
}

#[test]
fn what_others_have_put_at_its_path_stays() {
    let builder = Builder::new();
    let path = builder.dir().join("socket");
    fs::write(&path, "precious").unwrap();
    let output = builder.command().stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(73));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no socket"));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

/// A command that starts the daemon with `socket` as a service manager passes it.
fn activated(builder: &Builder, socket: OwnedFd) -> Command {
    let mut command = Command::new("/bin/sh");
    let script = r#"exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" --config "$1""#;
    command.args(["-c", script, env!("CARGO_BIN_EXE_cuzk-daemon")]).arg(builder.write_config());
    builder.arrange(&mut command);
    command.stdin(Stdio::from(socket));
    command
}

fn listening(builder: &Builder, kind: SockType) -> OwnedFd {
    let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(socket.as_raw_fd(), &UnixAddr::new(&builder.dir().join("socket")).unwrap()).unwrap();
    listen(&socket, Backlog::new(16).unwrap()).unwrap();
    socket
}

#[tokio::test]
async fn a_service_managers_socket_is_served_and_left_in_place() {
    let (builder, chain, _) = with_chain(10);
    let ours = listening(&builder, SockType::SeqPacket);
    // Somebody connects before the daemon is there.
    let mut early = Peer::connect(&builder.dir().join("socket")).await;
    let command = activated(&builder, ours.try_clone().unwrap());
    let mut daemon = builder.spawn_command(command);
    daemon.wait_for("READY=1");
    assert_eq!(early.refused(cuzk::proto::RequestBody::Status).await.code, ErrorCode::HelloExpected);
    prove(&daemon, &chain, b"k").await;
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait().success());
    assert!(daemon.socket().exists());
    assert!(!daemon.dir().join("socket.lock").exists());
}

#[test]
fn another_kind_of_socket_is_refused() {
    let builder = Builder::new();
    let ours = listening(&builder, SockType::Stream);
    let output = activated(&builder, ours).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Stream") && said.contains("SOCK_SEQPACKET"), "{said}");
}

#[tokio::test]
async fn a_reload_adds_and_drops_circuits() {
    let (builder, chain, _) = with_chain(10);
    let mut daemon = builder.start();
    let (definition, _) = Chain { length: 12 }.write(daemon.dir(), "new");
    daemon.define("new", &definition);
    daemon.signal(Signal::SIGHUP);
    let message = daemon.wait_for("RELOADING=1");
    assert!(message.iter().any(|l| l.starts_with("MONOTONIC_USEC=")), "{message:?}");
    let message = daemon.wait_for("READY=1");
    assert!(message.contains(&"STATUS=circuits ready: 2".into()), "{message:?}");
    let mut peer = Peer::greet(&daemon.socket()).await;
    peer.lease("new", false).await.expect("READY=1 means that it is hot");
    daemon.undefine("new");
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for("READY=1");
    assert_refused(peer.lease("new", true).await, ErrorCode::UnknownCircuit, &["new"]);
    prove(&daemon, &chain, b"k").await;
    daemon.stop();
}

#[tokio::test]
async fn a_bad_configuration_is_refused_whole() {
    let (builder, chain, _) = with_chain(10);
    let mut daemon = builder.start();
    let good = daemon.config();
    daemon.undefine("chain");
    daemon.set_config(&format!("{good}\nstop_timeout = '1s'\ncolour = 'red'\nresult_ttl = 1"));
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for("RELOADING=1");
    let message = daemon.wait_for("READY=1");
    let status = message
        .iter()
        .find(|l| l.starts_with("STATUS=reload refused"))
        .unwrap_or_else(|| panic!("{message:?}"));
    assert!(status.contains("colour") && status.contains("result_ttl"), "{status}");
    assert!(daemon.log().contains("colour: unknown key"), "{}", daemon.log());
    let mut peer = Peer::greet(&daemon.socket()).await;
    assert!(peer.status().await.message.starts_with("reload refused"));
    // Nothing has changed, the circuits neither.
    prove(&daemon, &chain, b"k").await;

    daemon.set_config(&good.replace("threads = 2", "threads = 1"));
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for("RELOADING=1");
    let message = daemon.wait_for("READY=1");
    let wanted = "STATUS=these settings take effect with a restart: threads; circuits ready: 0";
    assert!(message.contains(&wanted.into()), "{message:?}");
    daemon.stop();
}

#[tokio::test]
async fn limits_and_timeouts_take_effect_with_a_reload() {
    let (builder, _, _) = with_chain(10);
    let mut daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let _first = peer.lease("chain", true).await.unwrap();
    daemon.set_config(&format!("{}\n[limits]\nleases_per_uid = 1", daemon.config()));
    daemon.signal(Signal::SIGHUP);
    daemon.wait_for("READY=1");
    let refused = peer.lease("chain", true).await;
    assert_refused(refused, ErrorCode::QuotaExceeded, &["1 witness buffers", "limits.leases_per_uid = 1"]);
    daemon.stop();
}

#[tokio::test]
async fn sigterm_in_mid_proof_exits_with_zero() {
    let (builder, chain, _) = with_chain(3000);
    let mut daemon = builder.start();
    let mut peer = Peer::greet(&daemon.socket()).await;
    let leased = peer.lease("chain", true).await.unwrap();
    leased.write(&canonical(&chain.witness(5)));
    let job = peer.submit(leased.job(b"k", "chain")).await.unwrap().job;
    peer.status_until(|s| s.backends[0].running == 1 || s.counters.proved == 1).await;
    daemon.signal(Signal::SIGTERM);
    assert_eq!(peer.wait(job).await.unwrap().proofs.len(), 1, "what runs may end");
    assert!(daemon.wait().success());
    assert!(daemon.told().iter().any(|l| l == "STOPPING=1"));
}

#[test]
fn the_watchdog_is_fed_where_there_is_one() {
    let mut daemon = Builder::new().environment("WATCHDOG_USEC", "100000").start();
    daemon.wait_for("WATCHDOG=1");
    daemon.wait_for("WATCHDOG=1");
    daemon.stop();
}

#[test]
fn it_leaves_no_core_dump() {
    let daemon = Builder::new().start();
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let core = limits.lines().find(|l| l.starts_with("Max core file size")).unwrap();
    let figures: Vec<_> = core.split_whitespace().skip(4).take(2).collect();
    assert_eq!(figures, ["0", "0"], "{core}");
    daemon.stop();
}

#[test]
fn it_may_have_as_many_descriptors_as_the_system_allows() {
    use nix::sys::resource::{Resource, getrlimit};
    let builder = Builder::new();
    let mut command = Command::new("prlimit");
    command.args(["--nofile=64:", env!("CARGO_BIN_EXE_cuzk-daemon"), "--config"]);
    command.arg(builder.write_config());
    builder.arrange(&mut command);
    let mut daemon = builder.spawn_command(command);
    daemon.wait_for("READY=1");
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let open = limits.lines().find(|l| l.starts_with("Max open files")).unwrap();
    let most = getrlimit(Resource::RLIMIT_NOFILE).unwrap().1.to_string();
    assert_eq!(open.split_whitespace().nth(3), Some(&most[..]), "{open}");
    daemon.stop();
}

fn check(builder: &Builder) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cuzk-daemon"))
        .args(["--check-config", "--config"])
        .arg(builder.write_config())
        .output()
        .unwrap()
}

#[test]
fn check_config_tells_every_problem() {
    let good = check(&Builder::new());
    assert_eq!((good.status.code(), &good.stdout[..]), (Some(0), &b"OK\n"[..]));
    let absent = Builder::new().config("circuits_dir = '/nonexistent'");
    for (builder, needles) in [
        (Builder::new().config("colour = 1\nmemory = '16GB'"), &["colour", "16GB"][..]),
        (
            Builder::new().circuit("bad", "key = 1").circuit("worse", "colour = 1"),
            &["bad.toml", "worse.toml"],
        ),
        (Builder::new().config("memory_margin = '16777215TiB'"), &["memory_margin"]),
        (absent, &["duplicate"]),
    ] {
        let output = check(&builder);
        assert_eq!(output.status.code(), Some(78));
        let said = String::from_utf8(output.stdout).unwrap();
        for needle in needles {
            assert!(said.contains(needle), "{said} lacks {needle}");
        }
        assert!(!said.contains("OK"));
        assert!(!builder.dir().join("socket").exists(), "a check starts nothing");
    }
}

#[test]
fn a_bad_configuration_does_not_start() {
    let gone = Builder::new();
    fs::remove_dir(gone.dir().join("circuits")).unwrap();
    let occupied = Builder::new();
    fs::write(occupied.dir().join("state"), "a file").unwrap();
    for (builder, needle) in [
        (Builder::new().config("colour = 1"), "colour"),
        (Builder::new().config("memory_margin = '16777215TiB'"), "memory_margin"),
        (gone, "circuits_dir"),
        (occupied, "state_dir"),
    ] {
        let output = builder.command().stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(78), "{needle}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(needle), "{said} lacks {needle}");
        assert!(said.matches("os error").count() < 2, "{said}");
    }
}

#[test]
fn a_folder_that_it_may_not_write_to_is_named() {
    let builder = Builder::new().config("");
    let text = fs::read_to_string(builder.write_config()).unwrap();
    let path = builder.dir().join("missing/socket").display().to_string();
    fs::write(
        builder.dir().join("other.toml"),
        text.replacen(&builder.dir().join("socket").display().to_string(), &path, 1),
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuzk-daemon"));
    let output = command.arg("--config").arg(builder.dir().join("other.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("missing/socket"));
    fs::set_permissions(builder.dir(), fs::Permissions::from_mode(0o700)).unwrap();
}
