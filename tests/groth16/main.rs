//! Proving and verifying with other people's keys, circuits, provers and verifiers.
mod circom;
mod malformed;
mod random;
mod support;
