//! Other tools' files: bellman/bellperson parameters, snarkjs zkeys and JSON, iden3 circuits and witnesses.
pub mod bellman;
pub mod binfile;
pub mod bytes;
pub mod decimal;
pub mod error;
pub mod files;
pub mod iden3_r1cs;
pub mod iden3_wtns;
pub mod points;
pub mod snarkjs_json;
pub mod validated;
pub mod zkey;
pub use error::{Defect, FormatError};
