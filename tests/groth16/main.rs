//! Proving and verifying with other people's keys, circuits, provers and verifiers.
mod bellman;
mod circom;
mod malformed;
mod random;
mod sapling;
#[path = "../support/sapling.rs"]
mod statements;
mod support;
