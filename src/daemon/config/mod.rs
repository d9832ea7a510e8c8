//! The daemon's configuration: one TOML file and its drop-ins (`FILE.d/*.toml`, in the order of their
//! names, a later setting replacing an earlier one). Whatever is wrong is collected, not just the first
//! thing found, and each problem names its file, line and key.
mod prover;
mod settings;

use crate::units::show_bytes;
pub use prover::{Devices, Prover, Proving};
pub use settings::Takes;
use settings::{SETTINGS, Setting};
use std::{
    collections::BTreeMap,
    fmt, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use toml::{Spanned, de::DeTable, de::DeValue};

/// Where the configuration is unless the command line names another file.
pub const DEFAULT_FILE: &str = "/etc/cuzk/cuzk.toml";
/// The largest configuration file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// How much memory the daemon may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// What the host and the control group allow, less [`Config::memory_margin`].
    Auto,
    /// So many bytes.
    Bytes(u64),
}

/// What a daemon is told to do. `docs/configuration.md` describes every setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Path of the daemon's own socket; with socket activation, the path that the service manager listens at.
    pub socket: PathBuf,
    /// Permission bits of that socket.
    pub socket_mode: u32,
    /// What must outlive a restart: the memory of validated keys.
    pub state_dir: PathBuf,
    /// Circuit definitions, `NAME.toml`.
    pub circuits_dir: PathBuf,
    /// The memory budget.
    pub memory: Memory,
    /// What `auto` leaves to the rest of the host, in bytes.
    pub memory_margin: u64,
    /// Threads of the CPU prover.
    pub threads: usize,
    /// What proves.
    pub prover: Prover,
    /// How long a finished job's result waits for its owner.
    pub result_ttl: Duration,
    /// How long running partitions may go on after SIGTERM.
    pub stop_timeout: Duration,
    /// The least severe events that are logged.
    pub log: tracing::Level,
    /// The loopback address at which HTTP is answered; None: at none.
    pub http: Option<SocketAddr>,
    /// What one user, one connection and all together may hold.
    pub limits: Limits,
}

/// Bounds on what clients may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all.
    pub connections: u32,
    /// Connections of one uid.
    pub connections_per_uid: u32,
    /// Unanswered requests of one connection.
    pub requests_per_connection: u32,
    /// Jobs in all, finished ones included until they are acknowledged or expire.
    pub jobs: u32,
    /// Jobs of one uid, counted likewise.
    pub jobs_per_uid: u32,
    /// Bytes of all jobs' results, those to come included.
    pub result_bytes: u64,
    /// The same, of one user.
    pub result_bytes_per_uid: u64,
    /// Witness buffers (leases and own memfds) of one uid.
    pub leases_per_uid: u32,
    /// Bytes of those buffers; None: only the memory budget bounds them.
    pub bytes_per_uid: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            socket: "/run/cuzk/cuzk.sock".into(),
            socket_mode: 0o660,
            state_dir: "/var/lib/cuzk".into(),
            circuits_dir: "/etc/cuzk/circuits".into(),
            memory: Memory::Auto,
            memory_margin: 1 << 30,
            threads: available_threads(),
            prover: Prover::default(),
            result_ttl: Duration::from_secs(3600),
            stop_timeout: Duration::from_secs(60),
            log: tracing::Level::INFO,
            http: None,
            limits: Limits {
                connections: 256,
                connections_per_uid: 128,
                requests_per_connection: 64,
                jobs: 4096,
                jobs_per_uid: 1024,
                result_bytes: 256 << 20,
                result_bytes_per_uid: 128 << 20,
                leases_per_uid: 256,
                bytes_per_uid: None,
            },
        }
    }
}

/// The processors that this process may run on.
fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// One thing wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file at fault.
    pub file: PathBuf,
    /// Its line, counted from 1, where the problem has one.
    pub line: Option<usize>,
    /// The setting's full key, such as `limits.jobs`; empty where the whole file is at fault.
    pub key: String,
    /// What was found and what was wanted.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Everything wrong with the configuration; at least one problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError(pub Vec<Problem>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// Where a configuration is read from, at start and at each reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSource {
    file: PathBuf,
    required: bool,
}

impl ConfigSource {
    /// The file that the command line names, which must exist; or [`DEFAULT_FILE`], which need not.
    pub fn new(file: Option<PathBuf>) -> Self {
        let required = file.is_some();
        Self { file: file.unwrap_or_else(|| DEFAULT_FILE.into()), required }
    }

    /// Reads the file and its drop-ins.
    ///
    /// # Errors
    /// [`ConfigError`] with all problems found.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let mut loader = Loader { config: Config::default(), places: BTreeMap::new(), problems: Vec::new() };
        match read(&self.file) {
            Ok(text) => loader.apply(&self.file, &text),
            Err(e) if e.kind() == io::ErrorKind::NotFound && !self.required => {}
            Err(e) => loader.file_problem(&self.file, &e),
        }
        let mut drop_ins = self.file.clone().into_os_string();
        drop_ins.push(".d");
        loader.apply_drop_ins(Path::new(&drop_ins));
        loader.finish(&self.file)
    }
}

