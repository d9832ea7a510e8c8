//! A job's journal: a memfd that the service manager keeps a descriptor of, so that what is written to it outlives
//! the writer. A header says how many bytes of the body count, with their BLAKE3 hash:
//!
//! ```text
//!   0  magic "cuzkjob\n"       16  length of the body, u64
//!   8  format, u32             24  BLAKE3 of so many bytes of the body
//!  12  zero, u32               56  BLAKE3 of the 56 bytes before it
//! 128  the body: entries, appended one by one
//! ```
//!
//! An entry is written behind the body first, and counts once the header does: a writer that is killed in between
//! has written nothing. The header lies in one page and is written in one piece, which a signal does not
//! divide. Whatever else a reader finds wrong is damage, and the journal is refused by the name of what is wrong.
use crate::shm::{PageSize, Seals, memfd};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
};

const MAGIC: [u8; 8] = *b"cuzkjob\n";
/// The format that this build writes, and the only one that it reads.
pub const FORMAT: u32 = 1;
/// Bytes of the header that its hash covers, and with the hash.
const HASHED: usize = 56;
const HEADER: usize = HASHED + 32;
/// Where the body begins.
const BODY: u64 = 128;
/// The longest body: 1,024 partitions with all that a result may have, twice over.
const MAX_BODY: u64 = 128 << 20;

/// Why a descriptor is not taken for a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Something else than a memfd.
    #[error("it is no memfd ({0})")]
    NotMemfd(#[source] io::Error),
    /// Too small for a header, or too large for any journal.
    #[error("it has {found} bytes, wanted {HEADER} to {}", BODY + MAX_BODY)]
    Size {
        /// The memfd's size.
        found: u64,
    },
    /// It does not begin like a journal.
    #[error("it begins with {:?}, wanted {:?}", found.escape_ascii().to_string(), MAGIC.escape_ascii().to_string())]
    Magic {
        /// The first bytes.
        found: [u8; 8],
    },
    /// Another version of the daemon has written it.
    #[error("it has format {found}, wanted {FORMAT}: it was written by another version of cuzk-daemon")]
    Format {
        /// Its format.
        found: u32,
    },
    /// The header's hash is not the header's.
    #[error("its header is damaged")]
    Header,
    /// The body that the header announces is not there.
    #[error("its header announces {announced} bytes of entries, and {found} are there")]
    Short {
        /// Bytes that count.
        announced: u64,
        /// Bytes behind the header.
        found: u64,
    },
    /// The hash of the entries is another.
    #[error("its {length} bytes of entries are damaged")]
    Body {
        /// How many there are.
        length: u64,
    },
    /// The system failed.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// Of what counts.
    hasher: Box<blake3::Hasher>,
    length: u64,
}

fn header(length: u64, body: &blake3::Hasher) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[16..24].copy_from_slice(&length.to_le_bytes());
    header[24..HASHED].copy_from_slice(body.finalize().as_bytes());
    let hash = blake3::hash(&header[..HASHED]);
    header[HASHED..].copy_from_slice(hash.as_bytes());
    header
}

/// The number at this place of a header.
fn number<const N: usize>(header: &[u8; HEADER], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}

impl Journal {
    /// A journal without entries, in a memfd of its own.
    ///
    /// # Errors
    /// The system has no memfd to give.
    pub fn create() -> io::Result<Self> {
        let file = File::from(memfd::create(c"cuzk-job", PageSize::Base)?);
        let journal = Self { file, hasher: Box::default(), length: 0 };
        journal.file.write_all_at(&header(0, &journal.hasher), 0)?;
        Ok(journal)
    }

