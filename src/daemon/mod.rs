//! The service: configuration, memory budget, circuits, jobs, scheduling, and the connections of clients.
pub mod backend;
pub mod budget;
pub mod config;
pub mod cpu;
pub mod host;
pub mod jobs;
pub mod lease;
pub mod lifecycle;
pub mod queue;
pub mod registry;
pub mod scheduler;
pub mod server;
pub mod service;
mod session;
pub mod units;
pub mod users;
pub mod witness;
pub mod worker;
