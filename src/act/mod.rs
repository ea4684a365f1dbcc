//! Doing: the only code that writes to Kubernetes.

pub mod events;
pub mod hands;
mod own;
pub mod refusal;
pub mod status;
mod token;
mod view;
