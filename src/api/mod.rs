//! What users write: the types of group `ray.io`, names and labels, CRD generation, validation.
//!
//! Knows serde, schemars and the Kubernetes types only. Types are lenient on purpose (optional fields, enums as

//! [`validation`].

pub mod names;
pub mod raycluster;

pub use raycluster::{RayCluster, RayClusterSpec, RayClusterStatus};
