//! How much memory this host lets the daemon have: MemTotal, and the limits of the daemon's control
//! group and of every group above it (cgroup v2), of which the tightest counts.
use crate::units::{about_bytes, show_bytes};
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// The kernel's files that tell.
#[derive(Clone, Debug)]
pub struct HostFiles {
    /// /proc/meminfo
    pub meminfo: PathBuf,
    /// /proc/self/cgroup
    pub membership: PathBuf,
    /// Where the cgroup v2 tree is mounted.
    pub cgroups: PathBuf,
}

impl Default for HostFiles {
    fn default() -> Self {
        Self {
            meminfo: "/proc/meminfo".into(),
            membership: "/proc/self/cgroup".into(),
            cgroups: "/sys/fs/cgroup".into(),
        }
    }
}

/// Bytes that the kernel counts as this process's own, now and at most; zero where it does not tell.
pub fn resident() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    (of("VmRSS:").unwrap_or(0) << 10, of("VmHWM:").unwrap_or(0) << 10)
}

/// Why the budget cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A file of the kernel's cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the kernel's does not say what it should.
    #[error("{}: found {found:?}, wanted {wanted}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What it should say.
        wanted: &'static str,
    },
    /// The margin leaves nothing.
    #[error("memory_margin is {}, wanted less than {bound}'s {}", show_bytes(*margin), about_bytes(*limit))]
    Margin {
        /// The configured margin, in bytes.
        margin: u64,
        /// The tightest limit, in bytes.
        limit: u64,
        /// Where that limit comes from.
        bound: String,
    },
}

/// The tightest limit on this process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// In bytes.
    pub bytes: u64,
    /// What sets it: "MemTotal", or a file of a control group.
    pub source: String,
}

impl HostFiles {
    /// The tightest of MemTotal and the `memory.max` and `memory.high` of the control groups from this
    /// process's own up to the root.
    ///
    /// # Errors
    /// [`HostError::Io`] and [`HostError::Content`]. A group without a memory controller has no limit.
    pub fn memory_limit(&self) -> Result<Limit, HostError> {
        let mut limit = Limit { bytes: self.mem_total()?, source: "MemTotal".into() };
        let Some(group) = self.group()? else { return Ok(limit) };
        let mut directory = self.cgroups.join(&group);
        loop {
            for file in ["memory.max", "memory.high"] {
                let path = directory.join(file);
                if let Some(bytes) = group_limit(&path)?
                    && bytes < limit.bytes
                {
                    limit = Limit { bytes, source: path.display().to_string() };
                }
            }
            if directory == self.cgroups || !directory.pop() {
                return Ok(limit);
            }
        }
    }

    /// [`HostFiles::memory_limit`] less `margin` bytes.
    ///
    /// # Errors
    /// As there, and [`HostError::Margin`].
    pub fn budget(&self, margin: u64) -> Result<u64, HostError> {
        let Limit { bytes, source } = self.memory_limit()?;
        match bytes.checked_sub(margin) {
            Some(budget) if budget > 0 => Ok(budget),
            _ => Err(HostError::Margin { margin, limit: bytes, bound: source }),
        }
    }

    fn mem_total(&self) -> Result<u64, HostError> {
        let text = read(&self.meminfo)?;
        let line = text.lines().find(|l| l.starts_with("MemTotal:")).unwrap_or_default();
        let kib = line.strip_prefix("MemTotal:").and_then(|rest| rest.trim().strip_suffix(" kB"));
        let bytes = kib.and_then(|n| n.trim().parse::<u64>().ok()).and_then(|n| n.checked_mul(1024));
        bytes.ok_or_else(|| HostError::Content {
            path: self.meminfo.clone(),
            found: line.to_owned(),
            wanted: "a line \"MemTotal: N kB\"",
        })
    }

