//! Exit statuses and JSON of what goes wrong before any work is done.
use crate::support::{command, cuzk, line};

const VERBS: [&str; 7] = ["prove", "verify", "circuits", "circuit", "setup", "status", "cancel"];

#[test]
fn help_names_every_verb_and_exit_status() {
    let help = line("--help").ended(0).stdout;
    for verb in VERBS {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb}: {help}");
    }
    for status in [0, 1, 2, 3, 4, 5, 6, 70, 130] {
        assert!(help.contains(&format!("\n  {status:<5}")), "{status}: {help}");
    }
    for verb in VERBS {
        assert!(!cuzk([verb, "--help"]).ended(0).stdout.is_empty());
    }
    assert!(line("--version").ended(0).stdout.starts_with("cuzk "));
}

#[test]
fn mistakes_in_the_command_line_end_with_2() {
    for mistake in [
        "",
        "frobnicate",
        "prove",
        "prove merkle",
        "prove merkle --witness merkle.wtns --local --key-file merkle.zkey",
        "prove --local --witness merkle.wtns",
        "prove merkle --witness merkle.wtns --key-file merkle.zkey",
        "prove merkle --witness merkle.wtns --priority urgent",
        "prove merkle --witness merkle.wtns --idempotency-key \
         ----------------------------------------------------------------too-long",
        "verify --vk merkle.zkey --proof merkle.proof.json",
        "setup --circuit merkle.r1cs --out /nonexistent/k",
        "setup --insecure --circuit merkle.r1cs --out /nonexistent/k --seed 00",
        "circuit",
        "circuit show",
        "circuit check",
        "circuit check merkle.wtns",
        "circuit check merkle.zkey merkle.zkey",
        "circuit check merkle.r1cs merkle.r1cs",
        "circuit add ../merkle --key merkle.zkey",
        "cancel not-a-job",
    ] {
        let run = line(mistake).ended(2);
        assert!(!run.stderr.is_empty() && run.stdout.is_empty(), "{mistake}: {run:?}");
        let message = line(&format!("--json {mistake}")).failed(2, "usage");
        assert!(!message.is_empty(), "{mistake}");
    }
}

#[test]
fn a_setup_wants_to_be_called_insecure() {
    let run = line("setup --circuit merkle.r1cs --out /nonexistent/k").ended(2);
    assert!(run.stderr.contains("--insecure"), "{run:?}");
}

#[test]
fn without_a_daemon_verbs_end_with_5() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent.sock");
    let deaf = directory.path().join("deaf.sock");
    std::fs::write(&deaf, "no socket").unwrap();
    for socket in [absent, deaf] {
        for verb in [
            "circuits",
            "status",
            "cancel 00000000-0000-7000-8000-000000000000",
            "prove merkle --witness merkle.wtns",
        ] {
            let socket = socket.to_str().unwrap();
            let run = line(&format!("--socket {socket} {verb}")).ended(5);
            assert!(run.stderr.contains(socket), "{run:?}");
            let message = line(&format!("{verb} --json --socket {socket}")).failed(5, "unreachable");
            assert!(message.contains(socket), "{message}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = command()
        .args(["circuit", "show", "merkle.zkey", "--json"])
        .current_dir(crate::support::fixtures())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
