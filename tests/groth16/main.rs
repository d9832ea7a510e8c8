//! Proving and verifying with other people's keys, circuits, provers and verifiers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
#[path = "../support/arkworks.rs"]
mod ark;
mod arkworks;
mod bellman;
mod circom;
mod malformed;
#[path = "../support/mimc.rs"]
mod mimc;
mod random;
mod sapling;
mod shapes;
#[path = "../support/sapling.rs"]
mod statements;
mod support;
#[path = "../support/synthetic.rs"]
mod synthetic;