fn read(path: &Path) -> io::Result<String> {
    let size = fs::metadata(path)?.len();
    if size > MAX_FILE {
        let message = format!("{} in size, wanted at most {}", show_bytes(size), show_bytes(MAX_FILE));
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    fs::read_to_string(path)
}

struct Loader {
    config: Config,
    /// Where each setting was last set: problems between settings are reported there.
    places: BTreeMap<&'static str, (PathBuf, usize)>,
    problems: Vec<Problem>,
}

impl Loader {
    fn file_problem(&mut self, file: &Path, error: &dyn fmt::Display) {
        let (key, message) = (String::new(), error.to_string());
        self.problems.push(Problem { file: file.to_owned(), line: None, key, message });
    }

    fn apply_drop_ins(&mut self, directory: &Path) {
        let listed = fs::read_dir(directory)
            .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>());
        let mut files = match listed {
            Ok(files) => files,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return,
            Err(e) => return self.file_problem(directory, &e),
        };
        files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
        files.sort();
        for file in files {
            match read(&file) {
                Ok(text) => self.apply(&file, &text),
                Err(e) => self.file_problem(&file, &e),
            }
        }
    }

    fn apply(&mut self, file: &Path, text: &str) {
        let line = |offset: usize| 1 + text.bytes().take(offset).filter(|b| *b == b'\n').count();
        match DeTable::parse(text) {
            Ok(table) => self.apply_table(file, &line, "", table.get_ref()),
            Err(e) => self.problems.push(Problem {
                file: file.to_owned(),
                line: e.span().map(|s| line(s.start)),
                key: String::new(),
                message: e.message().to_owned(),
            }),
        }
    }

    fn apply_table(&mut self, file: &Path, line: &dyn Fn(usize) -> usize, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            let at = line(name.span().start);
            let applied = match value.get_ref() {
                DeValue::Table(inner) if SETTINGS.iter().any(|s| s.key.starts_with(&format!("{key}."))) => {
                    self.apply_table(file, line, &format!("{key}."), inner);
                    continue;
                }
                _ => self.apply_value(&key, value),
            };
            match applied {
                Ok(setting) => drop(self.places.insert(setting.key, (file.to_owned(), at))),
                Err(message) => {
                    self.problems.push(Problem { file: file.to_owned(), line: Some(at), key, message })
                }
            }
        }
    }

    fn apply_value(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<&'static Setting, String> {
        let Some(setting) = SETTINGS.iter().find(|s| s.key == key) else {
            let prefix = key.rfind('.').map_or("", |dot| &key[..=dot]);
            let known = SETTINGS.iter().map(|s| s.key).filter(|k| k.starts_with(prefix));
            return Err(format!("unknown key, wanted one of {}", known.collect::<Vec<_>>().join(", ")));
        };
        (setting.set)(&mut self.config, value.get_ref())?;
        Ok(setting)
    }

    /// Checks settings against each other.
    fn finish(mut self, main: &Path) -> Result<Config, ConfigError> {
        let (config, limits) = (&self.config, &self.config.limits);
        let mut contradictions = Vec::new();
        if matches!(config.memory, Memory::Bytes(_)) && self.places.contains_key("memory_margin") {
            contradictions
                .push(("memory_margin", "applies to memory = \"auto\" only, but memory is a size".into()));
        }
        for (key, part, whole_key, whole) in [
            (
                "limits.connections_per_uid",
                limits.connections_per_uid,
                "limits.connections",
                limits.connections,
            ),
            ("limits.jobs_per_uid", limits.jobs_per_uid, "limits.jobs", limits.jobs),
        ] {
            // A default that an explicit smaller whole overtakes is no mistake of the operator's.
            if part > whole && self.places.contains_key(key) {
                contradictions.push((key, format!("found {part}, wanted at most {whole_key} = {whole}")));
            }
        }
        contradictions.extend(config.prover.contradictions(|key| self.places.contains_key(key)));
        for (key, message) in contradictions {
            let place = self.places.get(key);
            let file = place.map_or(main, |(file, _)| file).to_owned();
            self.problems.push(Problem { file, line: place.map(|(_, l)| *l), key: key.into(), message });
        }
        if self.problems.is_empty() { Ok(self.config) } else { Err(ConfigError(self.problems)) }
    }
}

impl Config {
    /// The keys of settings that differ between the two and take effect with a restart only.
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let changed =
            SETTINGS.iter().filter(|s| s.takes == Takes::Restart && (s.show)(self) != (s.show)(new));
        changed.map(|s| s.key).collect()
    }

    /// `new`, with the settings of [`Config::needs_restart`] as they are in `self`.
    #[must_use]
    pub fn reloaded(&self, new: &Self) -> Self {
        let mut merged = new.clone();
        for setting in SETTINGS.iter().filter(|s| s.takes == Takes::Restart) {
            (setting.keep)(&mut merged, self);
        }
        merged
    }
}

#[cfg(test)]
mod tests;
