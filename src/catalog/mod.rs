//! Circuits by name: the definition files that say which key and which circuit belong to a name, and
//! the opening of both whatever format they are in. The daemon and the command line share it.
pub mod definition;
pub mod material;

pub use definition::{CircuitDefinition, DefinitionError, check_name};
pub use material::{FileKind, Material, MaterialError, key_bytes, open_circuit};
