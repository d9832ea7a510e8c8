//! Files that are whole or not there at all, whatever interrupts the writing; and the opening of files
//! that must not turn out to be something that blocks or has no length.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Opens a regular file for reading. Whatever else stands there is refused by name, at once: the plain
/// opening of a FIFO would wait for somebody to write to it.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let found = match file.metadata()?.file_type() {
        kind if kind.is_file() => return Ok(file),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let message = format!("is {found}, wanted a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Where `path` leads: symbolic links are followed, except that a name that does not exist yet stands
/// for itself, in its directory. Two paths that lead to one place are equal. Hard links are different
/// places: a file that is replaced leaves the others as they were.
pub fn place(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            let name = path.file_name().ok_or(error)?;
            Ok(fs::canonicalize(directory_of(path))?.join(name))
        }
        other => other,
    }
}

/// Lets `write` fill a new file beside `path`, then renames it to `path`, so that a reader sees the
/// old content or the new, whole. File and directory are flushed to the disk. The mode respects the
/// umask. A symbolic link stays, and the file that it leads to is replaced. A device, a FIFO or a
/// terminal stays what it is and is written to. `error` makes the caller's error of an operating system
/// error.
pub fn write_whole<E>(
    path: &Path,
    error: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let mut out = OpenOptions::new().write(true).open(path).map_err(&error)?;
        return write(&mut out);
    }
    let path = &place(path).map_err(&error)?;
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
    File::open(directory_of(path)).and_then(|d| d.sync_all()).map_err(error)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new file in the directory of `path`.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?;
    loop {
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}.{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
        let temporary = path.with_file_name(temporary);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            // Left by a process of the same number that was killed: in a container all have number 1.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error),
        }
    }
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
    fn leftovers_of_a_killed_process_are_in_nobodys_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        // More than this process writes in all of its tests.
        let leftovers = 0..2000;
        for i in leftovers.clone() {
            fs::write(directory.path().join(format!(".key.{}.{i}", std::process::id())), b"half").unwrap();
        }
        write_whole(&path, |e| e, |out| out.write_all(b"whole")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), leftovers.len() + 1);
    }

    #[test]
    fn links_lead_to_what_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let [file, link, dangling] = ["file", "link", "dangling"].map(|name| directory.path().join(name));
        fs::write(&file, b"old").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        std::os::unix::fs::symlink("nothing", &dangling).unwrap();
        write_whole(&link, |e| e, |out| out.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(place(&link).unwrap(), place(&file).unwrap());
        let error = write_whole(&dangling, |e| e, |out| out.write_all(b"new")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(fs::symlink_metadata(&dangling).unwrap().is_symlink());
    }

    #[test]
    fn what_is_no_regular_file_is_written_to_and_stays() {
        use std::io::Read;
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // Open for both, so that neither end waits for the other.
        let mut reader = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        write_whole(&fifo, |e| e, |out| out.write_all(b"proof")).unwrap();
        let mut bytes = [0; 5];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"proof");
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    }

    #[test]
    fn only_regular_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let refused = |path: &Path| open_regular(path).unwrap_err().to_string();
        assert_eq!(refused(&fifo), "is a FIFO, wanted a regular file");
        assert_eq!(refused(directory.path()), "is a directory, wanted a regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "is a device, wanted a regular file");
        assert_eq!(open_regular(&directory.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn one_place_has_many_names() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| place(&directory.path().join(name));
        assert_eq!(at("new").unwrap(), at("./new").unwrap());
        assert_ne!(at("new").unwrap(), at("other").unwrap());
        assert!(at("nowhere/new").is_err());
    }

    #[test]
    fn names_that_cannot_be_written_are_errors() {
        for path in ["/", "..", "/nowhere/at/all"] {
            assert!(write_whole(Path::new(path), |e| e, |_| Ok(())).is_err(), "{path}");
        }
    }
}
