//! The table of settings: for each key how its value is read, shown and kept, and when a change takes effect.
use super::{Config, Memory, prover};
use crate::units::{parse_bytes, parse_duration, show_bytes, show_duration};
use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};
use toml::de::DeValue;

/// When a changed setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// With the next reload (SIGHUP).
    Reload,
    /// With the next start of the daemon.
    Restart,
}

/// One setting of [`Config`].
pub(super) struct Setting {
    /// Full key, such as `limits.jobs`.
    pub(super) key: &'static str,
    pub(super) takes: Takes,
    /// Reads the value; the message of a failure states what was found and what was wanted.
    pub(super) set: fn(&mut Config, &DeValue<'_>) -> Result<(), String>,
    /// The value as TOML.
    pub(super) show: fn(&Config) -> String,
    /// Copies the value from the second configuration.
    pub(super) keep: fn(&mut Config, &Config),
}

/// One row of the table: the key, when it takes effect, its field, and its reader and writer.
macro_rules! setting {
    ($key:literal, $takes:ident, $($field:ident).+, $read:expr, $show:expr) => {
        Setting {
            key: $key,
            takes: Takes::$takes,
            set: |config, value| {
                config.$($field).+ = $read(value)?;
                Ok(())
            },
            show: |config| $show(&config.$($field).+),
            keep: |config, old| config.$($field).+ = old.$($field).+.clone(),
        }
    };
}

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    setting!("socket", Restart, socket, socket_path, show_path),
    setting!("socket_mode", Restart, socket_mode, mode, |m: &u32| format!("\"{m:04o}\"")),
    setting!("state_dir", Restart, state_dir, path, show_path),
    setting!("circuits_dir", Reload, circuits_dir, path, show_path),
    setting!("memory", Restart, memory, memory, show_memory),
    setting!("memory_margin", Restart, memory_margin, bytes, |b: &u64| quote(&show_bytes(*b))),
    setting!("threads", Restart, threads, threads, usize::to_string),
    setting!("prover.backend", Restart, prover.backend, prover::backend, prover::show_backend),
    setting!("prover.devices", Restart, prover.devices, prover::devices, prover::show_devices),
    setting!("prover.device_memory", Restart, prover.device_memory, prover::device_memory, prover::show_device_memory),
    setting!("prover.slots", Restart, prover.slots, prover::slots, usize::to_string),
    setting!("prover.cpu_beside", Restart, prover.cpu_beside, prover::truth, bool::to_string),
    setting!("prover.patience", Restart, prover.patience, duration, |d: &Duration| quote(&show_duration(*d))),
    setting!("prover.cpu_fallback", Restart, prover.cpu_fallback, prover::truth, bool::to_string),
    setting!("result_ttl", Reload, result_ttl, duration, |d: &Duration| quote(&show_duration(*d))),
    setting!("stop_timeout", Reload, stop_timeout, duration, |d: &Duration| quote(&show_duration(*d))),
    setting!("log", Reload, log, level, |l: &tracing::Level| quote(&l.to_string().to_lowercase())),
    setting!("http", Restart, http, http, show_http),
    setting!("limits.connections", Reload, limits.connections, count, u32::to_string),
    setting!("limits.connections_per_uid", Reload, limits.connections_per_uid, count, u32::to_string),
    setting!("limits.requests_per_connection", Reload, limits.requests_per_connection, count, u32::to_string),
    setting!("limits.jobs", Reload, limits.jobs, count, u32::to_string),
    setting!("limits.jobs_per_uid", Reload, limits.jobs_per_uid, count, u32::to_string),
    setting!("limits.result_bytes", Reload, limits.result_bytes, bytes, |b: &u64| quote(&show_bytes(*b))),
    setting!("limits.result_bytes_per_uid", Reload, limits.result_bytes_per_uid, bytes, |b: &u64| quote(&show_bytes(*b))),
    setting!("limits.leases_per_uid", Reload, limits.leases_per_uid, count, u32::to_string),
    setting!("limits.bytes_per_uid", Reload, limits.bytes_per_uid, some_bytes, show_some_bytes),
];

/// sockaddr_un holds 108 bytes with the final NUL; the daemon binds at the path with `.new` added first.
const MAX_SOCKET_PATH: usize = 108 - 1 - ".new".len();
const MAX_THREADS: usize = 4096;
const MAX_COUNT: u32 = 1_000_000;

pub(super) fn quote(text: &str) -> String {
    format!("\"{text}\"")
}

#[expect(clippy::ptr_arg, reason = "the table holds functions of a setting's own type")]
fn show_path(path: &PathBuf) -> String {
    format!("{:?}", path.display().to_string())
}

