//! Memory files: their creation and their seals.
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use std::{
    ffi::CStr,
    fmt, io,
    os::fd::{AsFd, OwnedFd},
};

/// Pages that back a memfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// The system's usual pages.
    Base,
    /// Huge pages, from the pool that the administrator reserved (`vm.nr_hugepages`).
    Huge,
}

impl PageSize {
    /// The page's size in bytes on x86-64.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Base => 4096,
            Self::Huge => 2 << 20,
        }
    }
}

/// A new, empty memfd: close-on-exec, sealable, and never executable where the kernel (6.3 and later)
/// can promise that. `name` shows in `/proc/PID/maps`.
pub fn create(name: &CStr, pages: PageSize) -> io::Result<OwnedFd> {
    let mut flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    if pages == PageSize::Huge {
        flags |= MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB;
    }
    let no_exec = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    match memfd_create(name, flags | no_exec) {
        // An older kernel refuses the flag that it does not know.
        Err(Errno::EINVAL) => Ok(memfd_create(name, flags)?),
        result => Ok(result?),
    }
}

/// What is sealed about a memfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seals(SealFlag);

impl Seals {
    /// The size is fixed: no access within it can fault.
    pub const FIXED_SIZE: Self = Self(SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW));
    /// Size and content are fixed.
    pub const IMMUTABLE: Self = Self(Self::FIXED_SIZE.0.union(SealFlag::F_SEAL_WRITE));

    /// The same, and no seal can be added any more.
    pub const fn and_no_more(self) -> Self {
        Self(self.0.union(SealFlag::F_SEAL_SEAL))
    }

    /// The seals of a memfd. EINVAL and EBADF say that the descriptor is none.
    pub fn of(memfd: impl AsFd) -> io::Result<Self> {
        Ok(Self(SealFlag::from_bits_retain(fcntl(memfd, FcntlArg::F_GET_SEALS)?)))
    }

    /// Adds these seals to a memfd. EBUSY: `IMMUTABLE` was wanted while a writable mapping exists.
    pub fn add_to(self, memfd: impl AsFd) -> io::Result<()> {
        fcntl(memfd, FcntlArg::F_ADD_SEALS(self.0))?;
        Ok(())
    }

    /// The seals of `wanted` that are not among these.
    pub const fn missing_of(self, wanted: Self) -> Option<Self> {
        let missing = wanted.0.difference(self.0);
        if missing.is_empty() { None } else { Some(Self(missing)) }
    }
}

/// As in C: `F_SEAL_SHRINK | F_SEAL_GROW`.
impl fmt::Display for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, (name, _)) in self.0.iter_names().enumerate() {
            let separator = if index == 0 { "" } else { " | " };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_new_memfd_can_be_sealed_and_says_so() {
        let memfd = create(c"cuzk-test", PageSize::Base).unwrap();
        assert_eq!(Seals::of(&memfd).unwrap().missing_of(Seals::IMMUTABLE), Some(Seals::IMMUTABLE));
        Seals::FIXED_SIZE.add_to(&memfd).unwrap();
        let missing = Seals::of(&memfd).unwrap().missing_of(Seals::IMMUTABLE).unwrap();
        assert_eq!(missing.to_string(), "F_SEAL_WRITE");
        Seals::IMMUTABLE.and_no_more().add_to(&memfd).unwrap();
        assert_eq!(Seals::of(&memfd).unwrap().missing_of(Seals::IMMUTABLE.and_no_more()), None);
        assert_eq!(File::from(memfd).set_len(4096).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn seals_are_named_as_in_c() {
        assert_eq!(Seals::IMMUTABLE.to_string(), "F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE");
        assert_eq!(Seals(SealFlag::empty()).to_string(), "none");
    }
}
