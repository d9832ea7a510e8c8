//! Leases: memory that the daemon makes and a client writes its witnesses into.
use super::{
    PageSize, Seals,
    mapping::{Access, Mapping},
    memfd,
    sealed::{Refusal, file_kind},
};
use nix::{
    fcntl::{FallocateFlags, fallocate},
    sys::statfs::{HUGETLBFS_MAGIC, fstatfs},
};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
    ptr::NonNull,
};

/// Below this many huge pages, rounding a lease up to whole ones would waste too much.
const MIN_HUGE_PAGES: u64 = 8;

/// The daemon's side of a lease: a memfd whose size is fixed and whose seals nobody can change, so that
/// its holder can write into it and do nothing else to it but punch holes, which read as zeros.
///
/// Drop it when the daemon ends: its holder's mapping lives on then, from which the witness can be submitted
/// again. [`reclaim`](Self::reclaim) it first when its holder has given it back or is gone.
#[derive(Debug)]
pub struct LeasedBuffer {
    file: File,
    mapping: Mapping,
    length: u64,
    pages: PageSize,
}

/// A lease's memfd with its size, once that is known to be fixed, and enough for `length` bytes.
fn fixed(memfd: OwnedFd, length: u64) -> Result<(File, usize), Refusal> {
    let kind = file_kind(&memfd)?;
    if let Some(missing) = kind.seals.missing_of(Seals::FIXED_SIZE) {
        return Err(Refusal::SealMissing { missing });
    }
    let file = File::from(memfd);
    let found = file.metadata()?.len();
    if found < length || length == 0 {
        return Err(Refusal::Short { found, wanted: length.max(1) });
    }
    let size = usize::try_from(found).map_err(|_| Refusal::Oversized { found, wanted: usize::MAX as u64 })?;
    Ok((file, size))
}

impl LeasedBuffer {
    /// A lease of at least `length` bytes, all zero; on huge pages where it is large enough and the
    /// system has them to spare. It takes [`Self::max_size`] bytes of memory at most.
    pub fn create(length: u64) -> io::Result<Self> {
        if length.div_ceil(PageSize::Huge.bytes()) >= MIN_HUGE_PAGES
            && let Ok(lease) = Self::on(length, PageSize::Huge)
        {
            return Ok(lease);
        }
        Self::on(length, PageSize::Base)
    }

    fn on(length: u64, pages: PageSize) -> io::Result<Self> {
        let too_large = || io::Error::new(io::ErrorKind::InvalidInput, format!("a lease of {length} bytes"));
        let size = length.max(1).checked_next_multiple_of(pages.bytes()).ok_or_else(too_large)?;
        let file = File::from(memfd::create(c"cuzk-lease", pages)?);
        file.set_len(size)?;
        Seals::FIXED_SIZE.and_no_more().add_to(&file)?;
        // Mapping a file of huge pages reserves them all: it fails here, or they are there to the end.
        let mapping =
            Mapping::new(&file, 0, usize::try_from(size).map_err(|_| too_large())?, Access::SharedRead)?;
        Ok(Self { file, mapping, length, pages })
    }

    /// The buffer of a lease of `length` bytes that an earlier process has made, by its memfd: its size must be
    /// fixed, and enough. All of it is mapped: it is to be charged first.
    pub fn restore(memfd: OwnedFd, length: u64) -> Result<Self, Refusal> {
        let (file, size) = fixed(memfd, length)?;
        let pages = match fstatfs(&file)?.filesystem_type() {
            HUGETLBFS_MAGIC => PageSize::Huge,
            _ => PageSize::Base,
        };
        let mapping = Mapping::new(&file, 0, size, Access::SharedRead)?;
        Ok(Self { file, mapping, length, pages })
    }

    /// The most bytes that a lease of `length` can take, for the budget: rounded up to whole pages.
    /// None where that overflows.
    pub fn max_size(length: u64) -> Option<u64> {
        let pages = if length.div_ceil(PageSize::Huge.bytes()) >= MIN_HUGE_PAGES {
            PageSize::Huge
        } else {
            PageSize::Base
        };
        length.max(1).checked_next_multiple_of(pages.bytes())
    }

    /// The bytes that were asked for.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The memfd's size: the length rounded up to whole pages.
    pub fn size(&self) -> u64 {
        self.mapping.length() as u64
    }

