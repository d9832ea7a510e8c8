//! Names of what is in the store. A memfd is there once, under a name made of its device and inode: a lease that serves
//! one job after another, or a memfd that its owner submits twice, is the same entry, which the service
//! manager would otherwise take for a repetition and forget under the second name.
//!
//! Names are short, for all of them come back in one variable of the environment (`LISTEN_FDNAMES`), and the kernel
//! takes 128 KiB for one.
use nix::sys::stat::fstat;
use std::{io, os::fd::AsFd};

/// Bytes of all names, a separator each, that the environment has room for beside the sockets' own.
pub const MAX_NAMES_BYTES: usize = 120 << 10;

/// The name of what is stored only to see whether the store takes it.
pub const PROBE: &str = "cuzk-probe";
const JOB: &str = "cuzk-j";
const WITNESS: &str = "cuzk-w";

/// What an entry of the store is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A job's journal.
    Job,
    /// A witness's memfd.
    Witness,
    /// Left by a process that did not live to remove it.
    Probe,
}

impl Kind {
    /// What this name stands for; None for names of others, such as a socket's.
    pub fn of(name: &str) -> Option<Self> {
        [(JOB, Self::Job), (WITNESS, Self::Witness), (PROBE, Self::Probe)]
            .into_iter()
            .find_map(|(prefix, kind)| name.starts_with(prefix).then_some(kind))
    }
}

fn name(prefix: &str, memfd: impl AsFd) -> io::Result<String> {
    let found = fstat(memfd)?;
    Ok(format!("{prefix}{:x}.{:x}", found.st_dev, found.st_ino))
}

/// The name of a job's journal.
///
/// # Errors
/// The descriptor cannot be looked at.
pub fn of_journal(memfd: impl AsFd) -> io::Result<String> {
    name(JOB, memfd)
}

/// The name of a witness's memfd.
///
/// # Errors
/// The descriptor cannot be looked at.
pub fn of_witness(memfd: impl AsFd) -> io::Result<String> {
    name(WITNESS, memfd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::{PageSize, memfd};

    #[test]
    fn a_memfd_has_one_name_and_two_have_two() {
        let [one, other] = [(); 2].map(|()| memfd::create(c"cuzk-test", PageSize::Base).unwrap());
        let name = of_witness(&one).unwrap();
        assert_eq!(name, of_witness(one.try_clone().unwrap()).unwrap());
        assert_ne!(name, of_witness(&other).unwrap());
        assert_eq!(Kind::of(&name), Some(Kind::Witness));
        assert_eq!(Kind::of(&of_journal(&one).unwrap()), Some(Kind::Job));
        assert_eq!(Kind::of(PROBE), Some(Kind::Probe));
        for others in ["cuzk.socket", "stored", "unknown", ""] {
            assert_eq!(Kind::of(others), None);
        }
        // The longest of 4,096 names still find room.
        let longest = format!("{WITNESS}{:x}.{:x}", u32::MAX, u64::MAX);
        assert!(longest.len() < 255 && 3000 * (longest.len() + 1) < MAX_NAMES_BYTES);
        assert!(4096 * "cuzk-w1f.ffffffffff:".len() < MAX_NAMES_BYTES);
    }
}
