//! What can be wrong with a file: the section, the offset, what was found and what was wanted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
}
