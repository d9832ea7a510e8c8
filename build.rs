//! Generates Rust code from the schemas in `schema/` (needs the `capnp` compiler, Debian's
//! package capnproto), compiles the CUDA kernels (feature `cuda`), and fixes the build id.
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    compile_schema("schema/cuzk.capnp", "CARGO_FEATURE_CLIENT", &["proto"]);
    compile_schema("schema/store.capnp", "CARGO_FEATURE_DAEMON", &["daemon", "store"]);
    if std::env::var_os("CARGO_FEATURE_CUDA").is_some()
        && let Err(error) = cuda::compile()
    {
        println!("cargo:error=compiling the CUDA kernels: {error}");
    }
    println!("cargo:rustc-env=CUZK_BUILD_ID={}", build_id());
}

/// Generates the code of a schema for the module that includes it, where its feature is on.
fn compile_schema(file: &str, feature: &str, parent: &[&str]) {
    println!("cargo:rerun-if-changed={file}");
    if std::env::var_os(feature).is_none() {
        return;
    }
    let compiled = capnpc::CompilerCommand::new()
        .default_parent_module(parent.iter().map(|&module| module.into()).collect())
        .src_prefix("schema")
        .file(file)
        .run();
    if let Err(error) = compiled {
        println!("cargo:error=compiling {file} (is `capnp`, package capnproto, installed?): {error}");
    }
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

/// The kernels: every `cuda/*.cu` becomes a fat binary that `src/gpu/kernels.rs` embeds.
///
/// `nvcc` is $NVCC, or bin/nvcc under $CUDA_HOME or $CUDA_PATH, or the first on $PATH, or what
/// `scripts/install-deps cuda` has fetched into target/cuda-toolkit; of CUDA 12 or later.
/// $CUZK_CUDA_ARCHITECTURES lists what to compile for, as in `80,90`, and is taken as it is; without it all of
/// [`ALL`] that the toolkit knows (a warning names the others), and PTX of the newest for devices to come.
/// Everyday builds name the one device at hand: each architecture takes as long as the last.
mod cuda {
    use std::fmt::Write as _;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// Architectures of a release.
    const ALL: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];
    /// What `scripts/install-deps cuda` fetches, below the package's folder.
    const FETCHED: &str = "target/cuda-toolkit/nvidia/cu13/bin/nvcc";

    pub fn compile() -> Result<(), String> {
        for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH", "PATH", "CUZK_CUDA_ARCHITECTURES"] {
            println!("cargo:rerun-if-env-changed={variable}");
        }
        println!("cargo:rerun-if-changed=cuda");
        let nvcc = nvcc().ok_or(
            "there is no nvcc: not in $NVCC, $CUDA_HOME, $CUDA_PATH or $PATH; `scripts/install-deps cuda` fetches one",
        )?;
        let toolkit = toolkit(&nvcc)?;
        let architectures = architectures(&nvcc, &toolkit)?;
        let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
        let mut embedded = String::new();
        for source in sources(Path::new("cuda"))? {
            let stem = source.file_stem().and_then(|s| s.to_str()).ok_or("a source without a name")?;
            let fatbin = out.join(format!("{stem}.fatbin"));
            run(&nvcc, &source, &fatbin, &architectures)?;
            let _ = writeln!(embedded, "    ({stem:?}, include_bytes!({fatbin:?})),");
        }
        let list = architectures.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        println!("cargo:rustc-env=CUZK_CUDA_ARCHITECTURE_LIST={list}");
        println!("cargo:rustc-env=CUZK_CUDA_TOOLKIT={toolkit}");
        let embedded = format!("&[\n{embedded}]\n");
        std::fs::write(out.join("fatbins.rs"), embedded).map_err(|e| format!("writing fatbins.rs: {e}"))
    }

    fn nvcc() -> Option<PathBuf> {
        if let Some(nvcc) = std::env::var_os("NVCC") {
            return Some(nvcc.into());
        }
        let toolkits = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os);
        let toolkits = toolkits.map(|toolkit| PathBuf::from(toolkit).join("bin/nvcc"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path: Vec<PathBuf> = std::env::split_paths(&path).map(|folder| folder.join("nvcc")).collect();
        let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
        toolkits.chain(on_path).chain([package.join(FETCHED)]).find(|nvcc| nvcc.is_file())
    }

    /// What nvcc prints.
    fn ask(nvcc: &Path, option: &str) -> Result<String, String> {
        let output = Command::new(nvcc).arg(option).output();
        let output = output.map_err(|e| format!("running {} {option}: {e}", nvcc.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Major.minor of the toolkit.
    fn toolkit(nvcc: &Path) -> Result<String, String> {
        let text = ask(nvcc, "--version")?;
        let release = text.split("release ").nth(1).and_then(|rest| rest.split(',').next());
        let release =
            release.ok_or_else(|| format!("{} --version says no release: {text}", nvcc.display()))?;
        let major: u32 = release.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if major < 12 {
            return Err(format!("{} is of CUDA {release}, wanted 12.0 or later", nvcc.display()));
        }
        Ok(release.to_owned())
    }

    fn architectures(nvcc: &Path, toolkit: &str) -> Result<Vec<u32>, String> {
        if let Ok(list) = std::env::var("CUZK_CUDA_ARCHITECTURES") {
            let parse = |s: &str| {
                s.trim().parse().map_err(|_| format!("CUZK_CUDA_ARCHITECTURES: {s:?} is no number"))
            };
            let mut numbers = list.split(',').map(parse).collect::<Result<Vec<u32>, _>>()?;
            numbers.sort_unstable();
            numbers.dedup();
            return Ok(numbers);
        }
        let known = ask(nvcc, "--list-gpu-arch")?;
        let known: Vec<u32> =
            known.lines().filter_map(|l| l.trim().strip_prefix("compute_")?.parse().ok()).collect();
        let (numbers, unknown): (Vec<u32>, Vec<u32>) = ALL.into_iter().partition(|a| known.contains(a));
        if numbers.is_empty() {
            return Err(format!("{} --list-gpu-arch names none of {ALL:?}", nvcc.display()));
        }
        if !unknown.is_empty() {
            println!(
                "cargo:warning=CUDA {toolkit} compiles for {numbers:?} only: devices of {unknown:?} get no machine code"
            );
        }
        Ok(numbers)
    }

    fn sources(directory: &Path) -> Result<Vec<PathBuf>, String> {
        let read = |e| format!("reading {}: {e}", directory.display());
        let mut sources = std::fs::read_dir(directory)
            .map_err(read)?
            .map(|entry| entry.map(|e| e.path()).map_err(read))
            .collect::<Result<Vec<_>, _>>()?;
        sources.retain(|path| path.extension().is_some_and(|e| e == "cu"));
        sources.sort();
        Ok(sources)
    }

    fn run(nvcc: &Path, source: &Path, fatbin: &Path, architectures: &[u32]) -> Result<(), String> {
        let mut command = Command::new(nvcc);
        command.args(["-std=c++17", "-O3", "-Icuda", "-Werror=all-warnings", "-fatbin", "-o"]).arg(fatbin);
        command.args(["--threads", &std::env::var("NUM_JOBS").unwrap_or_else(|_| "1".into())]);
        for a in architectures {
            command.arg(format!("-gencode=arch=compute_{a},code=sm_{a}"));
        }
        if let Some(newest) = architectures.last() {
            command.arg(format!("-gencode=arch=compute_{newest},code=compute_{newest}"));
        }
        let output = command.arg(source).output().map_err(|e| format!("running {}: {e}", nvcc.display()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).replace('\n', " | ");
            return Err(format!("{}: {text}", source.display()));
        }
        Ok(())
    }
}
