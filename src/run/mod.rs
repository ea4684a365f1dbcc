//! The machine room: start order, leader election, metrics, health, logs, the client.

pub mod leader;
pub mod metrics;