    /// The pages that back it.
    pub fn pages(&self) -> PageSize {
        self.pages
    }

    /// The descriptor to hand to the client.
    pub fn memfd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The mapping's first byte, for a device that reads it; the client may write at any time.
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// Copies what is there now, from `offset` on, into private memory.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Frees the memory, even while its former holder still maps it (who then finds zeros, and pays for
    /// what it writes there). Freeing gigabytes takes a while: do it where blocking is allowed.
    pub fn reclaim(&self) -> io::Result<()> {
        let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        Ok(fallocate(&self.file, punch, 0, self.mapping.length() as libc::off_t)?)
    }
}

/// The client's side of a lease: its mapping to write into. It stays valid when the daemon is gone.
#[derive(Debug)]
pub struct LeaseMapping {
    file: File,
    mapping: Mapping,
}

impl LeaseMapping {
    /// Maps the memfd of a lease of `length` bytes, once its size is known to be enough and fixed.
    pub fn new(memfd: OwnedFd, length: u64) -> Result<Self, Refusal> {
        let (file, size) = fixed(memfd, length)?;
        let mapping = Mapping::new(&file, 0, size, Access::SharedWrite)?;
        Ok(Self { file, mapping })
    }

    /// The mapping's first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// The mapping's length in bytes, whole pages.
    pub fn size(&self) -> usize {
        self.mapping.length()
    }