fn show_memory(memory: &Memory) -> String {
    match memory {
        Memory::Auto => quote("auto"),
        Memory::Bytes(bytes) => quote(&show_bytes(*bytes)),
    }
}

fn show_some_bytes(bytes: &Option<u64>) -> String {
    quote(&bytes.map_or("unlimited".into(), show_bytes))
}

/// What stands in the file, for a message.
pub(super) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        other => format!("a value of type {}", other.type_str()),
    }
}

pub(super) fn wanted(value: &DeValue<'_>, what: &str) -> String {
    format!("found {}, wanted {what}", found(value))
}

pub(super) fn text<'v>(value: &'v DeValue<'_>, what: &str) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| wanted(value, what))
}

fn path(value: &DeValue<'_>) -> Result<PathBuf, String> {
    let what = "an absolute path, in quotes";
    let path = PathBuf::from(text(value, what)?);
    if path.is_absolute() { Ok(path) } else { Err(wanted(value, what)) }
}

fn socket_path(value: &DeValue<'_>) -> Result<PathBuf, String> {
    let path = path(value)?;
    let bytes = path.as_os_str().len();
    if bytes > MAX_SOCKET_PATH {
        return Err(format!("found a path of {bytes} bytes, wanted at most {MAX_SOCKET_PATH}"));
    }
    if path.file_name().is_none() {
        return Err(wanted(value, "the path of a file"));
    }
    Ok(path)
}

fn mode(value: &DeValue<'_>) -> Result<u32, String> {
    let what = "octal permission bits from \"0600\" to \"0666\", in quotes";
    let digits = text(value, what)?;
    let plain = (3..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if plain && mode & !0o666 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        _ => Err(wanted(value, what)),
    }
}

fn http(value: &DeValue<'_>) -> Result<Option<SocketAddr>, String> {
    let what = "\"off\", or a loopback address with its port, such as \"127.0.0.1:9464\"";
    match text(value, what)? {
        "off" => Ok(None),
        address => match address.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() && address.port() != 0 => Ok(Some(address)),
            _ => Err(wanted(value, what)),
        },
    }
}

fn show_http(http: &Option<SocketAddr>) -> String {
    quote(&http.map_or("off".into(), |address| address.to_string()))
}

fn bytes(value: &DeValue<'_>) -> Result<u64, String> {
    parse_bytes(text(value, "a size in quotes, such as \"16GiB\"")?).map_err(|e| e.to_string())
}

fn some_bytes(value: &DeValue<'_>) -> Result<Option<u64>, String> {
    match text(value, "\"unlimited\" or a size in quotes, such as \"16GiB\"")? {
        "unlimited" => Ok(None),
        size => parse_bytes(size).map(Some).map_err(|e| format!("{e}, or \"unlimited\"")),
    }
}

fn memory(value: &DeValue<'_>) -> Result<Memory, String> {
    match text(value, "\"auto\" or a size in quotes, such as \"16GiB\"")? {
        "auto" => Ok(Memory::Auto),
        size => match parse_bytes(size) {
            Ok(0) => Err(wanted(value, "more than nothing")),
            Ok(bytes) => Ok(Memory::Bytes(bytes)),
            Err(e) => Err(format!("{e}, or \"auto\"")),
        },
    }
}

fn duration(value: &DeValue<'_>) -> Result<Duration, String> {
    parse_duration(text(value, "a duration in quotes, such as \"30s\"")?).map_err(|e| e.to_string())
}

pub(super) fn integer<T: FromStr>(value: &DeValue<'_>) -> Option<T> {
    value.as_integer().filter(|n| n.radix() == 10).and_then(|n| n.as_str().replace('_', "").parse().ok())
}

fn threads(value: &DeValue<'_>) -> Result<usize, String> {
    if value.as_str() == Some("auto") {
        return Ok(super::available_threads());
    }
    let number = integer(value).filter(|n| (1..=MAX_THREADS).contains(n));
    number.ok_or_else(|| wanted(value, &format!("\"auto\" or a number from 1 to {MAX_THREADS}")))
}

fn count(value: &DeValue<'_>) -> Result<u32, String> {
    let number = integer(value).filter(|n| (1..=MAX_COUNT).contains(n));
    number.ok_or_else(|| wanted(value, &format!("a number from 1 to {MAX_COUNT}")))
}

fn level(value: &DeValue<'_>) -> Result<tracing::Level, String> {
    let what = "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"";
    match text(value, what)? {
        "error" => Ok(tracing::Level::ERROR),
        "warn" => Ok(tracing::Level::WARN),
        "info" => Ok(tracing::Level::INFO),
        "debug" => Ok(tracing::Level::DEBUG),
        "trace" => Ok(tracing::Level::TRACE),
        _ => Err(wanted(value, what)),
    }
}
