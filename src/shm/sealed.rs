//! A client's own memfd on its way through the daemon: received, checked, mapped.
//!
//! Only what F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_WRITE make immutable is accepted, and only where the
//! file holds little more memory than the witness needs: what the daemon keeps open is charged to its
//! budget, holes included, as reading may fill them.
use super::{
    PageSize, Seals,
    mapping::{Access, Mapping},
};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::statfs::{HUGETLBFS_MAGIC, fstatfs},
};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::{FileExt, MetadataExt},
    },
    ptr::NonNull,
};

/// A memfd may hold this much more than its witness in whole pages: an offset, or the rest of a huge page.
const MAX_SURPLUS: u64 = PageSize::Huge.bytes();
/// Unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Why a descriptor is not accepted as witness memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Something else than a memfd.
    #[error("the descriptor is {found}, wanted a memfd")]
    NotMemfd {
        /// What it is, by the kernel's name for it.
        found: String,
    },
    /// A memfd that can still change.
    #[error("the memfd lacks the seals {missing}")]
    SealMissing {
        /// Seals that are not there.
        missing: Seals,
    },
    /// Smaller than the witness.
    #[error("the memfd has {found} bytes, wanted at least {wanted}")]
    Short {
        /// The memfd's size.
        found: u64,
        /// The witness's size.
        wanted: u64,
    },
    /// Holds, or with its holes filled would hold, far more than the witness.
    #[error("the memfd holds {found} bytes, wanted at most {wanted}")]
    Oversized {
        /// The larger of its size and its memory.
        found: u64,
        /// The most that is accepted.
        wanted: u64,
    },
    /// The offset is not at a page's start.
    #[error("the witness begins at offset {offset}, wanted a multiple of {alignment}")]
    OffsetUnaligned {
        /// The offset.
        offset: u64,
        /// The memfd's page size.
        alignment: u64,
    },
    /// The witness would pass the end of the memfd, or of all numbers.
    #[error("offset {offset} and length {length} pass the memfd's end at {size}")]
    PastEnd {
        /// The offset.
        offset: u64,
        /// The witness's size.
        length: u64,
        /// The memfd's size.
        size: u64,
    },
    /// The kernel failed.
    #[error("the memfd cannot be used: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// What the checks learn of a memfd before they look at its size.
pub(super) struct FileKind {
    pub(super) seals: Seals,
}

/// The seals of a readable memfd; anything else is refused by name.
///
/// Until the kernel has said that it is a memfd, nothing is asked that a file system would have to
/// answer: a hostile one might never do so.
pub(super) fn file_kind(descriptor: impl AsFd) -> Result<FileKind, Refusal> {
    let flags = OFlag::from_bits_retain(fcntl(&descriptor, FcntlArg::F_GETFL)?);
    if flags.contains(OFlag::O_PATH) {
        return Err(Refusal::NotMemfd { found: format!("{} opened with O_PATH", name(&descriptor)) });
    }
    let seals = match Seals::of(&descriptor) {
        Ok(seals) => seals,
        Err(_) => return Err(Refusal::NotMemfd { found: name(&descriptor) }),
    };
    // Files of a mounted tmpfs answer too (they can never be sealed); a memfd has no name.
    if nix::sys::stat::fstat(&descriptor)?.st_nlink != 0 {
        return Err(Refusal::NotMemfd { found: name(&descriptor) });
    }
    if flags & OFlag::O_ACCMODE == OFlag::O_WRONLY {
        return Err(Refusal::NotMemfd { found: "a memfd opened for writing only".into() });
    }
    Ok(FileKind { seals })
}

/// The kernel's name for what a descriptor refers to: a path, `pipe:[…]`, `socket:[…]`, `anon_inode:…`.
///
/// It is text from elsewhere: control characters are escaped, and it is cut at 128 characters.
fn name(descriptor: impl AsFd) -> String {
    let link = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
    match std::fs::read_link(link) {
        Ok(target) => target.display().to_string().escape_debug().take(128).collect(),
        Err(_) => "something else".into(),
    }
}