    /// Copies what was written, from `offset` on, e.g. into another lease.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Copies bytes into the lease, from `offset` on.
    pub fn write_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(from, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PageSize::Base.bytes();

    fn mapping_of(lease: &LeasedBuffer) -> LeaseMapping {
        LeaseMapping::new(lease.memfd().try_clone_to_owned().unwrap(), lease.length()).unwrap()
    }

    /// Writes through the client's mapping.
    fn poke(client: &LeaseMapping, at: usize, value: u8) {
        assert!(at < client.size());
        // SAFETY: within the mapping, which is writable.
        unsafe { client.base().as_ptr().add(at).write_volatile(value) };
    }

    #[test]
    fn what_the_client_writes_the_daemon_reads() {
        let lease = LeasedBuffer::create(PAGE + 1).unwrap();
        assert_eq!((lease.length(), lease.size()), (PAGE + 1, 2 * PAGE));
        assert_eq!(LeasedBuffer::max_size(PAGE + 1), Some(2 * PAGE));
        let client = mapping_of(&lease);
        poke(&client, 0, 1);
        poke(&client, PAGE as usize, 7);
        client.write_at(&[9], 5).unwrap();
        let mut read = vec![0; PAGE as usize + 1];
        lease.read_at(&mut read, 0).unwrap();
        assert_eq!((read[0], read[5], read[PAGE as usize]), (1, 9, 7));
        // SAFETY: within the mapping.
        assert_eq!(unsafe { lease.base().as_ptr().add(5).read_volatile() }, 9);
        assert!(lease.read_at(&mut read, lease.size()).is_err());
    }

    #[test]
    fn the_client_can_change_neither_size_nor_seals() {
        let lease = LeasedBuffer::create(PAGE).unwrap();
        let memfd = File::from(lease.memfd().try_clone_to_owned().unwrap());
        for size in [0, PAGE - 1, PAGE + 1, 1 << 40] {
            assert_eq!(memfd.set_len(size).unwrap_err().raw_os_error(), Some(libc::EPERM));
        }
        let grow = fallocate(&memfd, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, 2 * PAGE as i64);
        assert_eq!(grow, Err(nix::errno::Errno::EPERM));
        assert_eq!(Seals::IMMUTABLE.add_to(&memfd).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    /// A lease of two pages on each kind of pages that the system has to spare.
    fn two_pages_each() -> impl Iterator<Item = LeasedBuffer> {
        [PageSize::Base, PageSize::Huge].into_iter().filter_map(|pages| {
            let lease = LeasedBuffer::on(2 * pages.bytes(), pages);
            assert!(pages == PageSize::Huge || lease.is_ok());
            lease.ok()
        })
    }

    #[test]
    fn a_hole_that_the_client_punches_is_zeros() {
        for lease in two_pages_each() {
            let page = lease.pages().bytes();
            let client = mapping_of(&lease);
            poke(&client, 3, 9);
            poke(&client, page as usize, 9);
            let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            fallocate(lease.memfd(), punch, 0, page as i64).unwrap();
            let mut read = vec![1; page as usize + 1];
            lease.read_at(&mut read, 0).unwrap();
            assert!(read[..page as usize].iter().all(|&byte| byte == 0));
            assert_eq!(read[page as usize], 9);
        }
    }

    #[test]
    fn a_lease_given_back_frees_its_pages_and_one_dropped_does_not() {
        use std::os::unix::fs::MetadataExt;
        for lease in two_pages_each() {
            let size = lease.size();
            let client = mapping_of(&lease);
            poke(&client, 0, 1);
            poke(&client, size as usize - 1, 1);
            assert!(client.file.metadata().unwrap().blocks() * 512 >= size);
            lease.reclaim().unwrap();
            assert_eq!(client.file.metadata().unwrap().blocks(), 0);
            let mut read = [1];
            client.read_at(&mut read, 0).unwrap();
            assert_eq!(read, [0]);
        }
        for lease in two_pages_each() {
            let client = mapping_of(&lease);
            poke(&client, 0, 1);
            drop(lease);
            let mut read = [0];
            client.read_at(&mut read, 0).unwrap();
            assert_eq!(read, [1]);
        }
    }

    #[test]
    fn leases_are_checked_by_the_client_too() {
        let lease = LeasedBuffer::create(PAGE).unwrap();
        let again = || lease.memfd().try_clone_to_owned().unwrap();
        assert!(matches!(LeaseMapping::new(again(), PAGE + 1), Err(Refusal::Short { .. })));
        assert!(matches!(LeaseMapping::new(again(), 0), Err(Refusal::Short { .. })));
        let growing = memfd::create(c"cuzk-test", PageSize::Base).unwrap();
        assert!(matches!(LeaseMapping::new(growing, 1), Err(Refusal::SealMissing { .. })));
        let (pipe, _) = std::io::pipe().unwrap();
        assert!(matches!(LeaseMapping::new(pipe.into(), 1), Err(Refusal::NotMemfd { .. })));
    }

    #[test]
    fn a_lease_that_was_left_is_taken_up_with_what_is_in_it() {
        for lease in two_pages_each() {
            let client = mapping_of(&lease);
            poke(&client, 3, 9);
            let again = || lease.memfd().try_clone_to_owned().unwrap();
            let left = LeasedBuffer::restore(again(), lease.length()).unwrap();
            assert_eq!(
                (left.length(), left.size(), left.pages()),
                (lease.length(), lease.size(), lease.pages())
            );
            let mut read = [0];
            left.read_at(&mut read, 3).unwrap();
            assert_eq!(read, [9]);
            assert!(matches!(LeasedBuffer::restore(again(), lease.size() + 1), Err(Refusal::Short { .. })));
            assert!(matches!(LeasedBuffer::restore(again(), 0), Err(Refusal::Short { .. })));
        }
        let growing = memfd::create(c"cuzk-test", PageSize::Base).unwrap();
        assert!(matches!(LeasedBuffer::restore(growing, 1), Err(Refusal::SealMissing { .. })));
        let (pipe, _) = std::io::pipe().unwrap();
        assert!(matches!(LeasedBuffer::restore(pipe.into(), 1), Err(Refusal::NotMemfd { .. })));
    }

    #[test]
    fn sizes_at_the_edges() {
        assert_eq!(LeasedBuffer::create(0).unwrap().size(), PAGE);
        assert_eq!(LeasedBuffer::create(1).unwrap().size(), PAGE);
        assert_eq!(LeasedBuffer::create(PAGE).unwrap().size(), PAGE);
        assert!(LeasedBuffer::create(u64::MAX).is_err());
        assert!(LeasedBuffer::create(u64::MAX - PAGE).is_err());
        assert_eq!(LeasedBuffer::max_size(u64::MAX), None);
        // Large enough for huge pages, whether the system has some or not.
        let length = MIN_HUGE_PAGES * PageSize::Huge.bytes() - 1;
        let lease = LeasedBuffer::create(length).unwrap();
        assert!(lease.size() >= length && lease.size() <= LeasedBuffer::max_size(length).unwrap());
        assert_eq!(lease.size() % lease.pages().bytes(), 0);
    }
}
