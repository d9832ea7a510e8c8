//! The `cuzk` command as a user and a script meet it: the real programs, their answers, their exit statuses.
#[path = "../support/daemon.rs"]
mod daemon;

mod answers;
mod circuits;
mod generated;
mod proofs;
mod service;
mod support;
