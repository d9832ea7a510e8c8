//! Runs the command and looks at what it says.
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// What one run of the command did.
#[derive(Debug)]
pub struct Run {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// The one JSON document on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The run ended with this status.
    #[track_caller]
    pub fn ended(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// The run failed with this status and code; returns its message.
    #[track_caller]
    pub fn failed(self, status: i32, code: &str) -> String {
        let run = self.ended(status);
        let error = &run.json()["error"];
        assert_eq!(error["exit"], status, "{error}");
        assert_eq!(error["code"], code, "{error}");
        error["message"].as_str().expect("a failure has a message").to_owned()
    }
}

pub fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_cuzk"))
}

/// Runs `cuzk` with arguments, in a directory where relative paths mean the circom fixtures.
pub fn cuzk<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
    let run = command().args(arguments).current_dir(fixtures()).output().expect("cuzk starts");
    let Output { status, stdout, stderr } = run;
    let text = |bytes| String::from_utf8(bytes).expect("cuzk writes UTF-8");
    Run { status: status.code().expect("cuzk is not killed"), stdout: text(stdout), stderr: text(stderr) }
}

/// The same with arguments divided by spaces.
pub fn line(arguments: &str) -> Run {
    cuzk(arguments.split_whitespace())
}

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/circom")
}

/// A fixture's copy in `directory`, changed by `change`.
pub fn changed(directory: &Path, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(fixtures().join(name)).expect("the fixture is there");
    change(&mut bytes);
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("the directory is writable");
    path
}
