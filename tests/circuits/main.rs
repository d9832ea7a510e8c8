//! Circuits as their authors' libraries make them: recorded, compared with what bellman's and
//! bellpepper-core's own systems make of them, and their witnesses written.
mod bellman;
mod bellpepper;
mod sapling;
