//! The device prover: memory plans, launch sequences, and (feature `cuda`) the driver that carries them
//! out.
//!
//! What to launch, on which part of memory, in which order, is decided here without a device and without
//! `nvcc`; the same decisions run on a host emulation of the kernels in the tests. A `.cu` file under
//! `cuda/` and the `.rs` file of the same name belong together: their argument structures mirror each other.
pub mod device;
pub mod error;
#[cfg(feature = "fault-injection")]
pub mod fault;
pub mod field;
pub mod launch;
pub mod msm;
pub mod msm_plan;
pub mod msm_sort;
pub mod ntt;
pub mod plan;
pub mod points;
pub mod prover;
pub mod queue;
pub mod quotient;
pub mod setup;
pub mod space;
pub mod spmv;
pub mod unpack;

#[cfg(feature = "cuda")]
pub mod arena;
#[cfg(feature = "cuda")]
pub mod driver;
#[cfg(feature = "cuda")]
pub mod kernels;

pub use error::GpuError;
pub use launch::{DeviceSlice, Grid, Launcher};
pub use queue::{PageLocks, Queue};
