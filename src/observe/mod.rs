//! What is: watch tasks, small views of objects, an index by owner, work queues.

pub mod index;
pub mod seen;
pub mod triggers;
pub mod watch;
pub mod wire;
