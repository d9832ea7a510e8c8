//! A stretch of mapped memory that another process may share: an address and a length, never a slice.
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};
use std::{io, num::NonZeroUsize, os::fd::AsFd, ptr::NonNull};

/// How a file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Shared, to read and write.
    SharedWrite,
    /// Shared, to read.
    SharedRead,
    /// Private, to read.
    PrivateRead,
}

/// Mapped memory, unmapped on drop and left out of core dumps.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is reached through raw pointers only.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives out the address and the length.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of a file from `offset`, a multiple of its page size, on.
    pub(super) fn new(file: impl AsFd, offset: u64, length: usize, access: Access) -> io::Result<Self> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let length = NonZeroUsize::new(length).ok_or_else(|| invalid("an empty mapping"))?;
        let offset = offset.try_into().map_err(|_| invalid("an offset beyond 2^63"))?;
        let (protection, flags) = match access {
            Access::SharedWrite => (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED),
            Access::SharedRead => (ProtFlags::PROT_READ, MapFlags::MAP_SHARED),
            Access::PrivateRead => (ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE),
        };
        // SAFETY: the kernel chooses the address, so nothing that is mapped already is touched.
        let base = unsafe { mmap(None, length, protection, flags, file, offset)? }.cast();
        let mapping = Self { base, length };
        // A witness is a secret: it belongs in no core dump. A kernel built without core dumps refuses.
        // SAFETY: the range is the new mapping; the advice changes no content.
        let _best_effort = unsafe { madvise(base.cast(), length.get(), MmapAdvise::MADV_DONTDUMP) };
        Ok(mapping)
    }

    /// The first byte.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The length in bytes.
    pub(super) fn length(&self) -> usize {
        self.length.get()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // It can only fail for a range that was never mapped.
        // SAFETY: the range is this mapping, to which no reference exists: only raw pointers were given.
        let _unmapped = unsafe { munmap(self.base.cast(), self.length.get()) };
    }
}
