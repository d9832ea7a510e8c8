//! Circuits as their authors' libraries make them: recorded, compared with what bellman's and
//! bellpepper-core's own systems make of them, and their witnesses written.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod bellman;
mod bellpepper;
mod sapling;
