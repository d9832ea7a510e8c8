//! The real daemon over its socket: from hello to the verified proof, and everything that can go wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
#[path = "../support/circuits.rs"]
mod circuits;
#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../support/manager.rs"]
mod manager;
#[path = "../support/peer.rs"]
mod peer;

mod faults;
mod hostile;
mod inside;
mod jobs;
mod life;
mod memory;
mod store;
mod users;

use circuits::Chain;
use cuzk::groth16::VerifyingKey;
use daemon::Builder;

/// A daemon with the circuit "chain" of so many squarings.
fn with_chain(length: usize) -> (Builder, Chain, VerifyingKey) {
    let builder = Builder::new();
    let chain = Chain { length };
    let (definition, key) = chain.write(builder.dir(), "chain");
    (builder.circuit("chain", &definition), chain, key)
}
