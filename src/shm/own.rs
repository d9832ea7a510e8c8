//! A memfd of the client's own: written, then sealed for good.
use super::{
    PageSize, Seals,
    mapping::{Access, Mapping},
    memfd,
};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt,
    },
    ptr::NonNull,
};

/// Memory to write a witness into, not sealed yet.
#[derive(Debug)]
pub struct OwnBuffer {
    file: File,
    mapping: Mapping,
    length: u64,
}

impl OwnBuffer {
    /// A buffer of `length` bytes, at least one, all zero.
    pub fn create(length: u64) -> io::Result<Self> {
        let invalid =
            || io::Error::new(io::ErrorKind::InvalidInput, format!("a witness buffer of {length} bytes"));
        let file = File::from(memfd::create(c"cuzk-witness", PageSize::Base)?);
        file.set_len(length)?;
        let size = usize::try_from(length).map_err(|_| invalid())?;
        let mapping = Mapping::new(&file, 0, size, Access::SharedWrite)?;
        Ok(Self { file, mapping, length })
    }

    /// The mapping's first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// The length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Copies bytes into the buffer, from `offset` on.
    pub fn write_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(from, offset)
    }

    /// Unmaps the memory and seals it: from here on nobody can change it.
    pub fn seal(self) -> io::Result<OwnMemfd> {
        let Self { file, mapping, length } = self;
        // The kernel refuses F_SEAL_WRITE while a writable mapping exists.
        drop(mapping);
        Seals::IMMUTABLE.and_no_more().add_to(&file)?;
        Ok(OwnMemfd { file, length })
    }
}

/// A sealed witness, which may be sent as often as needed.
#[derive(Debug)]
pub struct OwnMemfd {
    file: File,
    length: u64,
}

impl OwnMemfd {
    /// The descriptor to send.
    pub fn memfd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Bytes of the witness.
    pub fn length(&self) -> u64 {
        self.length
    }
}
