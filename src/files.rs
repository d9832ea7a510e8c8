//! Files that are whole or not there at all, whatever interrupts the writing.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Lets `write` fill a new file beside `path`, then renames it to `path`, so that a reader sees the
/// old content or the new, whole. File and directory are flushed to the disk. The mode respects the
/// umask. `error` makes the caller's error of an operating system error.
pub fn write_whole<E>(
    path: &Path,
    error: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let (file, temporary) = create_beside(path).map_err(&error)?;
    let result = (|| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        write(&mut out)?;
        let file = out.into_inner().map_err(|e| error(e.into_error()))?;
        file.sync_all().map_err(&error)?;
        fs::rename(&temporary, path).map_err(&error)
    })();
    if result.is_err() {
        // The first error is the one to report; a leftover file is harmless.
        let _ = fs::remove_file(&temporary);
        return result;
    }
    // The new name itself is on the disk once the directory is.
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|d| d.sync_all()).map_err(error)
}

/// A new file in the directory of `path`.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
    let temporary = path.with_file_name(temporary);
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    Ok((file, temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_content_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let put = |bytes: &'static [u8]| write_whole(&path, |e| e, |out| out.write_all(bytes));
        put(b"old").unwrap();
        let failed = write_whole(
            &path,
            |e| e,
            |out| {
                out.write_all(b"half")?;
                Err(io::ErrorKind::StorageFull.into())
            },
        );
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        put(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn names_that_cannot_be_written_are_errors() {
        for path in ["/", "..", "/nowhere/at/all"] {
            assert!(write_whole(Path::new(path), |e| e, |_| Ok(())).is_err(), "{path}");
        }
    }
}