    /// This process's group, relative to the root; None where there is no cgroup v2.
    fn group(&self) -> Result<Option<PathBuf>, HostError> {
        let text = match read(&self.membership) {
            Err(HostError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let group = text.lines().find_map(|l| l.strip_prefix("0::")).map(|group| {
            // A process outside its namespace's root sees "/../..": only the root is visible to it then.
            let outside = Path::new(group).components().any(|c| c == Component::ParentDir);
            if outside { PathBuf::new() } else { PathBuf::from(group.trim_start_matches('/')) }
        });
        Ok(group)
    }
}

fn read(path: &Path) -> Result<String, HostError> {
    fs::read_to_string(path).map_err(|source| HostError::Io { path: path.to_owned(), source })
}

/// A group's limit; None for "max" and where the file is absent.
fn group_limit(path: &Path) -> Result<Option<u64>, HostError> {
    let text = match read(path) {
        Err(HostError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    match text.trim() {
        "max" => Ok(None),
        number => number.parse().map(Some).map_err(|_| HostError::Content {
            path: path.to_owned(),
            found: number.to_owned(),
            wanted: "a number of bytes or \"max\"",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_resident() {
        let (now, most) = resident();
        assert!(now > 1 << 20 && most >= now, "{now} {most}");
    }

    const GIB: u64 = 1 << 30;

    /// A host of 8 GiB whose process is in the given group; `files` are the tree's.
    fn host(membership: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, HostFiles) {
        let dir = tempfile::tempdir().unwrap();
        let at = HostFiles {
            meminfo: dir.path().join("meminfo"),
            membership: dir.path().join("cgroup"),
            cgroups: dir.path().join("tree"),
        };
        fs::write(&at.meminfo, "MemTotal:        8388608 kB\nMemFree:          100 kB\n").unwrap();
        fs::write(&at.membership, membership).unwrap();
        for (name, text) in files {
            let path = at.cgroups.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (dir, at)
    }

    #[test]
    fn the_tightest_limit_counts() {
        let own = "0::/system.slice/cuzk.service\n";
        for (membership, files, bytes, source) in [
            (own, &[][..], 8 * GIB, "MemTotal"),
            (own, &[("system.slice/cuzk.service/memory.max", "max\n")], 8 * GIB, "MemTotal"),
            (
                own,
                &[("system.slice/cuzk.service/memory.max", "2147483648\n")],
                2 * GIB,
                "cuzk.service/memory.max",
            ),
            (
                own,
                &[("system.slice/cuzk.service/memory.high", "1073741824\n")],
                GIB,
                "cuzk.service/memory.high",
            ),
            (
                own,
                &[
                    ("system.slice/memory.max", "3221225472\n"),
                    ("system.slice/cuzk.service/memory.max", "max"),
                ],
                3 * GIB,
                "system.slice/memory.max",
            ),
            (own, &[("memory.max", "4294967296\n")], 4 * GIB, "tree/memory.max"),
            (own, &[("memory.max", "99999999999999")], 8 * GIB, "MemTotal"),
            (own, &[("other.slice/memory.max", "1")], 8 * GIB, "MemTotal"),
            ("4:memory:/a\n0::/\n", &[("memory.max", "1073741824")], GIB, "tree/memory.max"),
            ("0::/../..\n", &[("memory.max", "1073741824")], GIB, "tree/memory.max"),
            ("4:memory:/a\n", &[("memory.max", "1")], 8 * GIB, "MemTotal"),
        ] {
            let (_dir, host) = host(membership, files);
            let limit = host.memory_limit().unwrap();
            assert_eq!(limit.bytes, bytes, "{membership} {files:?}");
            assert!(limit.source.ends_with(source), "{limit:?}");
        }
    }

    #[test]
    fn the_margin_is_left_to_others() {
        let (_dir, host) = host("0::/a\n", &[("a/memory.max", "2147483648")]);
        assert_eq!(host.budget(GIB).unwrap(), GIB);
        let error = host.budget(2 * GIB).unwrap_err().to_string();
        assert!(error.contains("2GiB") && error.contains("a/memory.max"), "{error}");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let (_dir, mut at) = host("0::/a\n", &[("a/memory.max", "lots")]);
        let error = at.memory_limit().unwrap_err().to_string();
        assert!(error.contains("a/memory.max") && error.contains("\"lots\""), "{error}");
        fs::write(&at.meminfo, "MemTotal: much\n").unwrap();
        assert!(at.memory_limit().unwrap_err().to_string().contains("MemTotal: much"));
        at.meminfo.push("absent");
        assert!(matches!(at.memory_limit(), Err(HostError::Io { .. })));
    }

    #[test]
    fn this_host_has_a_limit() {
        assert!(HostFiles::default().memory_limit().unwrap().bytes > 0);
    }
}
