//! The other API: Ray's dashboard. Asked outside of passes; answers enter `observe` as dated facts.

pub mod head;
pub mod nodes;
pub mod poller;
