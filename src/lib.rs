//! cuzk: a persistent Groth16 (BLS12-381) proving service for one host.
//!
//! Layers, each importing only from those above it in this list: `files` (written whole, opened if regular), `algebra`
//! (field, curves, transforms, multi-exponentiation), `r1cs` (circuits), `groth16` (keys, prover,
//! verifier), `gpu` (the same prover on a device), `formats` (other tools' files), `units` ("16GiB"), `catalog` (circuits
//! by name), `shm` (witness memory), `proto` (packets and messages), `documents` (what a
//! status says, as JSON), `client`, `daemon`, `cli`.
#[cfg(feature = "prover")]
pub mod algebra;
#[cfg(any(feature = "cli", feature = "daemon"))]
pub mod catalog;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "daemon")]
pub mod daemon;
#[cfg(any(feature = "cli", feature = "daemon"))]
pub mod documents;
#[cfg(feature = "prover")]
pub(crate) mod files;
#[cfg(feature = "prover")]
pub mod formats;
#[cfg(feature = "prover")]
pub mod gpu;
#[cfg(feature = "prover")]
pub mod groth16;
#[cfg(feature = "client")]
pub mod proto;
pub mod r1cs;
#[cfg(feature = "client")]
pub mod shm;
#[cfg(any(feature = "cli", feature = "daemon"))]
pub mod units;

/// What this build is: its version, and the commit it was built from where that is known.
pub const BUILD_ID: &str = env!("CUZK_BUILD_ID");
