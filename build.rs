//! Generates the protocol's Rust code from `schema/cuzk.capnp` (needs the `capnp` compiler, Debian's
//! package capnproto) and fixes the build id.
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=schema/cuzk.capnp");
    if std::env::var_os("CARGO_FEATURE_CLIENT").is_some() {
        let compiled = capnpc::CompilerCommand::new()
            .default_parent_module(vec!["proto".into()])
            .src_prefix("schema")
            .file("schema/cuzk.capnp")
            .run();
        if let Err(error) = compiled {
            println!(
                "cargo:error=compiling schema/cuzk.capnp (is `capnp`, package capnproto, installed?): {error}"
            );
        }
    }
    println!("cargo:rustc-env=CUZK_BUILD_ID={}", build_id());
}

/// `VERSION`, then `+COMMIT` when built from a git checkout, then `.modified` where tracked files
/// differ from that commit. A debug build says `+debug` instead, so that a commit alone does not
/// recompile the crate of someone who works on it.
fn build_id() -> String {
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return format!("{version}+debug");
    }
    match commit() {
        Some((commit, true)) => format!("{version}+{commit}.modified"),
        Some((commit, false)) => format!("{version}+{commit}"),
        None => version,
    }
}

/// The commit checked out and whether tracked files differ from it. None outside a checkout of this
/// very package: a package vendored into another repository must not claim that one's commit.
fn commit() -> Option<(String, bool)> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let top = PathBuf::from(git(&package, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != package.canonicalize().ok()? {
        return None;
    }
    let commit = git(&package, &["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&package, &["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"])?;
    let branch = git(&package, &["rev-parse", "--symbolic-full-name", "HEAD"])?;
    for name in ["HEAD", "packed-refs", branch.as_str()] {
        if let Some(file) = git(&package, &["rev-parse", "--path-format=absolute", "--git-path", name])
            && Path::new(&file).exists()
        {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    for sources in ["src", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={sources}");
    }
    Some((commit, !changes.is_empty()))
}

/// The trimmed output of a git command, None where it fails or git is not there.
fn git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(directory).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
