//! The protocol on real sockets: packets, descriptors, long replies, and every way to send them wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]
mod client;
mod packets;
mod peer;
mod support;
