//! The `cuzk` command as a user and a script meet it: the real programs, their answers, their exit statuses.
mod answers;
mod circuits;
mod generated;
mod proofs;
mod support;
