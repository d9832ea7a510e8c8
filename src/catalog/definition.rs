//! Circuit definitions: `NAME.toml` in the daemon's circuit directory makes circuit NAME known.
//!
//! ```toml
//! key = "/var/lib/cuzk/spend.params"     # .params of bellman/bellperson, or .zkey of snarkjs
//! circuit = "/var/lib/cuzk/spend.cuzk"   # .cuzk or .r1cs; a .zkey needs none
//! preload = true                         # load at start (the default), or with the first use
//! ```
use crate::files::open_regular;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Where the daemon looks for definitions unless its configuration says otherwise.
pub const DEFAULT_DIRECTORY: &str = "/etc/cuzk/circuits";
/// The longest circuit name, in bytes.
pub const MAX_NAME: usize = 64;
/// The largest definition file that is read, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// What one definition file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CircuitDefinition {
    /// The proving key: bellman/bellperson `.params` or snarkjs `.zkey`.
    pub key: PathBuf,
    /// The circuit, `.cuzk` or iden3 `.r1cs`. A `.zkey` needs none; with one, the daemon can name the
    /// constraint that a bad witness does not satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit: Option<PathBuf>,
    /// Whether the daemon loads the circuit when it starts, rather than with its first use.
    #[serde(default = "preload_default")]
    pub preload: bool,
}

fn preload_default() -> bool {
    true
}

/// Why a definition cannot be used, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// The file or directory could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The text is no definition: bad TOML, an unknown or missing key, a wrong type.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's account, with line and key.
        message: String,
    },
    /// The name cannot be a circuit's.
    #[error(
        "circuit name {found:?}: wanted 1 to {MAX_NAME} letters, digits, '.', '_' or '-', the first a letter or digit"
    )]
    Name {
        /// The name found.
        found: String,
    },
    /// The definition exists and was not to be replaced.
    #[error("{} exists already", path.display())]
    Exists {
        /// The definition file.
        path: PathBuf,
    },
}

/// Whether `name` can be a circuit's: 1 to [`MAX_NAME`] ASCII letters, digits, `.`, `_` or `-`, the
/// first a letter or digit (so it is a plain file name, too).
///
/// # Errors
/// [`DefinitionError::Name`] where it cannot.
pub fn check_name(name: &str) -> Result<(), DefinitionError> {
    let bytes = name.as_bytes();
    let good = (1..=MAX_NAME).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b));
    if good { Ok(()) } else { Err(DefinitionError::Name { found: name.to_owned() }) }
}

/// The file that defines circuit `name` in `directory`.
pub fn path_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.toml"))
}

impl CircuitDefinition {
    /// Parses a definition; relative paths in it are taken from `path`'s directory.
    ///
    /// # Errors
    /// [`DefinitionError::Syntax`], which names `path`, the line and the key.
    pub fn parse(text: &str, path: &Path) -> Result<Self, DefinitionError> {
        let syntax = |message: String| DefinitionError::Syntax { path: path.to_owned(), message };
        let mut definition: Self =
            toml::from_str(text).map_err(|e| syntax(e.to_string().trim_end().into()))?;
        let base = path.parent().unwrap_or(Path::new(""));
        for (key, value) in [("key", Some(&mut definition.key)), ("circuit", definition.circuit.as_mut())] {
            let Some(value) = value else { continue };
            if value.as_os_str().is_empty() {
                return Err(syntax(format!("`{key}` is empty, wanted a path")));
            }
            *value = base.join(&*value);
        }
        Ok(definition)
    }

    /// Reads and parses the definition file `path`.
    ///
    /// # Errors
    /// [`DefinitionError::Io`] and [`DefinitionError::Syntax`].
    pub fn read(path: &Path) -> Result<Self, DefinitionError> {
        use io::Read;
        let failed = |source| DefinitionError::Io { path: path.to_owned(), source };
        let mut text = String::new();
        let file = open_regular(path).map_err(failed)?;
        file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_FILE {
            let message = format!("more than {MAX_FILE} bytes, wanted a circuit definition");
            return Err(DefinitionError::Syntax { path: path.to_owned(), message });
        }
        Self::parse(&text, path)
    }

