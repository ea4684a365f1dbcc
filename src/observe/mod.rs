//! What is: watch tasks, small views of objects, an index by owner, work queues.

pub mod child;
pub mod index;
mod meta;
pub mod nodes;
pub mod seen;
pub mod triggers;
pub mod unreadable;
pub mod watch;
pub mod wire;