/// A descriptor as it came from a peer: it may be anything.
#[derive(Debug)]
pub struct ReceivedFd(OwnedFd);

impl From<OwnedFd> for ReceivedFd {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl ReceivedFd {
    /// Checks that it is a memfd with nothing left to change, which holds `length` bytes (not 0) from
    /// `offset` on and little else.
    pub fn check(self, offset: u64, length: u64) -> Result<SealedBuffer, Refusal> {
        let kind = file_kind(&self.0)?;
        if let Some(missing) = kind.seals.missing_of(Seals::IMMUTABLE) {
            return Err(Refusal::SealMissing { missing });
        }
        let file = File::from(self.0);
        let metadata = file.metadata()?;
        let size = metadata.len();
        if size < length || length == 0 {
            return Err(Refusal::Short { found: size, wanted: length.max(1) });
        }
        // Pages may lie beyond the end, put there before F_SEAL_GROW; holes may be filled by reading.
        let held = size.max(metadata.blocks().saturating_mul(BLOCK));
        let file_system = fstatfs(&file)?;
        let page = match u64::try_from(file_system.block_size()) {
            Ok(page) if file_system.filesystem_type() == HUGETLBFS_MAGIC => page,
            _ => PageSize::Base.bytes(),
        };
        let whole_pages = length.checked_next_multiple_of(page).unwrap_or(length);
        let most = whole_pages.saturating_add(MAX_SURPLUS.max(page));
        if held > most {
            return Err(Refusal::Oversized { found: held, wanted: most });
        }
        if !offset.is_multiple_of(page) {
            return Err(Refusal::OffsetUnaligned { offset, alignment: page });
        }
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(Refusal::PastEnd { offset, length, size });
        }
        let charge = held.checked_next_multiple_of(page).unwrap_or(held);
        Ok(SealedBuffer { file, offset, length, page, charge })
    }
}

/// A checked memfd: its size is fixed, and so is its content, as far as the kernel keeps its word (not all
/// do for huge pages: docs/adr/0002-write-sealed-memfds.md). It is to be charged to the budget before it
/// is mapped.
#[derive(Debug)]
pub struct SealedBuffer {
    file: File,
    offset: u64,
    length: u64,
    page: u64,
    charge: u64,
}

impl SealedBuffer {
    /// The memory that holding it open may take, in bytes.
    pub fn charge(&self) -> u64 {
        self.charge
    }

    /// Maps the witness to read, shared, so that a device can pin the very pages.
    ///
    /// Older kernels refuse that with EPERM for a memfd with F_SEAL_WRITE that is open for writing, though
    /// it is only to be read: docs/adr/0002-write-sealed-memfds.md. Opened once more, for reading
    /// alone, it can be mapped so on all of them. Where it cannot be opened (no /proc, or a mode that
    /// its maker has taken away), a private mapping shows the same pages, as nobody can write to them; but
    /// pinning those may copy them.
    pub fn map(self) -> io::Result<MappedWitness> {
        let Self { file, offset, length, page, charge } = self;
        // Whole pages, which the file has: those of huge pages can be mapped and unmapped in no other way.
        let size =
            length.checked_next_multiple_of(page).and_then(|size| usize::try_from(size).ok()).ok_or_else(
                || io::Error::new(io::ErrorKind::InvalidInput, format!("a witness of {length} bytes")),
            )?;
        let (mapping, sharing) = match Mapping::new(&file, offset, size, Access::SharedRead) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => map_reopened(&file, offset, size)?,
            mapping => (mapping?, Sharing::Shared),
        };
        Ok(MappedWitness { file, offset, length, mapping, sharing, charge })
    }
}

/// Maps a memfd through a descriptor that is open for reading alone; privately where there is none.
fn map_reopened(file: &File, offset: u64, size: usize) -> io::Result<(Mapping, Sharing)> {
    match File::open(format!("/proc/self/fd/{}", file.as_raw_fd())) {
        Ok(read_only) => Ok((Mapping::new(&read_only, offset, size, Access::SharedRead)?, Sharing::Shared)),
        Err(_) => Ok((Mapping::new(file, offset, size, Access::PrivateRead)?, Sharing::Private)),
    }
}