    /// Reads every `*.toml` of `directory`, by circuit name. A definition that cannot be used is an error
    /// of its own, so that one bad file does not hide the others.
    ///
    /// # Errors
    /// [`DefinitionError::Io`] where the directory itself cannot be read.
    #[allow(clippy::type_complexity)]
    pub fn read_directory(
        directory: &Path,
    ) -> Result<BTreeMap<String, Result<Self, DefinitionError>>, DefinitionError> {
        let failed = |source| DefinitionError::Io { path: directory.to_owned(), source };
        let mut definitions = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_none_or(|e| e != "toml") {
                continue;
            }
            let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with('.') {
                continue; // an unfinished write
            }
            let definition = check_name(&name).and_then(|()| Self::read(&path));
            definitions.insert(name, definition);
        }
        Ok(definitions)
    }

    /// Writes the definition of circuit `name` into `directory`, whole or not at all, and returns its
    /// path. An existing one is replaced only if `replace` says so.
    ///
    /// # Errors
    /// [`DefinitionError::Name`], [`DefinitionError::Exists`], [`DefinitionError::Io`].
    pub fn write(&self, directory: &Path, name: &str, replace: bool) -> Result<PathBuf, DefinitionError> {
        check_name(name)?;
        let path = path_of(directory, name);
        let temporary = directory.join(format!(".{name}.{}.toml", std::process::id()));
        let text = toml::to_string(self)
            .map_err(|e| DefinitionError::Syntax { path: path.clone(), message: e.to_string() })?;
        let written = write_new(&temporary, text.as_bytes()).and_then(|()| {
            if replace {
                fs::rename(&temporary, &path)
            } else {
                // A link, unlike a rename, fails where the name is taken.
                fs::hard_link(&temporary, &path).and_then(|()| fs::remove_file(&temporary))
            }
        });
        let written = written.and_then(|()| fs::File::open(directory)?.sync_all());
        written.map_err(|source| {
            // The temporary file may not exist; the first error is the one to tell.
            let _ = fs::remove_file(&temporary);
            if source.kind() == io::ErrorKind::AlreadyExists && !replace {
                DefinitionError::Exists { path: path.clone() }
            } else {
                DefinitionError::Io { path: path.clone(), source }
            }
        })?;
        Ok(path)
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "porep-32g", "A.b_c-9", "9", &"x".repeat(MAX_NAME)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "-x", "_x", "a/b", "a b", "ä", "a\0", &"x".repeat(MAX_NAME + 1)]
        {
            let error = check_name(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }

    #[test]
    fn parses_and_resolves_relative_paths() {
        let at = Path::new("/etc/cuzk/circuits/spend.toml");
        let d =
            CircuitDefinition::parse("key = 'k.params'\ncircuit = '/c.cuzk'\npreload = false", at).unwrap();
        assert_eq!(d.key, Path::new("/etc/cuzk/circuits/k.params"));
        assert_eq!(d.circuit.as_deref(), Some(Path::new("/c.cuzk")));
        assert!(!d.preload);
        let d = CircuitDefinition::parse("key = '/k.zkey'", at).unwrap();
        assert_eq!(d, CircuitDefinition { key: "/k.zkey".into(), circuit: None, preload: true });
    }

    #[test]
    fn refuses_by_name() {
        for (text, wanted) in [
            ("", "key"),
            ("key = 1", "key"),
            ("key = ''", "`key` is empty"),
            ("key = 'k'\ncircuit = ''", "`circuit` is empty"),
            ("key = 'k'\npreload = 'yes'", "preload"),
            ("key = 'k'\ncolour = 'red'", "colour"),
            ("key = 'k'\nkey = 'l'", "key"),
            ("key", "line 1"),
        ] {
            let error = CircuitDefinition::parse(text, Path::new("/d/x.toml")).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains("/d/x.toml"), "{text:?}: {error}");
        }
    }

    #[test]
    fn writes_whole_and_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let first =
            CircuitDefinition { key: "/k.params".into(), circuit: Some("/c.cuzk".into()), preload: true };
        let second = CircuitDefinition { key: "/l.zkey".into(), circuit: None, preload: false };
        let path = first.write(dir.path(), "one", false).unwrap();
        assert!(matches!(second.write(dir.path(), "one", false), Err(DefinitionError::Exists { .. })));
        assert_eq!(CircuitDefinition::read(&path).unwrap(), first);
        second.write(dir.path(), "one", true).unwrap();
        first.write(dir.path(), "two", false).unwrap();
        assert!(matches!(first.write(dir.path(), "../x", false), Err(DefinitionError::Name { .. })));
        assert!(matches!(
            first.write(&dir.path().join("absent"), "x", false),
            Err(DefinitionError::Io { .. })
        ));
        fs::write(dir.path().join("bad.toml"), "key = 1").unwrap();
        fs::write(dir.path().join("notes.txt"), "not a definition").unwrap();

        let all = CircuitDefinition::read_directory(dir.path()).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["bad", "one", "two"]);
        assert_eq!(all["one"].as_ref().unwrap(), &second);
        assert_eq!(all["two"].as_ref().unwrap(), &first);
        assert!(all["bad"].is_err());
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 4, "no temporary file stays: {left:?}");
    }

    #[test]
    fn refuses_an_oversized_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big.toml");
        fs::write(&path, "#".repeat(MAX_FILE as usize + 1)).unwrap();
        assert!(matches!(CircuitDefinition::read(&path), Err(DefinitionError::Syntax { .. })));
    }
}
