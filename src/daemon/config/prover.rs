//! Settings of what proves: devices, the CPU, or whatever there is.
use super::settings::{found, integer, quote, text, wanted};
use crate::units::{parse_bytes, show_bytes};
use std::time::Duration;
use toml::de::DeValue;

/// More partitions at once than this only hold memory.
const MAX_SLOTS: usize = 8;

/// What is to prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proving {
    /// The devices, or the CPU where there are none.
    Auto,
    /// The devices; without any the daemon does not start.
    Cuda,
    /// The CPU, whatever else there is.
    Cpu,
}

/// Which devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// All that the driver knows.
    All,
    /// Those of these UUIDs and PCI addresses, which must be there. A driver's number is no name: it may be another device's
    /// after the next start.
    Named(Vec<String>),
}

/// What is to prove, and in how much memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prover {
    /// Devices, the CPU, or whatever there is.
    pub backend: Proving,
    /// Which devices.
    pub devices: Devices,
    /// Bytes that are taken of each device's memory; None: nearly all that is free.
    pub device_memory: Option<u64>,
    /// Partitions that a device takes on at once: one is computed, the others are made ready or brought to an end.
    pub slots: usize,
    /// Whether the CPU proves beside the devices, too.
    pub cpu_beside: bool,
    /// How long a partition may be overtaken by others of its priority whose circuit is on the device already.
    pub patience: Duration,
    /// Whether the CPU proves where there are devices, but none of them can be used.
    pub cpu_fallback: bool,
    /// A fault of the devices, for tests; the command line's.
    #[cfg(feature = "fault-injection")]
    pub fault: Option<crate::gpu::fault::Injection>,
}

impl Default for Prover {
    fn default() -> Self {
        Self {
            backend: Proving::Auto,
            devices: Devices::All,
            device_memory: None,
            slots: 2,
            cpu_beside: false,
            patience: Duration::from_secs(2),
            cpu_fallback: false,
            #[cfg(feature = "fault-injection")]
            fault: None,
        }
    }
}

pub(super) fn backend(value: &DeValue<'_>) -> Result<Proving, String> {
    let what = "\"auto\", \"cuda\" or \"cpu\"";
    match text(value, what)? {
        "auto" => Ok(Proving::Auto),
        "cuda" => Ok(Proving::Cuda),
        "cpu" => Ok(Proving::Cpu),
        _ => Err(wanted(value, what)),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the table holds functions of references")]
pub(super) fn show_backend(backend: &Proving) -> String {
    quote(match backend {
        Proving::Auto => "auto",
        Proving::Cuda => "cuda",
        Proving::Cpu => "cpu",
    })
}

pub(super) fn devices(value: &DeValue<'_>) -> Result<Devices, String> {
    const WANTED: &str = "\"all\", or a list of UUIDs and PCI addresses, such as [\"GPU-6f0a1b2c\"]";
    if value.as_str() == Some("all") {
        return Ok(Devices::All);
    }
    let list = value.as_array().filter(|list| !list.is_empty()).ok_or_else(|| wanted(value, WANTED))?;
    let name = |value: &DeValue<'_>| match value {
        DeValue::String(id) if !id.is_empty() => Ok(id.to_string()),
        _ => Err(format!("found {} in the list, wanted {WANTED}", found(value))),
    };
    Ok(Devices::Named(list.iter().map(|value| name(value.get_ref())).collect::<Result<_, _>>()?))
}

pub(super) fn show_devices(devices: &Devices) -> String {
    let Devices::Named(names) = devices else { return quote("all") };
    let names = names.iter().map(|name| format!("{name:?}"));
    format!("[{}]", names.collect::<Vec<_>>().join(", "))
}

pub(super) fn device_memory(value: &DeValue<'_>) -> Result<Option<u64>, String> {
    match text(value, "\"auto\" or a size in quotes, such as \"16GiB\"")? {
        "auto" => Ok(None),
        size => match parse_bytes(size) {
            Ok(0) => Err(wanted(value, "more than nothing")),
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) => Err(format!("{e}, or \"auto\"")),
        },
    }
}

pub(super) fn show_device_memory(memory: &Option<u64>) -> String {
    quote(&memory.map_or("auto".into(), show_bytes))
}

pub(super) fn slots(value: &DeValue<'_>) -> Result<usize, String> {
    let number = integer(value).filter(|n| (1..=MAX_SLOTS).contains(n));
    number.ok_or_else(|| wanted(value, &format!("a number from 1 to {MAX_SLOTS}")))
}

pub(super) fn truth(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| wanted(value, "true or false"))
}

impl Prover {
    /// Settings among `set` that have no effect beside another one, each with the reason.
    pub(super) fn contradictions(&self, set: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
        let (keys, wanted) = match self.backend {
            Proving::Auto => return Vec::new(),
            Proving::Cuda => (&["prover.cpu_fallback"][..], "\"auto\""),
            Proving::Cpu => (
                &[
                    "prover.devices",
                    "prover.device_memory",
                    "prover.slots",
                    "prover.cpu_beside",
                    "prover.patience",
                    "prover.cpu_fallback",
                ][..],
                "\"auto\" or \"cuda\"",
            ),
        };
        let found = show_backend(&self.backend);
        let keys = keys.iter().copied().filter(|key| set(key));
        keys.map(|key| (key, format!("found prover.backend = {found} beside it, wanted {wanted}"))).collect()
    }
}