    /// Reads the entries of a journal that an earlier process has written, and goes on writing it.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(descriptor: OwnedFd) -> Result<(Self, Vec<u8>), JournalError> {
        Seals::of(&descriptor).map_err(JournalError::NotMemfd)?;
        let file = File::from(descriptor);
        let size = file.metadata()?.len();
        if !(HEADER as u64..=BODY + MAX_BODY).contains(&size) {
            return Err(JournalError::Size { found: size });
        }
        let mut found = [0; HEADER];
        file.read_exact_at(&mut found, 0)?;
        let magic = number(&found, 0);
        if magic != MAGIC {
            return Err(JournalError::Magic { found: magic });
        }
        let format = u32::from_le_bytes(number(&found, 8));
        if format != FORMAT {
            return Err(JournalError::Format { found: format });
        }
        if blake3::hash(&found[..HASHED]).as_bytes() != &found[HASHED..] {
            return Err(JournalError::Header);
        }
        let (announced, there) = (u64::from_le_bytes(number(&found, 16)), size.saturating_sub(BODY));
        if announced > there {
            return Err(JournalError::Short { announced, found: there });
        }
        // Not more than the file has, which is not more than MAX_BODY.
        let mut body = vec![0; usize::try_from(announced).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut body, BODY)?;
        let mut hasher = Box::<blake3::Hasher>::default();
        hasher.update(&body);
        if hasher.finalize().as_bytes() != &number::<32>(&found, 24) {
            return Err(JournalError::Body { length: announced });
        }
        Ok((Self { file, hasher, length: announced }, body))
    }

    /// Writes an entry behind the others; when this returns it outlives the process.
    ///
    /// # Errors
    /// The journal would become too long, or the system has no memory; the journal is as it was.
    pub fn append(&mut self, entry: &[u8]) -> io::Result<()> {
        let length = self.length + entry.len() as u64;
        if length > MAX_BODY {
            let message = format!("the journal would have {length} bytes, wanted at most {MAX_BODY}");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let mut hasher = self.hasher.clone();
        hasher.update(entry);
        self.file.write_all_at(entry, BODY + self.length)?;
        self.file.write_all_at(&header(length, &hasher), 0)?;
        (self.length, self.hasher) = (length, hasher);
        Ok(())
    }

    /// The descriptor to be kept.
    pub fn memfd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*, sample::Index};

    fn written(entries: &[Vec<u8>]) -> (Journal, Vec<u8>) {
        let mut journal = Journal::create().unwrap();
        for entry in entries {
            journal.append(entry).unwrap();
        }
        let size = journal.file.metadata().unwrap().len();
        let mut bytes = vec![0; size as usize];
        journal.file.read_exact_at(&mut bytes, 0).unwrap();
        (journal, bytes)
    }

    /// What a reader says to these bytes.
    fn read(bytes: &[u8]) -> Result<Vec<u8>, JournalError> {
        let memfd = File::from(memfd::create(c"cuzk-test", PageSize::Base).unwrap());
        memfd.write_all_at(bytes, 0).unwrap();
        Journal::open(memfd.into()).map(|(_, body)| body)
    }

    proptest! {
        #[test]
        fn entries_come_back_and_more_can_follow(entries in vec(vec(any::<u8>(), 0..300), 0..8), more in vec(any::<u8>(), 0..100)) {
            let (journal, _) = written(&entries);
            let (mut again, body) = Journal::open(journal.memfd().try_clone_to_owned().unwrap()).unwrap();
            prop_assert_eq!(&body, &entries.concat());
            again.append(&more).unwrap();
            let (_, body) = Journal::open(journal.memfd().try_clone_to_owned().unwrap()).unwrap();
            prop_assert_eq!(body, [entries.concat(), more].concat());
        }

        #[test]
        fn a_flipped_bit_is_refused(entries in vec(vec(any::<u8>(), 1..300), 1..6), at in any::<Index>(), bit in 0..8u8) {
            let (_, mut bytes) = written(&entries);
            // Between header and body nothing is written, and nothing read.
            let places: Vec<usize> = (0..HEADER).chain(BODY as usize..bytes.len()).collect();
            let place = *at.get(&places);
            bytes[place] ^= 1 << bit;
            prop_assert!(read(&bytes).is_err(), "byte {}", place);
        }

        #[test]
        fn a_truncated_one_is_refused(entries in vec(vec(any::<u8>(), 1..300), 1..6), at in any::<Index>()) {
            let (_, bytes) = written(&entries);
            prop_assert!(read(&bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..400)) {
            prop_assert!(read(&bytes).is_err());
        }
    }

    #[test]
    fn a_writer_that_is_killed_before_the_header_has_written_nothing() {
        let (journal, _) = written(&[b"one".to_vec()]);
        journal.file.write_all_at(b"half an ent", BODY + journal.length).unwrap();
        let (mut journal, body) = Journal::open(journal.file.into()).unwrap();
        assert_eq!(body, b"one");
        journal.append(b"two").unwrap();
        assert_eq!(Journal::open(journal.file.into()).unwrap().1, b"onetwo");
    }

    #[test]
    fn what_is_no_journal_is_refused_by_name() {
        let (_, good) = written(&[b"entry".to_vec()]);
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            read(&bytes).unwrap_err().to_string()
        };
        assert!(with(0, b'x').contains("begins with"), "{}", with(0, b'x'));
        assert!(with(8, 7).contains("format 7, wanted 1"), "{}", with(8, 7));
        assert!(with(12, 1).contains("header"));
        assert!(with(16, 255).contains("header"));
        assert!(with(BODY as usize, 0).contains("5 bytes of entries are damaged"));
        assert!(matches!(read(&good[..good.len() - 1]), Err(JournalError::Short { announced: 5, found: 4 })));
        assert!(matches!(read(&[]), Err(JournalError::Size { found: 0 })));
        let (pipe, _) = io::pipe().unwrap();
        assert!(matches!(Journal::open(pipe.into()), Err(JournalError::NotMemfd(_))));
        let huge = File::from(memfd::create(c"cuzk-test", PageSize::Base).unwrap());
        huge.set_len(1 << 40).unwrap();
        assert!(matches!(Journal::open(huge.into()), Err(JournalError::Size { .. })));
    }
}
