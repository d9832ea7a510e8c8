//! Opening large files without reading them, and writing files that are whole or not there at all.
use super::FormatError;
use memmap2::{Mmap, MmapOptions};
use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// Maps a whole file, private and read-only.
pub fn map(path: &Path) -> Result<Arc<Mmap>, FormatError> {
    let file = File::open(path).map_err(FormatError::io(path))?;
    // SAFETY: keys and circuits are files of the service's own user. Should somebody write to one
    // nevertheless, the bytes are plain data that every reader checks or only computes with; should
    // somebody truncate one, the process is stopped by SIGBUS, not misled.
    let map = unsafe { MmapOptions::new().map_copy_read_only(&file) };
    map.map(Arc::new).map_err(FormatError::io(path))
}

/// BLAKE3 of the bytes, in parallel: the id of a key file's content.
pub fn content_id(bytes: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update_rayon(bytes).finalize().as_bytes()
}

/// Lets `write` fill a new file beside `path`, then renames it to `path`, so that a reader sees the
/// old content or the new, whole. Flushed to the disk before the rename.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let (file, temporary) = create_beside(path)?;
    let result = (|| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        write(&mut out)?;
        let file = out.into_inner().map_err(|e| FormatError::io(path)(e.into_error()))?;
        file.sync_all().map_err(FormatError::io(path))?;
        std::fs::rename(&temporary, path).map_err(FormatError::io(path))
    })();
    if result.is_err() {
        // The first error is the one to report; a leftover file is harmless.
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

/// A new file in the directory of `path`.
fn create_beside(path: &Path) -> Result<(File, PathBuf), FormatError> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or_else(|| {
        FormatError::io(path)(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not the name of a file"))
    })?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
    let temporary = path.with_file_name(temporary);
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
    file.map(|file| (file, temporary.clone())).map_err(FormatError::io(&temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_content_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let put = |bytes: &'static [u8]| {
            write_whole(&path, |out| out.write_all(bytes).map_err(FormatError::io(&path)))
        };
        put(b"old").unwrap();
        let failed = write_whole(&path, |out| {
            out.write_all(b"half").map_err(FormatError::io(&path))?;
            Err(FormatError::io(&path)(std::io::ErrorKind::StorageFull.into()))
        });
        assert!(matches!(failed, Err(FormatError::Io { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        put(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn maps_empty_and_missing_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("empty");
        assert!(matches!(map(&path), Err(FormatError::Io { .. })));
        std::fs::write(&path, b"").unwrap();
        assert_eq!(map(&path).unwrap().len(), 0);
        assert!(matches!(map(directory.path()), Err(FormatError::Io { .. })));
    }

    #[test]
    fn the_content_id_is_blake3() {
        assert_eq!(content_id(b"abc"), *blake3::hash(b"abc").as_bytes());
    }
}
