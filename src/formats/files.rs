//! Opening large files without reading them, and writing files, with this room's errors.
use super::FormatError;
use crate::files::open_regular;
use memmap2::{Mmap, MmapOptions};
use std::{io::Write, path::Path, sync::Arc};

/// Maps a whole regular file, private and read-only.
pub fn map(path: &Path) -> Result<Arc<Mmap>, FormatError> {
    let file = open_regular(path).map_err(FormatError::io(path))?;
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

/// `crate::files::write_whole` with this room's errors.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    crate::files::write_whole(path, |e| FormatError::io(path)(e), write)
}

#[cfg(test)]
mod tests {
    use super::*;

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
