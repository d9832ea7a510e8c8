//! Proving and verifying with other people's keys, circuits, provers and verifiers.
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
#[path = "../support/sapling.rs"]
mod statements;
mod support;
