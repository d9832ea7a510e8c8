//! The package, installed under a real systemd in a box that is thrown away: what `drive.sh` expects of it. Needs root
//! and Debian's systemd, and fails without; `make test` leaves it out, loudly, where they are not to be had.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the report")]
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn text(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    both.join("\n")
}

#[test]
fn the_package_lives_under_systemd() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    // The programs that were built with this test.
    let built = Path::new(env!("CARGO_BIN_EXE_cuzk")).parent().unwrap();
    let package = output(
        Command::new(root.join("scripts/package"))
            .arg("--binaries")
            .arg(built)
            .arg("--out")
            .arg(directory.path()),
    );
    assert!(package.status.success(), "{}", text(&package));
    let made = String::from_utf8(package.stdout).unwrap();
    fs::rename(made.trim_end(), directory.path().join("cuzk.deb")).unwrap();
    for file in ["merkle.zkey", "merkle.wtns"] {
        fs::copy(root.join("tests/fixtures/circom").join(file), directory.path().join(file)).unwrap();
    }
    fs::copy(root.join("tests/packages/drive.sh"), directory.path().join("drive.sh")).unwrap();

    let mut bind = directory.path().as_os_str().to_owned();
    bind.push(":/mnt/test");
    let driven = output(
        Command::new(root.join("tests/packages/systemd-box"))
            .args(["run", "--timeout", "300", "--ro-bind"])
            .arg(bind)
            .args(["--", "/mnt/test/drive.sh"]),
    );
    let report = text(&driven);
    assert!(driven.status.success() && report.contains("all as expected"), "{}\n{report}", driven.status);
}
