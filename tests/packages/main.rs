//! The packages, installed under a real systemd in a box that is thrown away: what `drive.sh` expects of them. Needs
//! root and Debian's systemd and rpm, and fails without; `make test` leaves it out, loudly, where they are not to be had.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]
#[path = "../support/circuits.rs"]
mod circuits;
mod outlive;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    sync::LazyLock,
};
use tempfile::TempDir;

/// What the box is shown: both packages, a key with a witness, and what drives them.
static SHOWN: LazyLock<TempDir> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shown = tempfile::tempdir().unwrap();
    // Of the programs that were built with this test.
    let built = Path::new(env!("CARGO_BIN_EXE_cuzk")).parent().unwrap();
    let mut package = Command::new(root.join("scripts/package"));
    let made = output(package.arg("--binaries").arg(built).arg("--out").arg(shown.path()));
    assert!(made.status.success(), "{}", text(&made));
    for path in String::from_utf8(made.stdout).unwrap().lines().map(Path::new) {
        fs::rename(path, shown.path().join("cuzk").with_extension(path.extension().unwrap())).unwrap();
    }
    let fixtures = root.join("tests/fixtures/circom");
    for path in ["merkle.zkey", "merkle.wtns"].map(|name| fixtures.join(name)) {
        fs::copy(&path, shown.path().join(path.file_name().unwrap())).unwrap();
    }
    fs::copy(root.join("tests/packages/drive.sh"), shown.path().join("drive.sh")).unwrap();
    fs::copy(std::env::current_exe().unwrap(), shown.path().join("itself")).unwrap();
    shown
});

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn text(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    both.join("\n")
}

fn drive(kind: &str) {
    in_a_box(&["/mnt/test/drive.sh", kind]);
}

/// Runs a command in a box; it must end well and say so.
fn in_a_box(command: &[&str]) {
    let mut bind = SHOWN.path().as_os_str().to_owned();
    bind.push(":/mnt/test");
    let mut the_box = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages/systemd-box"));
    the_box.args(["run", "--timeout", "300", "--ro-bind"]).arg(bind);
    let driven = output(the_box.arg("--").args(command));
    let report = text(&driven);
    println!("{report}");
    assert!(driven.status.success() && report.contains("all as expected"), "{}\n{report}", driven.status);
}

#[test]
fn the_debian_package_lives_under_systemd() {
    drive("deb");
}

#[test]
fn jobs_outlive_kills_and_reloads_under_systemd() {
    in_a_box(&["/mnt/test/itself", "--exact", "outlive::kills_and_reloads", "--ignored", "--nocapture"]);
}

#[test]
fn jobs_outlive_restarts_and_upgrades_under_systemd() {
    in_a_box(&["/mnt/test/itself", "--exact", "outlive::restarts_and_upgrades", "--ignored", "--nocapture"]);
}

#[test]
fn the_rpm_lives_under_systemd() {
    drive("rpm");
}
