//! What is wrong with a spec, beyond what the API server refuses.

pub struct Fault { pub field: String, pub message: String }
pub fn raycluster(_: &crate::api::RayCluster) -> Vec<Fault> { vec![] }
