//! The compiled kernels, embedded, and the architectures they were compiled for.
use super::{GpuError, device::DeviceInfo};

/// (source's name, fat binary), one per `cuda/*.cu`.
pub(super) const FATBINS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/fatbins.rs"));

/// Architectures with machine code, as in "75,80,90"; of the last one there is PTX too.
const ARCHITECTURES: &str = env!("CUZK_CUDA_ARCHITECTURE_LIST");

/// Version of the toolkit that compiled them, major.minor.
pub const TOOLKIT: &str = env!("CUZK_CUDA_TOOLKIT");

/// Architectures in this build, for people: "sm_80, sm_90, PTX of sm_90".
pub fn architectures() -> String {
    let mut names: Vec<String> = ARCHITECTURES.split(',').map(|a| format!("sm_{a}")).collect();
    names.extend(names.last().map(|newest| format!("PTX of {newest}")));
    names.join(", ")
}

/// Refuses a device that none of the kernels run on.
pub(super) fn check_architecture(device: &DeviceInfo) -> Result<(), GpuError> {
    if runs_on(ARCHITECTURES, device.capability) {
        return Ok(());
    }
    let (major, minor) = device.capability;
    Err(GpuError::Architecture {
        device: device.uuid.clone(),
        name: device.name.clone(),
        found: format!("sm_{major}{minor}"),
        wanted: architectures(),
    })
}

/// Machine code runs on its own major version from its minor version on, PTX on all that is newer.
fn runs_on(architectures: &str, (major, minor): (u32, u32)) -> bool {
    let listed: Vec<u32> = architectures.split(',').filter_map(|a| a.parse().ok()).collect();
    let device = 10 * major + minor;
    let native = listed.iter().any(|a| a / 10 == major && a % 10 <= minor);
    native || listed.last().is_some_and(|&newest| newest <= device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_matched_like_the_driver_does() {
        let all = "75,80,86,89,90,100,120";
        for (capability, runs) in [
            ((7, 0), false),
            ((7, 2), false),
            ((7, 5), true),
            ((8, 0), true),
            ((8, 7), true),
            ((8, 9), true),
            ((9, 0), true),
            ((10, 3), true),
            ((11, 0), false),
            ((12, 1), true),
            ((13, 0), true),
        ] {
            assert_eq!(runs_on(all, capability), runs, "{capability:?}");
        }
        assert!(!runs_on("90", (8, 9)) && runs_on("90", (9, 0)) && runs_on("90", (10, 0)));
        assert!(runs_on("89,90", (8, 9)) && !runs_on("89,90", (8, 6)));
    }
}
