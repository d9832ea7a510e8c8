//! Witness memory: memfds that another process fills, their seals, and their mappings.
//!
//! Two kinds. A [lease](LeasedBuffer) is made by the daemon, which fixes its size and owns its seals, and
//! is written by the client through a [`LeaseMapping`]. A memfd of the client's [own](OwnBuffer) is
//! written and then sealed by the client, and passes [`ReceivedFd`] → [`SealedBuffer`] →
//! [`MappedWitness`] in the daemon, each step a type.
//!
//! Whatever another process can still write is never held as a slice: it is copied into private memory
//! first, and treated as untrusted at every read.
//!
//! # Faults
//!
//! A memfd sealed against shrinking has a page, or a hole that becomes one, for every byte of it, so an
//! access cannot meet the end of the file. What is left: a hole in a file of huge pages when their pool
//! is empty (a lease's holder may punch holes, and another lease may take the page), and a hole when
//! the memory cgroup is full. The daemon therefore copies a witness with `pread`, to which a hole is
//! zeros and a failure an error, and keeps the mapping for devices, which pin its pages before they
//! read.
mod lease;
mod mapping;
pub mod memfd;
mod own;
mod sealed;

pub use lease::{LeaseMapping, LeasedBuffer};
pub use memfd::{PageSize, Seals};
pub use own::{OwnBuffer, OwnMemfd};
pub use sealed::{MappedWitness, ReceivedFd, Refusal, SealedBuffer, Sharing};
