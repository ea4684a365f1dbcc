//! What is: watch tasks, small views of objects, an index by owner, work queues.

pub mod seen;