/// How the kernel let a sealed memfd be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Shared: pinning takes the file's own pages.
    Shared,
    /// Private: pinning may copy them.
    Private,
}

/// A client's witness, mapped. Like a lease it is untrusted at every read.
#[derive(Debug)]
pub struct MappedWitness {
    file: File,
    offset: u64,
    length: u64,
    mapping: Mapping,
    sharing: Sharing,
    charge: u64,
}

impl MappedWitness {
    /// The witness's first byte, for a device that reads it.
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// The witness's length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How it is mapped.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The memory that it may take, in bytes.
    pub fn charge(&self) -> u64 {
        self.charge
    }

    /// The descriptor, e.g. to be kept over a restart.
    pub fn memfd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where the witness begins in the memfd.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Copies a part of the witness, from `position` on, into private memory.
    pub fn read_at(&self, into: &mut [u8], position: u64) -> io::Result<()> {
        let beyond = || io::Error::new(io::ErrorKind::UnexpectedEof, "past the end of the witness");
        let end = position.checked_add(into.len() as u64).ok_or_else(beyond)?;
        if end > self.length {
            return Err(beyond());
        }
        self.file.read_exact_at(into, self.offset + position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::{OwnBuffer, memfd};
    use nix::fcntl::SealFlag;
    use nix::sys::{
        eventfd::EventFd,
        socket::{AddressFamily, SockFlag, SockType, socketpair},
    };
    use std::io::Write;

    const PAGE: u64 = PageSize::Base.bytes();

    fn memfd_of(size: u64, seals: Option<Seals>) -> OwnedFd {
        let memfd = memfd::create(c"cuzk-test", PageSize::Base).unwrap();
        File::from(memfd.try_clone().unwrap()).set_len(size).unwrap();
        if let Some(seals) = seals {
            seals.add_to(&memfd).unwrap();
        }
        memfd
    }

    fn immutable(size: u64) -> OwnedFd {
        memfd_of(size, Some(Seals::IMMUTABLE))
    }

    fn check(descriptor: impl Into<OwnedFd>, offset: u64, length: u64) -> Result<SealedBuffer, Refusal> {
        ReceivedFd::from(descriptor.into()).check(offset, length)
    }

    /// The first bytes of a mapping.
    fn content_of(mapping: &Mapping, length: u64) -> Vec<u8> {
        assert!(length <= mapping.length() as u64);
        let mut content = vec![0; length as usize];
        // SAFETY: the mapping holds `length` bytes, which nobody changes meanwhile.
        unsafe { mapping.base().as_ptr().copy_to_nonoverlapping(content.as_mut_ptr(), content.len()) };
        content
    }

    /// What older kernels need works on all.
    #[test]
    fn a_sealed_witness_is_mapped_through_another_descriptor_or_privately() {
        let own = OwnBuffer::create(2 * PAGE).unwrap();
        own.write_at(&[7; 100], PAGE).unwrap();
        let file = File::from(own.seal().unwrap().memfd().try_clone_to_owned().unwrap());
        let (mapping, sharing) = map_reopened(&file, PAGE, PAGE as usize).unwrap();
        assert_eq!((content_of(&mapping, 100), sharing), (vec![7; 100], Sharing::Shared));
        let private = Mapping::new(&file, PAGE, PAGE as usize, Access::PrivateRead).unwrap();
        assert_eq!(content_of(&private, 100), vec![7; 100]);
    }

    /// Reopens a descriptor with other flags.
    fn reopen(descriptor: &OwnedFd, flags: OFlag) -> OwnedFd {
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        nix::fcntl::open(path.as_str(), flags, nix::sys::stat::Mode::empty()).unwrap()
    }

    #[test]
    fn a_sealed_witness_is_mapped_and_read() {
        let content: Vec<u8> = (0..3 * PAGE).map(|i| (i / 7) as u8).collect();
        let own = OwnBuffer::create(3 * PAGE).unwrap();
        own.write_at(&content, 0).unwrap();
        let own = own.seal().unwrap();
        for (offset, length) in [(0, 3 * PAGE), (PAGE, 2 * PAGE), (PAGE, 33), (2 * PAGE, 1)] {
            let memfd = own.memfd().try_clone_to_owned().unwrap();
            let sealed = check(memfd, offset, length).unwrap();
            assert_eq!(sealed.charge(), 3 * PAGE);
            let witness = sealed.map().unwrap();
            assert_eq!((witness.offset(), witness.length(), witness.charge()), (offset, length, 3 * PAGE));
            let mut read = vec![0; length as usize];
            witness.read_at(&mut read, 0).unwrap();
            assert_eq!(read, content[offset as usize..][..length as usize]);
            assert_eq!(witness.sharing(), Sharing::Shared);
            assert_eq!(content_of(&witness.mapping, length), read);
            assert!(witness.read_at(&mut read, 1).is_err());
            assert!(witness.read_at(&mut [0], u64::MAX).is_err());
        }
    }

    #[test]
    fn what_is_no_memfd_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("witness");
        let mut file = File::create_new(&path).unwrap();
        file.write_all(&[0; 64]).unwrap();
        let read_only = File::open(&path).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let (socket, _) =
            socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let path_only = reopen(&file.try_clone().unwrap().into(), flags);
        let memfd_path_only = reopen(&immutable(64), flags);
        for (descriptor, found) in [
            (OwnedFd::from(file), "/witness"),
            (read_only.into(), "/witness"),
            (reader.into(), "pipe:["),
            (writer.into(), "pipe:["),
            (socket, "socket:["),
            (EventFd::new().unwrap().into(), "anon_inode:"),
            (File::open(directory.path()).unwrap().into(), "/"),
            (File::open("/dev/zero").unwrap().into(), "/dev/zero"),
            (path_only, "O_PATH"),
            (memfd_path_only, "O_PATH"),
            (reopen(&immutable(64), OFlag::O_RDONLY), ""),
        ] {
            match check(descriptor, 0, 64) {
                Err(Refusal::NotMemfd { found: name }) => {
                    assert!(name.contains(found) && !found.is_empty(), "{name}, wanted {found}");
                }
                Ok(_) => assert_eq!(found, "", "a memfd open for reading is enough"),
                Err(other) => panic!("{found}: {other}"),
            }
        }
        // A sealed memfd cannot be opened for writing at all; one opened so before is told by its flags.
        let memfd = memfd_of(64, None);
        let write_only = reopen(&memfd, OFlag::O_WRONLY);
        Seals::IMMUTABLE.add_to(&memfd).unwrap();
        let refusal = check(write_only, 0, 64).unwrap_err();
        assert!(refusal.to_string().contains("writing only"), "{refusal}");
    }

    #[test]
    fn a_file_of_a_tmpfs_is_no_memfd() {
        let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else { return };
        let refusal = check(file.reopen().unwrap(), 0, 64).unwrap_err();
        assert!(matches!(refusal, Refusal::NotMemfd { .. }), "{refusal}");
    }

    #[test]
    fn each_missing_seal_is_named() {
        use SealFlag as S;
        let all = [S::F_SEAL_SHRINK, S::F_SEAL_GROW, S::F_SEAL_WRITE];
        for present in 0..7u32 {
            let memfd = memfd_of(PAGE, None);
            let mut wanted = Vec::new();
            for (bit, seal) in all.into_iter().enumerate() {
                if present >> bit & 1 == 1 {
                    fcntl(&memfd, FcntlArg::F_ADD_SEALS(seal)).unwrap();
                } else {
                    wanted.push(seal.iter_names().next().unwrap().0);
                }
            }
            let refusal = check(memfd, 0, PAGE).unwrap_err();
            assert_eq!(refusal.to_string(), format!("the memfd lacks the seals {}", wanted.join(" | ")));
        }
        // A weaker promise does not do: a mapping made before the seal could still write.
        let memfd = memfd_of(PAGE, Some(Seals::FIXED_SIZE));
        fcntl(&memfd, FcntlArg::F_ADD_SEALS(S::F_SEAL_FUTURE_WRITE)).unwrap();
        assert!(matches!(check(memfd, 0, PAGE), Err(Refusal::SealMissing { .. })));
    }

    #[test]
    fn sizes_and_offsets_are_held_to_the_witness() {
        type Expect = fn(&Refusal) -> bool;
        let cases: &[(u64, u64, u64, Expect)] = &[
            (0, 0, 64, |r| matches!(r, Refusal::Short { found: 0, wanted: 64 })),
            (63, 0, 64, |r| matches!(r, Refusal::Short { found: 63, wanted: 64 })),
            (64, 0, 0, |r| matches!(r, Refusal::Short { .. })),
            (64, 0, u64::MAX, |r| matches!(r, Refusal::Short { .. })),
            (2 * PAGE, 1, 64, |r| matches!(r, Refusal::OffsetUnaligned { offset: 1, alignment: PAGE })),
            (2 * PAGE, PAGE - 1, 64, |r| matches!(r, Refusal::OffsetUnaligned { .. })),
            (2 * PAGE, PAGE, PAGE + 1, |r| matches!(r, Refusal::PastEnd { .. })),
            (2 * PAGE, 2 * PAGE, 1, |r| matches!(r, Refusal::PastEnd { .. })),
            (2 * PAGE, u64::MAX - PAGE + 1, 2 * PAGE, |r| matches!(r, Refusal::PastEnd { .. })),
            (PAGE + MAX_SURPLUS + 1, 0, 64, |r| matches!(r, Refusal::Oversized { .. })),
            (1 << 50, 0, 64, |r| matches!(r, Refusal::Oversized { .. })),
            (i64::MAX as u64, 0, 64, |r| matches!(r, Refusal::Oversized { .. })),
        ];
        for &(size, offset, length, expected) in cases {
            let refusal = check(immutable(size), offset, length).unwrap_err();
            assert!(expected(&refusal), "size {size}, offset {offset}, length {length}: {refusal}");
        }
        assert!(check(immutable(PAGE + MAX_SURPLUS), 0, 64).is_ok());
        assert!(check(immutable(2 * PAGE), PAGE, PAGE).is_ok());
    }

    #[test]
    fn memory_hidden_behind_the_end_is_found() {
        use nix::fcntl::{FallocateFlags, fallocate};
        let memfd = memfd_of(PAGE, None);
        fallocate(&memfd, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, 2 * MAX_SURPLUS as i64).unwrap();
        Seals::IMMUTABLE.add_to(&memfd).unwrap();
        assert!(matches!(check(memfd, 0, PAGE), Err(Refusal::Oversized { .. })));
    }

    #[test]
    fn a_witness_with_holes_reads_as_zeros() {
        let witness = check(immutable(4 * PAGE), 0, 4 * PAGE).unwrap().map().unwrap();
        let mut read = vec![1; 4 * PAGE as usize];
        witness.read_at(&mut read, 0).unwrap();
        assert!(read.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_file_of_huge_pages_is_held_to_their_size() {
        let huge = PageSize::Huge.bytes();
        let memfd = memfd::create(c"cuzk-test", PageSize::Huge);
        let Ok(memfd) = memfd else { return }; // a kernel without huge pages
        File::from(memfd.try_clone().unwrap()).set_len(2 * huge).unwrap();
        Seals::IMMUTABLE.add_to(&memfd).unwrap();
        let refusal = check(memfd.try_clone().unwrap(), PAGE, 2 * huge - PAGE).unwrap_err();
        assert!(
            matches!(refusal, Refusal::OffsetUnaligned { alignment, .. } if alignment == huge),
            "{refusal}"
        );
        let sealed = check(memfd, huge, huge - 5).unwrap();
        assert_eq!(sealed.charge(), 2 * huge);
        // Mapping needs pages in the pool; an empty one is an error, never a fault later.
        match sealed.map() {
            Ok(witness) => assert_eq!(witness.length(), huge - 5),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOMEM)),
        }
    }
}
