//! The machine room: start order, leader election, metrics, health, logs, the client.

pub mod health;
pub mod leader;
pub mod logs;
pub mod metrics;
pub mod rotate;
pub mod signals;
