//! The service: configuration, memory budget, circuits, jobs, scheduling, and the connections of clients.
pub mod budget;
pub mod config;
pub mod host;
pub mod jobs;
pub mod queue;
pub mod registry;
pub mod units;
pub mod users;
