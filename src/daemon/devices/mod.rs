//! What proves: at the start the devices are found, chosen as the configuration says, and put to the test.
//! Which device proves and which does not, whether the CPU stands in, and why, is decided here and told.
mod backend;
#[cfg(feature = "cuda")]
mod cuda;
mod gate;

use super::backend::{Backend, Quarantined};
use super::config::{Devices, Prover, Proving};
use super::cpu::CpuBackend;
use crate::gpu::{
    GpuError,
    device::{DeviceInfo, devices},
    prover::{KnownAnswer, KnownAnswerError},
};
use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};
use std::{sync::Arc, thread};

pub use backend::{Arena, DeviceBackend};

/// Constraints of the known answer.
const KNOWN_ROWS: usize = 1100;

/// What proves, and what does not.
pub struct Provers {
    /// At least one.
    pub backends: Vec<Arc<dyn Backend>>,
    /// Devices that cannot be used.
    pub quarantined: Vec<Quarantined>,
}

/// Why nothing proves.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoProver {
    /// The configuration wants devices, and there are none.
    #[error("{wanted}, but {reason}")]
    NoDevice {
        /// The settings.
        wanted: &'static str,
        /// Why there are none.
        reason: String,
    },
    /// A device that the configuration names is not there.
    #[error("prover.devices: no device {wanted}; there are: {found}")]
    NotThere {
        /// The name.
        wanted: String,
        /// All devices.
        found: String,
    },
    /// There are devices, and none can be used.
    #[error("no device can be used, and prover.cpu_fallback is false: {0}")]
    NoneUsable(String),
    /// This build has no answer to ask devices for.
    #[error(transparent)]
    NoAnswer(#[from] KnownAnswerError),
    /// The CPU's threads cannot be started.
    #[error("the prover's threads cannot be started: {0}")]
    Threads(#[from] ThreadPoolBuildError),
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// It cannot be opened.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// It has not given the known answer.
    #[error(transparent)]
    KnownAnswer(#[from] KnownAnswerError),
    /// Opening it panicked.
    #[error("opening it failed by a fault of the daemon")]
    Panicked,
}

/// Finds and opens what is to prove. `threads` is the CPU's part.
///
/// # Errors
/// [`NoProver`].
pub fn start(config: &Prover, threads: usize) -> Result<Provers, NoProver> {
    let provers = choose(config, threads, devices, |chosen| open_all(config, threads, chosen))?;
    for backend in &provers.backends {
        tracing::info!(BACKEND = backend.name(), "{} proves: {}", backend.name(), backend.why());
    }
    Ok(provers)
}

/// A device, or why it cannot be used.
pub type Opened = Result<Arc<dyn Backend>, Unusable>;

/// [`start`] with another way to find devices and to open those that are chosen.
///
/// # Errors
/// As there.
pub fn choose(
    config: &Prover,
    threads: usize,
    find: impl FnOnce() -> Result<Vec<DeviceInfo>, GpuError>,
    open: impl FnOnce(&[&DeviceInfo]) -> Result<Vec<Opened>, NoProver>,
) -> Result<Provers, NoProver> {
    let cpu = |why: String, quarantined| -> Result<_, NoProver> {
        let backends: Vec<Arc<dyn Backend>> = vec![Arc::new(CpuBackend::new(threads, why)?)];
        Ok(Provers { backends, quarantined })
    };
    if config.backend == Proving::Cpu {
        return cpu("prover.backend is \"cpu\"".into(), Vec::new());
    }
    let unusable = |reasons: String, quarantined| match config.cpu_fallback {
        true => cpu(format!("prover.cpu_fallback is true and no device can be used: {reasons}"), quarantined),
        false => Err(NoProver::NoneUsable(reasons)),
    };
    let found = match find() {
        Ok(found) if !found.is_empty() => found,
        other => {
            // A driver that fails, unlike one that is not there, hides devices.
            let hidden = !matches!(other, Ok(_) | Err(GpuError::NoDriver | GpuError::NotBuilt));
            let reason = other.err().map_or("the NVIDIA driver has no device".into(), |e| e.to_string());
            return match (config.backend, &config.devices) {
                (Proving::Cuda, _) => {
                    Err(NoProver::NoDevice { wanted: "prover.backend is \"cuda\"", reason })
                }
                (_, Devices::Named(_)) => {
                    Err(NoProver::NoDevice { wanted: "prover.devices names devices", reason })
                }
                _ if hidden => unusable(reason, Vec::new()),
                _ => cpu(reason, Vec::new()),
            };
        }
    };
    let chosen = named(&config.devices, &found)?;
    let mut backends = Vec::new();
    let mut quarantined = Vec::new();
    for (info, opened) in chosen.iter().zip(open(&chosen)?) {
        match opened {
            Ok(backend) => backends.push(backend),
            Err(unusable) => {
                let (name, device, why) = (backend::name(info), info.to_string(), unusable.to_string());
                tracing::error!(BACKEND = &name[..], "{name} is quarantined: {device}: {why}");
                quarantined.push(Quarantined { name, device, why });
            }
        }
    }
    if !backends.is_empty() {
        if config.cpu_beside {
            backends.push(Arc::new(CpuBackend::new(threads, "prover.cpu_beside is true")?));
        }
        return Ok(Provers { backends, quarantined });
    }
    let reasons: Vec<_> = quarantined.iter().map(|it| format!("{}: {}", it.device, it.why)).collect();
    unusable(reasons.join("; "), quarantined)
}

/// Opens devices side by side: each takes a second or so.
fn open_all(config: &Prover, threads: usize, chosen: &[&DeviceInfo]) -> Result<Vec<Opened>, NoProver> {
    let pool =
        ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("answer-{i}")).build()?;
    let known = pool.install(|| KnownAnswer::new(KNOWN_ROWS))?;
    let open = |info| open(info, config, &known);
    let open = &open;
    Ok(thread::scope(|scope| {
        let opening: Vec<_> = chosen.iter().map(|info| scope.spawn(move || open(info))).collect();
        opening.into_iter().map(|it| it.join().unwrap_or(Err(Unusable::Panicked))).collect()
    }))
}

#[cfg(feature = "cuda")]
use cuda::open;

/// There are no devices for a build without CUDA.
#[cfg(not(feature = "cuda"))]
fn open(_: &DeviceInfo, _: &Prover, _: &KnownAnswer) -> Opened {
    Err(GpuError::NotBuilt.into())
}

/// The devices of these names, each once, in the driver's order.
fn named<'a>(wanted: &Devices, found: &'a [DeviceInfo]) -> Result<Vec<&'a DeviceInfo>, NoProver> {
    let Devices::Named(names) = wanted else { return Ok(found.iter().collect()) };
    for wanted in names {
        if !found.iter().any(|info| info.is_named(wanted)) {
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            return Err(NoProver::NotThere { wanted: wanted.clone(), found: found.join(", ") });
        }
    }
    Ok(found.iter().filter(|info| names.iter().any(|name| info.is_named(name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Devices 0, 1, … of these models.
    fn found(models: &[&str]) -> Vec<DeviceInfo> {
        let device = |(index, model): (u32, &&str)| DeviceInfo {
            index,
            name: (*model).to_owned(),
            uuid: format!("GPU-{index}0000000-0000-0000-0000-000000000000"),
            pci: format!("0000:{index:02x}:00.0"),
            capability: (9, 0),
            multiprocessors: 1,
            memory: 1 << 30,
            shared_bytes_per_block: 1 << 16,
        };
        (0..).zip(models).map(device).collect()
    }

    /// Those whose model begins with "good" open (as the CPU under another reason), the others do not.
    fn open(chosen: &[&DeviceInfo]) -> Result<Vec<Opened>, NoProver> {
        let open = |info: &&DeviceInfo| -> Opened {
            if info.name.starts_with("good") {
                return Ok(Arc::new(CpuBackend::new(1, info.name.clone()).unwrap()));
            }
            let (device, name, wanted) = (info.uuid.clone(), info.name.clone(), "sm_80".into());
            Err(GpuError::Architecture { device, name, found: "sm_70".into(), wanted }.into())
        };
        Ok(chosen.iter().map(open).collect())
    }

    fn choice(config: &Prover, models: &[&str]) -> Result<Provers, NoProver> {
        choose(config, 1, || Ok(found(models)), open)
    }

    /// The reasons of what proves, and the names of what does not.
    fn told(provers: &Provers) -> (Vec<&str>, Vec<&str>) {
        (
            provers.backends.iter().map(|backend| backend.why()).collect(),
            provers.quarantined.iter().map(|it| &it.name[..]).collect(),
        )
    }

    fn refused(config: &Prover, models: &[&str]) -> String {
        choice(config, models).err().expect("a refusal").to_string()
    }

    fn config(backend: Proving, devices: Devices, cpu_fallback: bool) -> Prover {
        Prover { backend, devices, cpu_fallback, ..Prover::default() }
    }

    #[test]
    fn devices_prove_and_bad_ones_are_quarantined_by_name() {
        for backend in [Proving::Auto, Proving::Cuda] {
            let provers =
                choice(&config(backend, Devices::All, false), &["good a", "old", "good b"]).unwrap();
            assert_eq!(told(&provers), (vec!["good a", "good b"], vec!["cuda:GPU-10000000"]));
            let quarantined = &provers.quarantined[0];
            assert!(
                quarantined.why.contains("sm_70") && quarantined.why.contains("sm_80"),
                "{quarantined:?}"
            );
            assert!(quarantined.device.contains("old (GPU-10000000-"), "{quarantined:?}");
        }
    }

    #[test]
    fn without_devices_the_cpu_proves_and_says_why() {
        let auto = Prover::default();
        for (error, needle) in [(GpuError::NoDriver, "libcuda"), (GpuError::NotBuilt, "feature `cuda`")] {
            let provers = choose(&auto, 1, || Err(error), open).unwrap();
            assert_eq!(provers.backends[0].name(), "cpu");
            assert!(provers.backends[0].why().contains(needle), "{}", provers.backends[0].why());
        }
        let provers = choice(&auto, &[]).unwrap();
        assert!(provers.backends[0].why().contains("no device"), "{}", provers.backends[0].why());
        let cpu = choose(
            &config(Proving::Cpu, Devices::All, false),
            1,
            || panic!("nobody looks for devices"),
            |_| panic!("nor opens them"),
        );
        assert_eq!(told(&cpu.unwrap()).0, ["prover.backend is \"cpu\""]);
    }

    #[test]
    fn a_driver_that_fails_is_no_reason_to_prove_on_the_cpu_unasked() {
        let old = || GpuError::DriverTooOld { found: "11.8".into(), wanted: "13.0".into() };
        let mismatch = || GpuError::Driver {
            call: "result::init()",
            name: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH".into(),
            code: 803,
            meaning: "driver and library differ".into(),
            file: "driver.rs",
            line: 1,
        };
        for error in [old(), mismatch()] {
            let needle = error.to_string();
            let none = config(Proving::Auto, Devices::All, false);
            let refusal = choose(&none, 1, || Err(error.clone()), open).err().expect("a refusal").to_string();
            assert!(
                refusal.contains("prover.cpu_fallback is false") && refusal.contains(&needle),
                "{refusal}"
            );
            let fallback = config(Proving::Auto, Devices::All, true);
            let provers = choose(&fallback, 1, || Err(error), open).unwrap();
            let why = provers.backends[0].why();
            assert!(why.contains("cpu_fallback is true") && why.contains(&needle), "{why}");
        }
    }

    #[test]
    fn whoever_demands_devices_gets_them_or_a_refusal() {
        let cuda = config(Proving::Cuda, Devices::All, false);
        assert!(refused(&cuda, &[]).contains("prover.backend is \"cuda\", but"));
        let named = config(Proving::Auto, Devices::Named(vec!["GPU-00000000".into()]), true);
        assert!(refused(&named, &[]).contains("prover.devices names devices, but"));
        let none = config(Proving::Auto, Devices::All, false);
        let refusal = refused(&none, &["old a", "old b"]);
        for needle in ["cpu_fallback", "old a (GPU-0", "old b (GPU-1", "sm_70"] {
            assert!(refusal.contains(needle), "{refusal}");
        }
        let fallback = config(Proving::Auto, Devices::All, true);
        let provers = choice(&fallback, &["old a", "old b"]).unwrap();
        let (why, quarantined) = told(&provers);
        assert!(why[0].contains("cpu_fallback is true") && why[0].contains("old b"), "{why:?}");
        assert_eq!(quarantined, ["cuda:GPU-00000000", "cuda:GPU-10000000"]);
        let beside = Prover { cpu_beside: true, ..Prover::default() };
        assert_eq!(told(&choice(&beside, &["good"]).unwrap()).0, ["good", "prover.cpu_beside is true"]);
        assert!(choice(&beside, &["old"]).is_err(), "beside devices, not instead of them");
        // It is there for the case that no device proves, and for no other.
        assert_eq!(told(&choice(&fallback, &["old", "good"]).unwrap()).0, ["good"]);
    }

    #[test]
    fn devices_are_chosen_by_name() {
        let models = ["good a", "good b", "good c"];
        let named = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            config(Proving::Auto, Devices::Named(names), false)
        };
        for (names, wanted) in [
            (&["GPU-20000000", "GPU-00000000"][..], &["good a", "good c"][..]),
            (&["GPU-10000000"], &["good b"]),
            (&["0000:02:00.0", "GPU-20000000"], &["good c"]),
        ] {
            assert_eq!(told(&choice(&named(names), &models).unwrap()).0, wanted, "{names:?}");
        }
        for (name, text) in [("3", "no device 3;"), ("GPU-dead0000", "no device GPU-dead")] {
            let refusal = refused(&named(&["GPU-00000000", name]), &models);
            assert!(refusal.contains(text) && refusal.contains("good b (GPU-10000000"), "{refusal}");
        }
    }
}
