//! Witness memory: memfds that another process fills, their seals, and their mappings.
//!
//! Whatever another process can still write is read through raw pointers only, and treated as untrusted
//! at every read.
pub mod memfd;

pub use memfd::{PageSize, Seals};
