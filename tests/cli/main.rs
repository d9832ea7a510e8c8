//! The `cuzk` command as a user and a script meet it: the real programs, their answers, their exit statuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
#[path = "../support/daemon.rs"]
mod daemon;

mod answers;
mod circuits;
mod generated;
mod proofs;
mod service;
mod specification;
mod support;
mod tour;
mod witnesses;
